"""NumPy on an asynchronous device: `step` enqueues its work in a thread and returns, `synchronize` waits for it.

Each step occupies the device for at least 20 ms on any machine, so that a wait in the wrong place, or a missing one,
shows in the times.
"""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from dlperf_numpy import worker

from dlperf_sdk.worker.interface import Step
from dlperf_sdk.worker.unsupported import Unsupported

BUSY = 0.02
"""Seconds for which a step occupies the device, in addition to its computation."""


class Runtime(worker.Runtime):
    clock = "lagged"

    def start(self):
        super().start()
        self.queue = ThreadPoolExecutor(1)
        self.last = None

    def enqueue(self, work, *arguments):
        self.last = self.queue.submit(work, *arguments)
        return self.last

    def synchronize(self):
        if self.last is not None:
            self.last.result()

    def wait(self, loss):
        loss.result()

    def peak_memory(self):
        return 1 << 20

    def stop(self):
        self.queue.shutdown()


class EventRuntime(Runtime):
    """The device, with events."""

    clock = "event"

    def mark(self):
        return self.enqueue(time.monotonic)

    def elapsed(self, marks):
        times = [mark.result() for mark in marks]
        return [after - before for before, after in itertools.pairwise(times)]


COMPILERS = {"none": None, "graph": None}


class Linear(worker.Linear):
    compilers = COMPILERS

    def step(self, batch):
        return Step(self.runtime.enqueue(self.work, batch), len(batch["x"]))

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.graph = None
        if request.compiler == "graph":
            self.graph = np.empty((request.batch_size, 1), np.float32)

    def work(self, batch):
        time.sleep(BUSY)
        return (super().step(batch) if self.graph is None else self.captured(batch)).loss

    def captured(self, batch):
        """Return the step, computed into one preallocated buffer, as a replayed graph does."""
        np.matmul(batch["x"], self.weights["weight"].T, out=self.graph)
        loss, slope = self.loss(self.graph, batch["y"])
        rate, gradient = self.request.optimizer["learning_rate"], slope.T @ batch["x"] / len(slope)
        self.weights["weight"] = self.weights["weight"] - np.float32(rate) * self.runtime.mean(gradient)
        return Step(loss, len(slope))

    def observed(self):
        return dict(super().observed(), compiler="none" if self.graph is None else "graph")

    def read_loss(self, loss):
        return [float(loss.result())]


class CompilerUnsupported(worker.Linear):
    """Correct: reports that the machine cannot run the compiler."""

    def __init__(self, runtime, request, process):
        if request.compiler == "graph":
            raise Unsupported("the compiler has no instructions for this processor; choose none")
        super().__init__(runtime, request, process)


class RecognizesArenaError(worker.Runtime):
    """Correct: recognizes the error that `toy_faults.FillsArena` raises."""

    def is_out_of_memory(self, error):
        return super().is_out_of_memory(error) or "arena is full" in str(error)
