"""The average of gradients over the replicas: on CPUs through the plugin's ring, on GPUs through MegEngine and NCCL.

An exchange has

- `transport`: the name of the way that the gradients take;
- `callbacks`: functions for `GradManager.attach`, which average each gradient in the backward pass; may be empty;
- `average(parameters)`: replaces the gradients of parameters by their averages over the replicas;
- `count`: the number of averages so far; with callbacks, of those that were attached;
- `close()`: leaves the group of replicas.
"""

import os

import megengine as mge
import megengine.distributed as dist
import numpy as np
from megengine.distributed.helper import pack_allreduce_split

from dlperf_megengine.worker.ring import Ring


class HostExchange:
    """The averaging of gradients on CPUs, between backward pass and update: MegEngine has no collectives for CPUs.

    The constructor connects this process to its neighbors in the ring.

    Args:
        request: The `Request` of the case.
        rank: Global index of this process's replica.
        size: Number of replicas.

    Raises:
        TimeoutError: A neighbor in the ring did not connect within the deadline of the phase `start`.
        OSError: The address in RING_ADDRESS cannot be listened at.
    """

    transport, callbacks = "ring", ()

    def __init__(self, request, rank, size):
        addresses = os.environ["RING_ADDRESS"], os.environ["RING_NEXT"]
        self._ring = Ring(request.id, rank, size, *addresses, request.deadlines["start"])
        self.count = 0

    def average(self, parameters):
        """Average the gradients of `parameters` over the replicas, in place, and return when this is done.

        Each call adds 1 to `count`, the number of averages so far. `parameters` is a list of MegEngine's parameters, in
        the same order on all replicas.

        Raises:
            ConnectionError: A neighbor in the ring has ended.
        """
        gradients = [parameter.grad.numpy() for parameter in parameters]
        flat = np.concatenate([gradient.reshape(-1) for gradient in gradients])
        self._ring.sum(flat)
        flat /= self._ring.size
        ends = np.cumsum([gradient.size for gradient in gradients])
        for parameter, gradient, values in zip(parameters, gradients, np.split(flat, ends[:-1])):
            parameter.grad = mge.Tensor(values.reshape(gradient.shape))
        self.count += 1

    def close(self):
        """Close the connections to the neighbors in the ring."""
        self._ring.close()


class NcclExchange:
    """The averaging of gradients on GPUs with MegEngine's all-reduce.

    It happens in the backward pass, or after the last micro-batch if there are several. The constructor selects the GPU
    of this process, and waits for the other processes. Rank 0 starts MegEngine's server, through which the processes
    meet.

    Args:
        request: The `Request` of the case.
        rank: Global index of this process's replica.
        size: Number of replicas.
    """

    transport = "nccl"

    def __init__(self, request, rank, size):
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._server = dist.Server(port) if rank == 0 else None
        dist.init_process_group(host, port, size, rank, device=0, backend="nccl", device_type="gpu")
        overlaps = request.accumulation == 1
        self.callbacks = (dist.make_allreduce_cb("mean"),) if overlaps else ()
        self.count = int(overlaps)

    def average(self, parameters):
        """Enqueue the averaging of the gradients of `parameters` over the replicas, in place.

        Each call adds 1 to `count`, the number of averages so far. But if the attribute `callbacks` is not empty, the
        backward pass has averaged the gradients already, and this does nothing. `parameters` is a list of MegEngine's
        parameters, in the same order on all replicas.
        """
        if self.callbacks:
            return
        gradients = [parameter.grad for parameter in parameters]
        shapes = [tuple(gradient.shape) for gradient in gradients]
        averages = pack_allreduce_split(gradients, shapes, dist.WORLD, "mean")
        for parameter, gradient in zip(parameters, averages):
            parameter.grad = gradient
        self.count += 1

    def close(self):
        """Wait until all other processes call this, too; end MegEngine's server if it runs in this process."""
        dist.group_barrier()
        self._server = None


EXCHANGES = {"cpu": HostExchange, "cuda": NcclExchange}
"""Kind of device → its exchange."""
