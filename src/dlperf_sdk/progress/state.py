"""Track the progress of a run from hook calls: no terminal, no clock of its own, nothing to draw."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

STEPPED = ("warmup", "measure")
"""The phases whose number of steps is known beforehand, in order."""

AT_ONCE = 0.1
"""Seconds: two reports that are nearer to each other than this were not sent so."""
SURE = 0.5
"""Seconds of steps from which on their pace means something."""

TITLES = {
    "start": "starting the workers",
    "compile": "compiling, first steps",
    "warmup": "warming up",
    "ready": "waiting for all workers",
    "measure": "measuring",
    "verify": "verifying the window",
    "teardown": "collecting the records",
    "done": "collecting the records",
}
"""Display names of the phases of `dlperf_sdk.worker.progress`."""


@frozen
class Course:
    """Steps, repeats and batch size of a run."""

    warmup: int
    steps: int
    repeats: int
    """The fewest."""
    max_repeats: int
    global_batch_size: int
    unit: str


def course_of(plan: Any) -> Course:
    """Return the numbers of steps and repeats, the global batch size and the throughput's unit of a plan."""
    protocol = plan.protocol
    return Course(
        protocol.warmup,
        protocol.steps,
        protocol.repeats,
        protocol.max_repeats,
        plan.spec.global_batch_size,
        plan.workload.unit,
    )


@define
class Advance:
    """Progress of a run. Times are seconds on the caller's monotonic clock."""

    course: Course
    attempt: int = 0
    phase: str = "start"
    step: int = 0
    started_at: float = 0.0
    """Start of this repeat."""
    throughputs: list[float] = field(factory=list)
    durations: list[float] = field(factory=list)
    """Of the finished repeats, from one's beginning to the end of its workers."""
    parity: float | None = None
    """Duration of the parity run in seconds, if one was made."""
    _parity_started_at: float | None = None
    _entered: dict[str, float] = field(factory=dict)
    """Start of each phase of this repeat."""
    _rests: dict[str, list[float]] = field(factory=dict)
    """Phase → seconds from its start to the end of the repeat, for each finished repeat."""
    _first: tuple[float, int] | None = None
    """Time of the first step reported in this phase, and its number."""
    _last: tuple[float, int] | None = None

    def record_stage(self, stage: str, now: float) -> None:
        """Record that a stage outside the repeats has begun at `now`, in seconds of the display's clock."""
        if stage == "parity" and self._parity_started_at is None:
            self._parity_started_at = now
        elif stage != "parity" and self._parity_started_at is not None and self.parity is None:
            self.parity = now - self._parity_started_at

    def start_repeat(self, attempt: int, now: float) -> None:
        """Record that the repeat numbered `attempt` has started at `now`, in seconds of the display's clock."""
        self.attempt, self.started_at = attempt, now
        self._entered = {}
        self._enter("start", now)

    def record_step(self, phase: str, step: int, now: float) -> None:
        """Record that a worker is in a phase at `now`, and has finished `step` of its steps."""
        if phase != self.phase:
            self._enter(phase, now)
        self.step = step
        # Workers report four times a second. Reports that were held up somewhere arrive at once, and only the
        # last of them is news.
        if self._first is None or now - self._first[0] < AT_ONCE:
            self._first = (now, step)
        self._last = (now, step)

    def end_repeat(self, throughput: float | None, now: float) -> None:
        """Record that a repeat has ended at `now`, with a throughput in samples per second; None if it failed."""
        self.durations.append(now - self.started_at)
        for phase, entered in self._entered.items():
            self._rests.setdefault(phase, []).append(now - entered)
        if throughput is not None:
            self.throughputs.append(throughput)

    def _enter(self, phase: str, now: float) -> None:
        self.phase, self.step = phase, 0
        self._entered.setdefault(phase, now)
        self._first = self._last = None

    @property
    def steps(self) -> int | None:
        """Return the number of steps in the current phase; None if it is not known."""
        return {"warmup": self.course.warmup, "measure": self.course.steps}.get(self.phase)

    @property
    def repeats(self) -> str:
        """Return the planned number of repeats: `7`, or `6 to 30`."""
        course = self.course
        return (
            str(course.repeats)
            if course.repeats == course.max_repeats
            else f"{course.repeats} to {course.max_repeats}"
        )

    @property
    def pace(self) -> float | None:
        """Steps per second in this phase, as far as that is known from outside."""
        if self.phase not in STEPPED or self._first is None or self._last is None:
            return None
        seconds, steps = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return steps / seconds if seconds >= SURE and steps > 0 else None

    @property
    def throughput(self) -> float | None:
        """Samples per second in this phase, as far as that is known from outside: no measurement."""
        return None if self.pace is None else self.pace * self.course.global_batch_size

    def seconds_left(self, now: float) -> float | None:
        """Return the estimated seconds from `now` until the minimum number of repeats is done; None if not known.

        The first repeat is estimated by the parity run, which starts the same workers, until the pace of its steps is
        known; later ones by the repeats before, phase by phase.
        """
        elapsed = now - self.started_at if self.attempt else 0.0
        after = max(0, self.course.repeats - max(1, self.attempt))
        rest = self._steps_left()
        if self.durations:
            if len(self.durations) < self.attempt:  # this repeat goes on
                rests = self._rests.get(self.phase, self.durations)
                passed = now - self._entered.get(self.phase, self.started_at)
                rest = max(rest or 0.0, sum(rests) / len(rests) - passed, 0.0)
            else:
                rest = 0.0
            return rest + after * sum(self.durations) / len(self.durations) or None
        if rest is None and self.parity is not None:
            rest = max(0.0, self.parity - elapsed)
        return None if rest is None else rest + after * (elapsed + rest)

    def _steps_left(self) -> float | None:
        """Return the seconds that the other steps of this repeat take at the pace of the phase; None without a pace."""
        if self.pace is None:
            return None
        steps = self.course.steps - self.step
        if self.phase == "warmup":
            steps = self.course.warmup - self.step + self.course.steps
        return max(0, steps) / self.pace
