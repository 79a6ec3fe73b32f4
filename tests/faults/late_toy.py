"""Trainers that are correct in their first eight steps only, which parity checks, or also after a reset."""

from dlperf_numpy import worker


class FaultFromStep8(worker.Linear):
    """Takes eight correct steps; `go_wrong` takes the others."""

    def train(self, batch, rate):
        return super().train(batch, rate) if self.steps <= 8 else self.go_wrong(batch, rate)

    def evaluate(self, batch):
        """Return the loss without an update."""
        return self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0]


class FaultUntilReset(FaultFromStep8):
    """Takes eight correct steps at the start and after a reset; `go_wrong` takes the others."""

    def reset(self):
        super().reset()
        self.first_step = self.steps

    def train(self, batch, rate):
        is_right = self.steps - self.first_step <= 8
        return worker.Linear.train(self, batch, rate) if is_right else self.go_wrong(batch, rate)
