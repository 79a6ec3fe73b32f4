"""Everything that was recorded about a case so far: each event of its run, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from attrs import define, field

from dlperf_sdk.documents.field_types import LONGEST_NOTE
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import InvalidRecord, RunFailed, StoreError
from dlperf_sdk.execution.damaged_environment import add_repair_advice
from dlperf_sdk.execution.prepare import PreparedCase
from dlperf_sdk.execution.resource_failures import resource_failure
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.parity.evidence import ParityRun, evaluate_parity
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results import metrics
from dlperf_sdk.results.agent_events import (
    attempt_outcome,
    failure_from,
    nodes_from,
    text_from,
    valid_attempt,
)
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.result import Environment, Parity, Stopping
from dlperf_sdk.results.run_directory import RunDirectory
from dlperf_sdk.results.trace_summary import TraceSummary
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import remove_secrets
from dlperf_sdk.worker.agent.stopping import decide

MOST_NOTES = 1000
"""Maximum number of notes of one result, but for the sentence that others are left out."""


@define
class CaseRecord:
    """Everything that has been recorded about a case so far: environment, repeats, parity, notes, failure and others.

    Only its own methods and those of `Case` change it. Attempts are written to its directory before an observer is
    notified of them.
    """

    id: str
    """Name of the run."""
    spec: RunSpec
    """The case, with hashes in place of secret values."""
    registry: Registry
    """The plugins."""
    observers: Observers
    """The observers of the run."""
    started_at: str
    """Start of the case, in UTC and ISO 8601."""
    plan: Plan | None
    """None if the case was refused."""
    failure: Failure | None = None
    """The failure that ended the case; None if it has not failed."""
    directory: RunDirectory | None = None
    """The run's directory in the store; None without a store."""
    environment: Environment | None = None
    """Environment of the workers; None until it is recorded."""
    hardware: tuple[Mapping[str, Any], ...] = ()
    """Description of each node, as it reports itself."""
    repeats: list[Repeat] = field(factory=list)
    """Finished repeats, in the order in which they were taken."""
    notes: list[str] = field(factory=list)
    """Notes for the result, as sentences."""
    parity: Parity | None = None
    """Evidence of parity; None if there is none yet."""
    traces: tuple[TraceSummary, ...] = ()
    """Summaries of the traces, by rank."""
    _prepared: PreparedCase | None = None
    _parity_run: ParityRun | None = None
    """The parity run that the first launch takes, before anything is measured."""
    _notes_written: int = 0
    """Number of notes that belong to attempts that are over."""

    def report(self, stage: str, detail: str) -> None:
        """Notify the observers of one line of progress.

        Args:
            stage: Name of the stage, such as `environment` or `parity`.
            detail: The line; values of secret variables are removed from it.
        """
        self.observers.notify("dlperf_stage", run_id=self.id, stage=stage, detail=remove_secrets(detail))

    def note(self, *sentences: str) -> None:
        """Add sentences to the result's notes, without values of secret variables.

        A sentence of more than `LONGEST_NOTE` (4000) characters is cut. After `MOST_NOTES` (1000) notes, one sentence
        says that others are left out, and no further one is added.
        """
        for sentence in sentences:
            if len(self.notes) < MOST_NOTES:
                self.notes.append(cut_note(remove_secrets(sentence)))
            elif len(self.notes) == MOST_NOTES:
                self.notes.append(f"Notes after the first {MOST_NOTES:,} are left out.")

    def fail(self, failure: Failure | None) -> None:
        """Record `failure` as that of the case, unless the case has one already or `failure` is None."""
        self.failure = self.failure or failure

    def withdraw_failure(self) -> None:
        """Remove the recorded failure, if there is one, so that the case can continue.

        This is for failures that the case did not cause, such as the end of a session's time.
        """
        self.failure = None

    def record_store_failure(self, error: StoreError) -> None:
        """Record an error of the store, as the case's failure, or as a note if the case has failed already.

        The failure has the kind `unavailable`.
        """
        text = str(error) if self.directory is None else str(error).replace(f"{self.directory.path}/", "")
        message = f"The store failed in the middle of the run: {text} What had been written before is kept."
        if self.failure is None:
            self.failure = Failure("unavailable", message)
        elif self.failure.message != message:
            self.note(message)

    @contextmanager
    def record_failures(self) -> Iterator[None]:
        """Return a context manager that records some exceptions of its block as the case's failure.

        - `RunFailed`, and exceptions that show that a resource of this machine ran out, are recorded and suppressed.
        - `KeyboardInterrupt` is recorded and raised again. An exception that is raised while a `KeyboardInterrupt` is
          handled, such as a `RuntimeError` of Python's own locks, is replaced by a `KeyboardInterrupt`.
        - All other exceptions pass through and are not recorded.
        """
        try:
            yield
        except BaseException as error:
            if _is_interruption(error):
                self.failure = Failure("interrupted", "The run was interrupted; finished repeats are kept.")
                raise KeyboardInterrupt from error
            failure = resource_failure(error)
            if isinstance(error, RunFailed):
                failure = error.failure or Failure(error.kind, str(error))
                failure = attrs.evolve(failure, message=remove_secrets(failure.message))
            if failure is None:
                raise
            self.failure = failure

    def record_environment(self, environment: Environment) -> None:
        """Record the environment of the workers, and write it to the run's directory.

        Raises:
            StoreError: The environment cannot be written.
        """
        self.environment = environment
        if self.directory is not None:
            self.directory.write_environment(environment)

    def record_parity(self, parity: Parity | ParityRun) -> None:
        """Record the outcome of the parity check. Nothing is written or started.

        Args:
            parity: The evidence; or a parity run that has not been started, which the next launch runs before the
                repeats.
        """
        if isinstance(parity, ParityRun):
            self._parity_run = parity
        else:
            self.parity = parity

    def stopping(self) -> Stopping | None:
        """Return the stopping rule and its outcome; None if it requires more repeats than have finished.

        The rule is `fixed` for a protocol with a fixed number of repeats, else `adaptive`. A failure of the case is not
        considered.
        """
        rates = [metrics.throughput(repeat) for repeat in self.repeats]
        decision = decide(rates, attrs.asdict(self.spec.resolved_protocol()))
        return Stopping(decision.rule, decision.met, decision.detail) if decision.stop else None

    def record_event(self, event: Mapping[str, Any]) -> None:
        """Record one event of agent 0. A finished repeat is on disk when this returns.

        A failure in an event becomes the case's failure. Events that are not recorded here, such as `progress`, are
        forwarded to the observers.

        Args:
            event: The event, as agent 0 sent it; it is validated here.

        Raises:
            InvalidRecord: The event, or a record in it, breaks the protocol; the rest of the stream is useless.
            RunFailed: The parity run failed for a reason that ends the case as well.
            StoreError: The attempt or a log cannot be written.
        """
        try:
            match event["event"]:
                case "agents-ready":
                    self.hardware = nodes_from(event, self.spec.topology.nodes)
                case "parity-ended":
                    if self._parity_run is not None:
                        self.parity = evaluate_parity(self._parity_run, event)
                case "note":
                    self.note(text := text_from(event))
                    self.report("note", text)
                case "attempt-ended":
                    self._end_attempt(event)
                case "log":
                    if self.directory is not None:
                        self.directory.append_log(event)
                case "ended":
                    if event["failure"] is not None:
                        self.fail(self._add_advice(failure_from(event["failure"])))
                    elif self.failure is None and not self.repeats:
                        raise InvalidRecord("Node 0 reports the end of the run, but no repeat was returned.")
                case _:
                    self.observers.forward(self.id, event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord(
                f"The event {format_value(event.get('event'))} from node 0 breaks the protocol: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _add_advice(self, failure: Failure) -> Failure:
        return add_repair_advice(failure, self._prepared.environment if self._prepared else None)

    def _end_attempt(self, event: Mapping[str, Any]) -> None:
        outcome = attempt_outcome(event)
        if isinstance(outcome, Failure):
            outcome = self._add_advice(outcome)
            self.failure, status, throughput = outcome, outcome.kind, None
            stored = valid_attempt(event, outcome)
        else:
            stored = {**event}
            # Added before it is written: an interruption in between must not make result and attempts differ.
            self.repeats.append(outcome)
            status, throughput = "ok", metrics.throughput(outcome)
        if self.directory is not None:
            notes = self.notes[self._notes_written :]
            self.directory.write_attempt({**stored, "nodes": list(self.hardware), "notes": notes})
        self._notes_written = len(self.notes)
        self.observers.notify(
            "dlperf_repeat_ended",
            run_id=self.id,
            attempt=event["attempt"],
            status=status,
            throughput=throughput,
        )
        if isinstance(outcome, Failure) and event["failure"] is None:
            raise InvalidRecord(outcome.message)


def cut_note(text: str) -> str:
    """Return a text as a note of at most `LONGEST_NOTE` (4000) characters; a longer one is cut and ends with `…`."""
    return text if len(text) <= LONGEST_NOTE else f"{text[: LONGEST_NOTE - 1]}…"


def _is_interruption(error: BaseException | None) -> bool:
    """Return True for a KeyboardInterrupt, and for what was raised while one was being handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
