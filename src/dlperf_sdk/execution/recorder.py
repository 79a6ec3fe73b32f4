"""Agent 0's events, taken one by one: told to the observers, put on disk, kept as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from dlperf_sdk.documents.json_values import shown
from dlperf_sdk.errors import DocumentError, InvalidRecord, RunFailed
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.results import metrics
from dlperf_sdk.results.agent_events import failure_from, repeat_from
from dlperf_sdk.results.convert import Attempt
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.result import Environment, Stopping
from dlperf_sdk.results.run_directory import RunDirectory


@define
class Collector:
    """What has come back of one case so far."""

    run_id: str
    observers: Observers
    directory: RunDirectory | None
    environment: Environment | None = None
    repeats: list[Repeat] = field(factory=list)
    hardware: tuple[Mapping[str, Any], ...] = ()
    failure: Failure | None = None
    stopping: Stopping | None = None
    notes: list[str] = field(factory=list)
    _noted: int = 0
    """How many of the notes belong to attempts that are over."""

    def stage(self, name: str) -> Callable[[str], None]:
        """What tells the observers how a stage goes, in a line of text."""
        return lambda text: self.observers.tell("dlperf_stage", run_id=self.run_id, stage=name, detail=text)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """What fails inside is collected as the case's failure.

        Raises:
            KeyboardInterrupt: as it was, once that is collected.
        """
        try:
            yield
        except RunFailed as error:
            self.failure = Failure(error.kind, str(error))
        except KeyboardInterrupt:
            said = "The run was interrupted; the repeats that had finished are kept."
            self.failure = Failure("interrupted", said)
            raise

    def runs_in(self, environment: Environment) -> None:
        """What the workers run in; with a directory it is written.

        Raises:
            StoreError: it cannot be.
        """
        self.environment = environment
        if self.directory is not None:
            self.directory.write_environment(environment)

    def restore(self, attempt: Attempt) -> None:
        """An attempt that an earlier controller has put on disk. What failed then is no failure of what follows."""
        if attempt.failure is None:
            self.repeats.append(attempt.repeat)
        self.hardware = attempt.nodes or self.hardware
        self.notes += attempt.notes
        self._noted = len(self.notes)

    def take(self, event: Mapping[str, Any]) -> None:
        """One event. A finished repeat is on disk when this returns.

        Raises:
            InvalidRecord: the event, or a record in it, breaks the protocol; there is no use in going on.
            StoreError: it cannot be written.
        """
        try:
            self._take(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord(
                f"The first node's agent told of {shown(event.get('event'))} in a way that breaks the protocol: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _take(self, event: Mapping[str, Any]) -> None:
        tell, run_id = self.observers.tell, self.run_id
        match event["event"]:
            case "agents-ready":
                self.hardware = tuple(event["nodes"])
            case "attempt-started":
                tell("dlperf_repeat_started", run_id=run_id, attempt=event["attempt"])
            case "worker-started":
                told = {key: event[key] for key in ("attempt", "node", "name", "pid")}
                tell("dlperf_worker_started", run_id=run_id, **told)
            case "progress":
                told = {key: event[key] for key in ("attempt", "node", "rank", "phase", "step")}
                tell("dlperf_step_progress", run_id=run_id, **told)
            case "note":
                self.notes.append(event["text"])
                self.stage("note")(event["text"])
            case "attempt-ended":
                self._attempt_ended(event)
            case "ended":
                if event["failure"] is not None and self.failure is None:
                    self.failure = failure_from(event["failure"])
                elif self.failure is None and not self.repeats:
                    raise InvalidRecord(
                        "The run ended well, as the first node's agent says, but no repeat has come back."
                    )
                if event["stopping"] is not None:
                    self.stopping = Stopping(**event["stopping"])

    def _attempt_ended(self, event: Mapping[str, Any]) -> None:
        status, throughput, refused = "ok", None, None
        if event["failure"] is not None:
            self.failure = failure_from(event["failure"])
            status = self.failure.kind
        else:
            try:
                repeat = repeat_from(event)
            except DocumentError as error:
                refused = InvalidRecord(f"A worker's record breaks the protocol: {error}")
                status = refused.kind
            else:
                # Before it is written: an interruption in between must not part the result from the attempts.
                self.repeats.append(repeat)
                throughput = metrics.throughput(repeat)
        if self.directory is not None:
            notes = self.notes[self._noted :]
            self.directory.write_attempt({**event, "nodes": list(self.hardware), "notes": notes})
        self._noted = len(self.notes)
        self.observers.tell(
            "dlperf_repeat_ended",
            run_id=self.run_id,
            attempt=event["attempt"],
            status=status,
            throughput=throughput,
        )
        if refused is not None:
            raise refused
