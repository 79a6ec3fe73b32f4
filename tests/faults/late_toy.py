"""NumPy, right in its first eight steps: what parity and the first losses look at; or also behind a reset."""

from dlperf_numpy import worker


class FromTheNinthStep(worker.Linear):
    """Takes eight right steps; `go_wrong` takes the others."""

    def train(self, batch, rate):
        return super().train(batch, rate) if self.steps <= 8 else self.go_wrong(batch, rate)

    def evaluate(self, batch):
        """Return the loss, and leave the weights."""
        return self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0]


class UntilTheReset(FromTheNinthStep):
    """Goes wrong from the ninth step on, and takes eight right steps again behind the reset."""

    def reset(self):
        super().reset()
        self.first_step = self.steps

    def train(self, batch, rate):
        is_right = self.steps - self.first_step <= 8
        return worker.Linear.train(self, batch, rate) if is_right else self.go_wrong(batch, rate)
