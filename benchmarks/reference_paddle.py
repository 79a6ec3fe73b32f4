"""The Paddle plugin's ResNet-50 against paddle.vision's in a plain loop: same work, one process, blocks in turns.

    python scripts/in_environment.py paddle --with attrs -- benchmarks/reference_paddle.py

Theirs: `paddle.vision.models.resnet50`, which is v1.5, in the loop that Paddle's guide to training teaches: forward,
`cross_entropy`, `backward`, `optimizer.step`, `clear_grad`. What makes the work equal is in `against.py`. There is no
row for bf16: on a CPU Paddle's `auto_cast` changes nothing.
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
    """Return their side: paddle.vision's model, eager, on our trainer's canonical batch."""
    import paddle
    import paddle.nn.functional as F  # noqa: N812 (as everybody calls it)

    model = paddle.vision.models.resnet50(num_classes=request.model_options["num_classes"])
    model.train()
    numbers = request.optimizer
    optimizer = paddle.optimizer.Momentum(
        numbers["learning_rate"], numbers["momentum"], parameters=model.parameters()
    )
    batch = trainer.canonical_batch()
    losses: list[Any] = [None]

    def step() -> None:
        loss = F.cross_entropy(model(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses[0] = loss.detach()

    return Theirs(
        step,
        lambda: float(losses[0]),
        sum(parameter.size for parameter in model.parameters() if not parameter.stop_gradient),
        (flops(trainer.network, batch["image"]), flops(model, batch["image"])),
    )


def flops(network: Any, image: Any) -> float:
    """Return the FLOPs of convolutions and linear layers in one forward pass of a network on images.

    `paddle.flops` fails with this NumPy.
    """
    import paddle

    actual = [0]

    def count(layer: Any, _: Any, output: Any) -> None:
        # A kernel has (out, in, height, width), a linear layer's weight (in, out).
        inner = layer.weight.shape[1:] if len(layer.weight.shape) == 4 else layer.weight.shape[:1]
        actual[0] += 2 * math.prod(inner) * math.prod(output.shape)

    layers = [item for item in network.sublayers() if isinstance(item, (paddle.nn.Conv2D, paddle.nn.Linear))]
    hooks = [layer.register_forward_post_hook(count) for layer in layers]
    with paddle.no_grad():
        network(image)
    for hook in hooks:
        hook.remove()
    return float(actual[0])


if __name__ == "__main__":
    sys.exit(against.main(__doc__, "dlperf_paddle.framework:Paddle", ("paddlepaddle",), {"fp32": make}))
