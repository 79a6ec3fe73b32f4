"""Track the progress of a run from hook calls: no terminal, no clock of its own, nothing to draw."""

from __future__ import annotations

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


@define
class Advance:
    """Progress of a run. Times are seconds on the caller's monotonic clock."""

    course: Course
    attempt: int = 0
    phase: str = "start"
    step: int = 0
    began: float = 0.0
    """Start of this repeat."""
    throughputs: list[float] = field(factory=list)
    durations: list[float] = field(factory=list)
    """Of the finished repeats, from one's beginning to the end of its workers."""
    _first: tuple[float, int] | None = None
    """Time of the first step reported in this phase, and its number."""
    _last: tuple[float, int] | None = None

    def repeat_started(self, attempt: int, now: float) -> None:
        """Record the start of a repeat."""
        self.attempt, self.began = attempt, now
        self._enter("start")

    def record_step(self, phase: str, step: int, now: float) -> None:
        """Record that a worker is in a phase and has finished `step` of its steps."""
        if phase != self.phase:
            self._enter(phase)
        self.step = step
        # Workers report four times a second. Reports that were held up somewhere arrive at once, and only the
        # last of them is news.
        if self._first is None or now - self._first[0] < AT_ONCE:
            self._first = (now, step)
        self._last = (now, step)

    def repeat_ended(self, throughput: float | None, now: float) -> None:
        """Record the end of a repeat; `throughput` is None if it failed."""
        self.durations.append(now - self.began)
        if throughput is not None:
            self.throughputs.append(throughput)

    def _enter(self, phase: str) -> None:
        self.phase, self.step = phase, 0
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
        """Return the estimated seconds until the minimum number of repeats is done; None if it is not known."""
        elapsed = now - self.began
        after = max(0, self.course.repeats - self.attempt)
        if self.durations:
            usual = sum(self.durations) / len(self.durations)
            remaining = usual - elapsed
            return remaining + after * usual if remaining > 0 else after * usual or None
        if self.pace is None:
            return None
        steps = self.course.steps - self.step
        if self.phase == "warmup":
            steps = self.course.warmup - self.step + self.course.steps
        rest = max(0, steps) / self.pace
        return rest + after * (elapsed + rest)
