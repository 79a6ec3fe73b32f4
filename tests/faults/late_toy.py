"""NumPy, right in its first eight steps: what parity and the first losses look at."""

from dlperf_numpy import worker


class FromTheNinthStep(worker.Linear):
    """Takes eight right steps; `go_wrong` takes the others."""

    def train(self, batch, rate):
        return super().train(batch, rate) if self.steps <= 8 else self.go_wrong(batch, rate)

    def evaluate(self, batch):
        """Return the loss, and leave the weights."""
        return self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0]
