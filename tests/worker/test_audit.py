"""The audit: the first steps again, with dropout's masks where the framework can be seeded."""

from __future__ import annotations

import random

import pytest

from dlperf_sdk.worker.audit import repeat_first_steps
from dlperf_sdk.worker.interface import Runtime, Step, Trainer
from dlperf_sdk.worker.progress import Progress

STEPS = 3


class Seeded(Runtime):
    def __init__(self):
        self.random = random.Random(0)

    def seed(self):
        self.random.seed(7)
        return True


class Unseeded(Seeded):
    def seed(self):
        return False


class Dropping(Trainer):
    """Its loss is its count of steps, and what it draws."""

    def __init__(self, runtime):
        self.runtime, self.steps = runtime, 0

    def canonical_batch(self):
        return None

    def step(self, batch):
        self.steps += 1
        return Step(self.steps + self.runtime.random.random(), 1)

    def read_loss(self, loss):
        return [loss]

    def reset(self):
        self.steps = 0


@pytest.fixture
def audit(tmp_path):
    def audit_of(trainer):
        protocol = {"canonical_steps": STEPS}
        return repeat_first_steps(trainer.runtime, trainer, protocol, Progress(str(tmp_path / "progress")))

    return audit_of


@pytest.mark.parametrize(("runtime", "is_repeated"), [(Seeded, True), (Unseeded, False)])
def test_masks_repeat_where_the_framework_is_seeded(runtime, is_repeated, audit):
    trainer = Dropping(runtime())
    trainer.runtime.seed()
    first = [[trainer.step(None).loss] for _ in range(STEPS)]
    actual = audit(trainer)
    assert (actual["audit_losses"] == first) is is_repeated
    assert actual["audit_seeded"] is is_repeated
    assert len(actual["audit_step_times"]) == STEPS


def test_no_audit_without_a_reset(audit):
    trainer = Dropping(Seeded())
    trainer.reset = lambda: Trainer.reset(trainer)
    assert audit(trainer) == {"audit_losses": [], "audit_step_times": [], "audit_seeded": False}
