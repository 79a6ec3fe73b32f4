"""In the syntax of Python 3.8, for a plugin that declares 3.7."""

from dlperf_numpy import worker


class Linear(worker.Linear):
    def loss(self, z, y):
        if (size := len(y)) < 1:
            raise ValueError(size)
        return super().loss(z, y)
