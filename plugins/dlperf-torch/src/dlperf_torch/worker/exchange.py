"""The exchange of gradients: DistributedDataParallel, and all-reduces over its buckets without a backward pass."""

import inspect

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from dlperf_sdk.worker.exchange import Buffer, GradientExchange

STEPS_TO_REBUILD = 2
"""Training steps after which DistributedDataParallel has its final buckets, in the order in which gradients come."""

_KNOWN = inspect.signature(DistributedDataParallel).parameters
# torch 2.11 knows only the second name, 2.13 warns of it.
_SYNC_BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers"


def wrap_network(network, request):
    """Return the network with gradients averaged over the replicas; batch norm's statistics stay their own."""
    return DistributedDataParallel(
        network,
        **{_SYNC_BUFFERS: False},
        init_sync=False,
        gradient_as_bucket_view=True,
        bucket_cap_mb=request.framework_options["bucket_cap_mb"],
    )


class BucketExchange(GradientExchange):
    """The buckets of a wrapped network, averaged as DistributedDataParallel averages them.

    Args:
        replicated: The `DistributedDataParallel`.
        train: Function that takes one training step. It is called to find the buckets.
    """

    def __init__(self, replicated, train):
        self._replicas = dist.get_world_size()
        self._steps = []
        replicated.register_comm_hook(self, _record_bucket)
        for _ in range(STEPS_TO_REBUILD):
            self._steps.append([])
            train()
        self._buckets = self._steps[-1]

    def record(self, bucket):
        """Note one bucket of a training step, whose gradients are then averaged."""
        self._steps[-1].append(bucket.buffer())

    def run(self):
        """Enqueue the all-reduce of all buckets, and wait for it on the device, as the end of a backward pass does."""
        works = []
        for bucket in self._buckets:
            bucket.div_(self._replicas)
            works.append(dist.all_reduce(bucket, async_op=True))
        for work in works:
            work.wait()

    def fill(self, values):
        """Set all elements of the buckets to the value of this process's replica."""
        for bucket in self._buckets:
            bucket.fill_(values[0])

    def read(self, replica):
        """Yield the buckets in the order of their exchange, widened to float32."""
        for number, bucket in enumerate(self._buckets):
            values = bucket.detach().to("cpu", torch.float32).numpy()
            yield Buffer("bucket %d" % number, values, bucket.numel() * bucket.element_size())


def _record_bucket(exchange, bucket):
    """Average a bucket, after the exchange has noted it. DistributedDataParallel calls this in the backward pass."""
    exchange.record(bucket)
    buffer = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])
