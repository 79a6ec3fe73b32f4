"""Worker half of a framework whose parts take known times: the NumPy plugin of the examples, which sleeps.

A batch is taken in `INPUT` seconds before a step begins. A step computes for `COMPUTE` seconds; after half of them
the gradients are exchanged, for `EXCHANGE` seconds in a thread of its own.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from dlperf_numpy import worker

COMPUTE, EXCHANGE, INPUT = 0.040, 0.030, 0.010
EXPOSED = EXCHANGE - COMPUTE / 2
"""Seconds by which the exchange lengthens a step."""


class Runtime(worker.Runtime):
    """The NumPy runtime with a slow network."""

    def mean(self, array):
        """Return the mean over all replicas, `EXCHANGE` seconds later if there are several."""
        if self.syncs_gradients and self.cluster.world_size > 1:
            time.sleep(EXCHANGE)
        return super().mean(array)


class Linear(worker.Linear):
    """The trainer with a slow processor and slow input."""

    def train(self, batch, rate):
        """Take one step, which exchanges gradients during the second half of its computation."""
        with ThreadPoolExecutor(1) as network:
            time.sleep(COMPUTE / 2)
            loss, slope = self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])
            mean = network.submit(self.runtime.mean, slope.T @ batch["x"] / len(slope))
            time.sleep(COMPUTE / 2)
            self.weights["weight"] -= rate * mean.result()
        return loss

    def place(self, batches):
        """Return the batch of the process's replica, `INPUT` seconds later."""
        time.sleep(INPUT)
        return super().place(batches)
