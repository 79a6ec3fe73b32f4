"""The exchange of gradients alone: the collectives that a step runs, as a separate program."""

import numpy as np

from dlperf_jax.worker.replicas import SPLIT
from dlperf_sdk.worker.exchange import Buffer, GradientExchange


class TreeExchange(GradientExchange):
    """Arrays with the gradients' shapes and types, averaged over the replicas as `Replicas.average` does it in a step.

    Args:
        runtime: The `JaxRuntime`, whose `newest` is set to the arrays, so that `synchronize` waits for them.
        replicas: The `Replicas`.
        gradients: Dict: a parameter's name → an object with `shape` and `dtype` of one replica's gradient.
    """

    def __init__(self, runtime, replicas, gradients):
        self._runtime, self._replicas, self._gradients = runtime, replicas, gradients
        self.fill([0.0] * len(replicas.local_devices))
        program = replicas.program(replicas.average, SPLIT, SPLIT)
        self._average = program.lower(self._arrays).compile()

    def run(self):
        """Enqueue the averaging of all arrays; return the mean of the first one, a handle for `Runtime.wait`."""
        self._arrays = self._runtime.newest = self._average(self._arrays)
        return next(iter(self._arrays.values()))

    def fill(self, values):
        """Set all elements of a replica's arrays to the replica's number in `values`.

        `values` has one number per replica of this process, in the order of the replicas.
        """
        # Each replica has its part of the first axis, as a step's gradients have.
        self._arrays = self._runtime.newest = {
            name: self._replicas.place(
                [np.full(gradient.shape or (1,), value, gradient.dtype) for value in values], SPLIT
            )
            for name, gradient in self._gradients.items()
        }

    def read(self, replica):
        """Yield a `dlperf_sdk.worker.exchange.Buffer` for each array of one replica.

        Its `values` are converted to float32; its `bytes` are those of the array's own type. `replica` is the replica's
        index within this process, from 0.
        """
        for name, array in self._arrays.items():
            values = self._replicas.read(array)[replica]
            yield Buffer(name, values.astype(np.float32), values.nbytes)
