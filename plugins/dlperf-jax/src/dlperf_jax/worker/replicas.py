"""Replicas: one per device of a mesh, some of them this process's, and the programs that run on all of them.

A value is either `COPIED`, each replica having a copy of its own, or `SPLIT`: of what the first axis joins each replica
has its part. Nothing but `Replicas.average` makes copies equal.
"""

import jax
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "replica"
COPIED, SPLIT = PartitionSpec(), PartitionSpec(AXIS)


class Replicas:
    """The replicas that train together, on these devices."""

    def __init__(self, devices):
        self.mesh = Mesh(np.array(devices), (AXIS,))
        self.local_devices = list(self.mesh.local_devices)
        """This process's devices, in the order of its replicas."""

    def place(self, values, spec):
        """Return one array over all replicas of `values`, of this process's replicas in order, in memory of its own.

        With the spec `SPLIT`, the values are parts of the array; with `COPIED`, equal copies of it.
        """
        parts = [
            jax.device_put(value, device, may_alias=False)
            for value, device in zip(values, self.local_devices)
        ]
        rows, *rest = parts[0].shape or (1,)
        shape = (rows * self.mesh.size, *rest) if spec == SPLIT else parts[0].shape
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, spec), parts)

    def read(self, array):
        """Return each of this process's replicas' part or copy as a NumPy array."""
        parts = {shard.device: shard.data for shard in array.addressable_shards}
        return [np.asarray(parts[device]) for device in self.local_devices]

    def program(self, function, inputs, outputs, donates=()):
        """Return `function`, which computes for one replica, compiled for all of them.

        `inputs` and `outputs` say of each argument and result how it lies: `COPIED` or `SPLIT`. The memory of the
        arguments that `donates` counts is taken for the results. Batch norm's statistics stay each replica's own.
        """
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        return jax.jit(mapped, donate_argnums=donates)

    def average(self, values):
        """Return the means of the replicas' values, inside a program.

        XLA combines the collectives of a GPU, and runs those of CPUs one after another, each with its own waiting: so
        CPUs average one array that holds all values.
        """
        if self.mesh.size == 1 or self.local_devices[0].platform != "cpu":
            return lax.pmean(values, AXIS)
        joined, split = ravel_pytree(values)
        return split(lax.pmean(joined, AXIS))
