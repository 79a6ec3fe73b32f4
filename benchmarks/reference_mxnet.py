"""The MXNet plugin's ResNet-50 against gluoncv's in a plain loop: same work, one process, blocks in turns.

    python scripts/in_environment.py mxnet --with attrs --with 'numpy<1.24' --with 'opencv-python<4.9' \
      --with 'scipy<1.11' --with 'matplotlib<3.8' --with 'pandas<2.1' --with pillow --with tqdm --with portalocker \
      --with yacs --with pyyaml --with-alone gluoncv==0.10.5.post0 -- benchmarks/reference_mxnet.py

Theirs: gluoncv's `resnet50_v1b`, which is v1.5 (gluon's own `resnet50_v1` is not), in the loop that gluon's guide
teaches: record, `SoftmaxCrossEntropyLoss`, `backward`, `Trainer.step`. Both sides are hybridized with static memory and
shapes, as gluoncv's training script does. What makes the work equal is in `against.py`.
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
    """Return their side: gluoncv's model, hybridized, on our trainer's canonical batch."""
    import mxnet as mx
    from gluoncv.model_zoo import resnet50_v1b
    from mxnet import autograd, gluon

    network = resnet50_v1b(pretrained=False, classes=request.model_options["num_classes"])
    network.initialize(mx.init.MSRAPrelu())
    (batch,) = trainer.canonical_batch()
    again = trainer.build(request.model_options)
    again.initialize()
    work = flops(again, batch["image"]), flops(network, batch["image"])
    network.hybridize(static_alloc=True, static_shape=True)
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    numbers = request.optimizer
    updates = gluon.Trainer(
        network.collect_params(),
        "sgd",
        {"learning_rate": numbers["learning_rate"], "momentum": numbers["momentum"]},
    )
    losses: list[Any] = [None]

    def step() -> None:
        with autograd.record():
            loss = criterion(network(batch["image"]), batch["label"])
        loss.backward()
        updates.step(request.batch_size)
        losses[0] = loss

    trained = [item for item in network.collect_params().values() if item.grad_req != "null"]
    return Theirs(
        step,
        lambda: float(losses[0].mean().asscalar()),
        sum(math.prod(parameter.shape) for parameter in trained),
        work,
    )


def flops(network: Any, image: Any) -> float:
    """Return the FLOPs of convolutions and linear layers in one imperative forward pass of a network on images."""
    from mxnet.gluon import nn

    actual = [0]

    def count(layer: Any, _: Any, output: Any) -> None:
        # A kernel has (out, in, height, width), a linear layer's weight (out, in).
        actual[0] += 2 * math.prod(layer.weight.shape[1:]) * math.prod(output.shape)

    def watch(layer: Any) -> None:
        if isinstance(layer, (nn.Conv2D, nn.Dense)):
            hooks.append(layer.register_forward_hook(count))

    hooks: list[Any] = []
    network.apply(watch)
    network(image).wait_to_read()
    for hook in hooks:
        hook.detach()
    return float(actual[0])


if __name__ == "__main__":
    sys.exit(
        against.main(__doc__, "dlperf_mxnet.framework:MXNet", ("mxnet", "gluoncv"), {"fp32": make}, "graph")
    )
