"""Track the progress of a run from hook calls, without a terminal or a clock."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

STEPPED = ("warmup", "measure")
"""The phases whose number of steps is known beforehand, in order."""

AT_ONCE = 0.1
"""Seconds within which two reports count as delayed ones that arrived together."""
SURE = 0.5
"""Minimum seconds between two reports from which a pace is computed."""

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
    """Numbers of steps and repeats of a run, its batch size and its unit."""

    warmup: int
    """Number of warm-up steps."""
    steps: int
    """Number of steps in the window."""
    repeats: int
    """The smallest number of repeats."""
    max_repeats: int
    """The largest number of repeats."""
    global_batch_size: int
    """Samples per step over all devices."""
    unit: str
    """Unit of the throughput, such as `img/s`."""


def course_of(plan: Any) -> Course:
    """Return the facts of a plan by which its progress is computed: steps, repeats, global batch size and unit.

    Args:
        plan: A `dlperf_sdk.planning.plan.Plan`.
    """
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
    """Numbers of the run."""
    attempt: int = 0
    """Number of the current repeat, counted from 1; 0 before the first."""
    phase: str = "start"
    """Current phase."""
    step: int = 0
    """Number of steps done in the current phase."""
    started_at: float = 0.0
    """Start of the current repeat."""
    throughputs: list[float] = field(factory=list)
    """Throughput of each repeat that succeeded, in samples per second."""
    durations: list[float] = field(factory=list)
    """Seconds of each finished repeat, from its start to the end of its workers."""
    parity: float | None = None
    """Duration of the parity run in seconds; None if there was none, or it has not ended."""
    _parity_started_at: float | None = None
    _entered: dict[str, float] = field(factory=dict)
    """Start of each phase of this repeat."""
    _rests: dict[str, list[float]] = field(factory=dict)
    """Phase → seconds from its start to the end of the repeat, for each finished repeat."""
    _first: tuple[float, int] | None = None
    """Time of the first step reported in this phase, and its number."""
    _last: tuple[float, int] | None = None

    def record_stage(self, stage: str, now: float) -> None:
        """Record the start or the end of the parity run, from the stage of a line of progress.

        The attribute `parity` becomes the seconds from the first line of the stage `parity` to the next line of another
        stage. Other lines have no effect.

        Args:
            stage: The stage, such as `parity`.
            now: The time on the caller's clock, in seconds.
        """
        if stage == "parity" and self._parity_started_at is None:
            self._parity_started_at = now
        elif stage != "parity" and self._parity_started_at is not None and self.parity is None:
            self.parity = now - self._parity_started_at

    def start_repeat(self, attempt: int, now: float) -> None:
        """Record the start of a repeat, which begins with the phase `start`.

        Args:
            attempt: Number of the repeat, counted from 1.
            now: The time on the caller's clock, in seconds.
        """
        self.attempt, self.started_at = attempt, now
        self._entered = {}
        self._enter("start", now)

    def record_step(self, phase: str, step: int, now: float) -> None:
        """Record a report of a worker on its progress. If `phase` is not the current phase, it begins now.

        Args:
            phase: The phase of the worker.
            step: Number of steps that are done in this phase.
            now: The time on the caller's clock, in seconds.
        """
        if phase != self.phase:
            self._enter(phase, now)
        self.step = step
        # Workers report four times a second. Reports that were held up somewhere arrive at once, and only the
        # last of them is current.
        if self._first is None or now - self._first[0] < AT_ONCE:
            self._first = (now, step)
        self._last = (now, step)

    def end_repeat(self, throughput: float | None, now: float) -> None:
        """Record the end of the current repeat.

        Args:
            throughput: Samples per second over all devices; None if the repeat failed.
            now: The time on the caller's clock, in seconds.
        """
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
        """Number of steps of the current phase; None for a phase other than `warmup` and `measure`."""
        return {"warmup": self.course.warmup, "measure": self.course.steps}.get(self.phase)

    @property
    def repeats(self) -> str:
        """The planned number of repeats as text: `7`, or `6 to 30`."""
        course = self.course
        return (
            str(course.repeats)
            if course.repeats == course.max_repeats
            else f"{course.repeats} to {course.max_repeats}"
        )

    @property
    def pace(self) -> float | None:
        """Steps per second in the current phase, from the first to the last report.

        None for a phase other than `warmup` and `measure`, and until these two reports are `SURE` (0.5) seconds apart.
        """
        if self.phase not in STEPPED or self._first is None or self._last is None:
            return None
        seconds, steps = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return steps / seconds if seconds >= SURE and steps > 0 else None

    @property
    def throughput(self) -> float | None:
        """Samples per second over all devices in the current phase, from the reports so far: an estimate.

        None if the pace of the phase is not known.
        """
        return None if self.pace is None else self.pace * self.course.global_batch_size

    def seconds_left(self, now: float) -> float | None:
        """Estimate the seconds until the protocol's smallest number of repeats is done.

        In a repeat beyond that number, estimate the seconds until this repeat ends. Until the first repeat has a known
        pace, its duration is taken from the parity run, which starts the same workers. Later repeats are estimated
        from the earlier ones, phase by phase.

        Args:
            now: The time on the caller's clock, in seconds.

        Returns:
            The seconds, more than 0. None if they cannot be estimated yet, if the smallest number of repeats is done
            and no repeat is running, or if the last repeat takes longer than estimated.
        """
        elapsed = now - self.started_at if self.attempt else 0.0
        after = max(0, self.course.repeats - max(1, self.attempt))
        rest = self._steps_left()
        if self.durations:
            if len(self.durations) < self.attempt:  # this repeat has not ended
                rests = self._rests.get(self.phase, self.durations)
                passed = now - self._entered.get(self.phase, self.started_at)
                rest = max(rest or 0.0, sum(rests) / len(rests) - passed, 0.0)
            else:
                rest = 0.0
            return rest + after * sum(self.durations) / len(self.durations) or None
        if rest is None and self.parity is not None:
            rest = max(0.0, self.parity - elapsed)
        return None if rest is None else rest + after * (elapsed + rest) or None

    def _steps_left(self) -> float | None:
        """Return the seconds that the other steps of this repeat take at the pace of the phase; None without a pace."""
        if self.pace is None:
            return None
        steps = self.course.steps - self.step
        if self.phase == "warmup":
            steps = self.course.warmup - self.step + self.course.steps
        return max(0, steps) / self.pace
