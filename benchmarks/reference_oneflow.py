"""The OneFlow plugin's ResNet-50 against flowvision's in a plain loop: same work, one process, blocks in turns.

    python scripts/in_environment.py oneflow --with attrs --with flowvision==0.2.1 --with 'numpy<1.24' \\
      -- benchmarks/reference_oneflow.py

Theirs: flowvision's `resnet50`, which is v1.5, in the loop that OneFlow's guide teaches: forward, `CrossEntropyLoss`,
`backward`, `optimizer.step`, `zero_grad`; eager on both sides. What makes the work equal is in `against.py`. There is
no row for mixed precision: on a CPU OneFlow's `autocast` changes nothing.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import against
from against import Theirs

from dlperf_sdk.worker.interface import Trainer
from dlperf_sdk.worker.request import Request


def make(request: Request, trainer: Trainer) -> Theirs:
    """Return their side: flowvision's model, eager, on our trainer's canonical batch."""
    import oneflow as flow
    from flowvision.models import resnet50

    options = request.model_options
    classes = options["num_classes"]
    network = resnet50(num_classes=classes).train()
    criterion = flow.nn.CrossEntropyLoss()
    numbers = request.optimizer
    optimizer = flow.optim.SGD(
        network.parameters(), lr=numbers["learning_rate"], momentum=numbers["momentum"]
    )
    batch = trainer.canonical_batch()
    losses: list[Any] = [None]

    def step() -> None:
        loss = criterion(network(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[0] = loss.detach()

    return Theirs(
        step,
        lambda: float(losses[0].item()),
        sum(parameter.numel() for parameter in network.parameters()),
        (flops(trainer.build(options), batch["image"]), flops(resnet50(num_classes=classes), batch["image"])),
    )


def flops(network: Any, image: Any) -> float:
    """Return the FLOPs of convolutions and linear layers in one forward pass of a network on images.

    The hooks that count them stay in the network, so nobody else may use it.
    """
    import oneflow as flow

    actual = [0]

    def count(layer: Any, _: Any, output: Any) -> None:
        # A kernel has (out, in, height, width), a linear layer's weight (out, in).
        actual[0] += 2 * math.prod(layer.weight.shape[1:]) * math.prod(output.shape)

    for layer in network.modules():
        if isinstance(layer, (flow.nn.Conv2d, flow.nn.Linear)):
            layer.register_forward_hook(count)
    with flow.no_grad():
        network(image)
    return float(actual[0])


if __name__ == "__main__":
    sys.exit(
        against.main(__doc__, "dlperf_oneflow.framework:OneFlow", ("oneflow", "flowvision"), {"fp32": make})
    )
