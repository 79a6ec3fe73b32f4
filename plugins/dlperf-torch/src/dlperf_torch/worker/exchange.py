"""The exchange of gradients: DistributedDataParallel, and all-reduces over its buckets without a backward pass.

`worker.horovod` has that of the strategy `horovod`.
"""

import contextlib
import inspect
from typing import Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from dlperf_sdk.worker.exchange import Buffer, GradientExchange

STEPS_TO_REBUILD = 2
"""Training steps after which DistributedDataParallel has its final buckets, in the order in which gradients come."""

_KNOWN = inspect.signature(DistributedDataParallel).parameters
# torch 2.11 knows only the second name, 2.13 warns of it.
_SYNC_BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers"


class Alone:
    """No synchronization of gradients, for one replica or the strategy `independent`; the base of the other strategies.

    Args:
        network: The network, an `nn.Module` on the device.
        request: The request.
    """

    strategy: Optional[str] = None
    """Name of the strategy by which gradients are averaged; None for none."""

    def __init__(self, network, request):
        self.replicated = network
        """The network as the step calls it."""

    def defer(self):
        """Return a context manager in which backward passes do not average gradients; here, it does nothing."""
        return contextlib.nullcontext()

    def finish(self):
        """Wait until the gradients are the means over all replicas; here, return at once."""

    def gradient_exchange(self, train):
        """Raise NotImplementedError; a subclass returns a `GradientExchange` of its buffers of gradients.

        `train` is a function without arguments that takes one training step. A subclass calls it to learn its buffers;
        here it is not called.

        Raises:
            NotImplementedError: Always: without synchronization, no gradients are exchanged.
        """
        raise NotImplementedError("there are no gradients to exchange")


class AllReduce(Alone):
    """torch's DistributedDataParallel, which averages buckets of gradients during the backward pass.

    The statistics of batch norm are not synchronized, so that they differ between replicas.

    Args:
        network: The network, an `nn.Module` on the device.
        request: The request; its option `bucket_cap_mb` is read.
    """

    strategy = "all_reduce"

    def __init__(self, network, request):
        self.replicated = DistributedDataParallel(
            network,
            **{_SYNC_BUFFERS: False},
            init_sync=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=request.framework_options["bucket_cap_mb"],
        )

    def defer(self):
        """Return a context manager, `no_sync` of the network, in which backward passes do not average gradients."""
        return self.replicated.no_sync()

    def gradient_exchange(self, train):
        """Return a `BucketExchange` of the buckets of gradients that a training step averages.

        `train` is a function without arguments that takes one training step. It is called twice, to find the buckets.
        The communication hook that notes them stays registered on the network.
        """
        return BucketExchange(self.replicated, train)


class BucketExchange(GradientExchange):
    """The buckets of gradients of a wrapped network, averaged as DistributedDataParallel averages them.

    Args:
        replicated: The network, a `DistributedDataParallel`. A hook that calls `record` stays registered on it.
        train: Function without arguments that takes one training step. It is called twice, to find the buckets.
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
        """Note the buffer of `bucket`, a `GradBucket` that the backward pass of a training step is about to average."""
        self._steps[-1].append(bucket.buffer())

    def run(self):
        """Average all buckets over the replicas, in place.

        On a CPU, this waits until the averaging has finished. On a GPU it may return earlier: operations that are
        enqueued on the current stream afterwards wait for the averaging.
        """
        works = []
        for bucket in self._buckets:
            bucket.div_(self._replicas)
            works.append(dist.all_reduce(bucket, async_op=True))
        for work in works:
            work.wait()

    def fill(self, values):
        """Set all elements of the buckets to `values[0]`, the value of this process's one replica."""
        for bucket in self._buckets:
            bucket.fill_(values[0])

    def read(self, replica):
        """Yield a `Buffer` for each bucket, in the order of their exchange, with its values widened to float32.

        `replica` is not used: a process has one replica.
        """
        for number, bucket in enumerate(self._buckets):
            values = bucket.detach().to("cpu", torch.float32).numpy()
            yield Buffer("bucket %d" % number, values, bucket.numel() * bucket.element_size())


def _record_bucket(exchange, bucket):
    """Average a bucket, after the exchange has noted it. DistributedDataParallel calls this in the backward pass."""
    exchange.record(bucket)
    buffer = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])
