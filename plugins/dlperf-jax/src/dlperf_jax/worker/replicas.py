"""The replicas on the devices of a mesh, some of them this process's, and the programs that run on all.

An array is either `COPIED`, so that each replica has its own copy, or `SPLIT` along the first axis, so that each
replica has its part. Copies can differ: only `Replicas.average` makes them equal.
"""

import jax
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "replica"
COPIED, SPLIT = PartitionSpec(), PartitionSpec(AXIS)
"""How an array lies on the replicas: a copy on each, or a part of the first axis on each."""


class Replicas:
    """The replicas that train together: one per device, those of other processes included.

    Args:
        devices: JAX's devices, in the order of the replicas.
    """

    def __init__(self, devices):
        self.mesh = Mesh(np.array(devices), (AXIS,))
        self.local_devices = list(self.mesh.local_devices)
        """This process's devices, in the order of its replicas."""

    def place(self, values, spec):
        """Return one array over all replicas, in new memory on their devices.

        Args:
            values: A NumPy array for each replica of this process, in order; all of the same shape. With `SPLIT`, each
                is the replica's part of the result's first axis; with `COPIED`, each is the replica's copy of the
                result.
            spec: `SPLIT` or `COPIED`.
        """
        parts = [
            jax.device_put(value, device, may_alias=False)
            for value, device in zip(values, self.local_devices)
        ]
        rows, *rest = parts[0].shape or (1,)
        shape = (rows * self.mesh.size, *rest) if spec == SPLIT else parts[0].shape
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, spec), parts)

    def read(self, array):
        """Wait for the values of `array`, an array over all replicas, and return those of this process.

        Returns:
            A list of a NumPy array for each replica of this process, in order: its part of `array` if that is `SPLIT`,
            or its copy if it is `COPIED`.
        """
        parts = {shard.device: shard.data for shard in array.addressable_shards}
        return [np.asarray(parts[device]) for device in self.local_devices]

    def program(self, function, inputs, outputs, donates=()):
        """Return a function, compiled by JAX, that runs `function` on every replica.

        The returned function takes and returns arrays over all replicas. An array is `SPLIT` if each replica has its
        part of the first axis, and `COPIED` if each replica has a copy.

        Args:
            function: A function of one replica's arrays, which returns one replica's arrays.
            inputs: A tuple with `COPIED` or `SPLIT` for each argument, or one of them for all. For an argument that is
                a tree, a tree of them is possible, too.
            outputs: The same for the results.
            donates: Index, or indices, of the arguments whose memory the results may take; the caller cannot use these
                arguments after a call.
        """
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        return jax.jit(mapped, donate_argnums=donates)

    def average(self, values):
        """Return the tree `values` of one replica's arrays, averaged over all replicas.

        Call it only in a function that is passed to `program`. On CPUs, all arrays are joined and averaged in one
        collective, since XLA runs several collectives one after another. On GPUs, XLA combines them itself.
        """
        if self.mesh.size == 1 or self.local_devices[0].platform != "cpu":
            return lax.pmean(values, AXIS)
        joined, split = ravel_pytree(values)
        return split(lax.pmean(joined, AXIS))
