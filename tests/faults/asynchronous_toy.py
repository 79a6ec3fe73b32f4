"""NumPy on a device that works by itself: `step` hands its work to a thread and returns, `synchronize` waits.

Each step takes the device some milliseconds whatever the machine does meanwhile, so that a host that waits where it
must not, or does not where it must, can be seen.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from dlperf_numpy import worker

from dlperf_sdk.worker import interface

BUSY = 0.02
"""Seconds that the device takes for a step."""


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


class Linear(worker.Linear):
    def step(self, batch):
        return interface.Step(self.runtime.enqueue(self.work, batch), len(batch["x"]))

    def work(self, batch):
        time.sleep(BUSY)
        return super().step(batch).loss

    def read_loss(self, loss):
        return [float(loss.result())]
