"""The exchange of gradients alone: the collectives that a step runs, as a separate program."""

import numpy as np

from dlperf_jax.worker.replicas import SPLIT
from dlperf_sdk.worker.exchange import Buffer, GradientExchange


class TreeExchange(GradientExchange):
    """A tree of arrays of the gradients' shapes and types, averaged as `Replicas.average` does in a step.

    Args:
        runtime: The runtime, which waits for the newest arrays.
        replicas: The `Replicas`.
        gradients: Name of a parameter → shape and type of one replica's gradient.
    """

    def __init__(self, runtime, replicas, gradients):
        self._runtime, self._replicas, self._gradients = runtime, replicas, gradients
        self.fill([0.0] * len(replicas.local_devices))
        program = replicas.program(replicas.average, SPLIT, SPLIT)
        self._average = program.lower(self._arrays).compile()

    def run(self):
        """Enqueue the average of all arrays; return one of them, as a handle for `Runtime.wait`."""
        self._arrays = self._runtime.newest = self._average(self._arrays)
        return next(iter(self._arrays.values()))

    def fill(self, values):
        """Set all elements to one value per replica of this process; `values` are in the order of the replicas."""
        # Each replica has its part of the first axis, as a step's gradients have.
        self._arrays = self._runtime.newest = {
            name: self._replicas.place(
                [np.full(gradient.shape or (1,), value, gradient.dtype) for value in values], SPLIT
            )
            for name, gradient in self._gradients.items()
        }

    def read(self, replica):
        """Yield the arrays of one replica, widened to float32; `replica` counts those of this process from 0."""
        for name, array in self._arrays.items():
            values = self._replicas.read(array)[replica]
            yield Buffer(name, values.astype(np.float32), values.nbytes)
