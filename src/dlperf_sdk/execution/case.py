"""One case from its spec to its result: the flow of the whole project.

RunSpec → plan → environment, data, parity → bundle → launch → records → result

Each step is a method of `Case`: `begin`, `prepare`, `measure`, `trace`, `conclude`. `execute` takes one case through
all of them; a campaign takes many cases, one attempt at a time.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from attrs import define

from dlperf_sdk import environments
from dlperf_sdk.errors import DocumentError, InvalidRecord, RunFailed
from dlperf_sdk.execution.case_record import CaseRecord
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import check_parity, prepare_case
from dlperf_sdk.execution.summarize import summarize
from dlperf_sdk.execution.tracing import STEPS, take_trace
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.planning.secret_variables import conceal_secrets
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import remove_secrets
from dlperf_sdk.worker.dates import now


@define
class Case(CaseRecord):
    """One case, from its spec to its result, with everything that was recorded about it so far.

    Only its own methods change it.
    """

    @classmethod
    def begin(
        cls,
        spec: RunSpec,
        store: ResultStore | str | Path | None,
        observers: Observers,
        registry: Registry,
        *,
        run_id: str | None = None,
        started_at: str | None = None,
        refusal: Failure | None = None,
    ) -> Case:
        """Plan a case, create its directory and write the spec into it. Nothing is started.

        If planning raises a `RunFailed`, such as `Unsupported`, it is the failure of the returned case, which has no
        plan. A case that was begun before continues under its `run_id`: the attempts on disk are read back.

        Args:
            spec: The case.
            store: The store, or its directory, in which the run's directory is created; None to store nothing.
            observers: The observers of the case.
            registry: The plugins.
            run_id: The run's name; None for a new one.
            started_at: The start of a case that was begun before, in UTC and ISO 8601; None for now.
            refusal: Reason why the case cannot be run: it becomes the case's failure, and the case is not planned. None
                to plan the case.

        Raises:
            UsageError: The case is invalid, or the store cannot be written.
            PluginError: A plugin does not work.
        """
        plan, failure = None, refusal
        try:
            plan = make_plan(spec, registry) if refusal is None else None
        except RunFailed as error:
            failure = Failure(error.kind, remove_secrets(str(error)))
        spec = conceal_secrets(spec, registry)[0] if plan is None else plan.spec
        id = run_id or new_run_id(spec, datetime.now(UTC))
        case = cls(id, spec, registry, observers, started_at or now(), plan, failure)
        if store is not None:
            results = store if isinstance(store, ResultStore) else ResultStore(Path(store))
            case._open_directory(results, resume=run_id is not None)
        return case

    def prepare(self, environment_from: Environment | None = None) -> None:
        """Prepare the environment and the data of the case.

        A `RunFailed`, or a lack of a resource such as memory or disk, is not raised: it becomes the case's failure,
        which ends the case. Does nothing for a case that was refused or has failed.

        Args:
            environment_from: The environment of an earlier result, to be rebuilt from its lock; None for the case's
                own.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; it is also recorded as the case's failure.
            SpecError: An environment variable of the spec has a salted hash as its value, so it cannot be set.
            DocumentError: The lock of `environment_from` is malformed.
            PluginError: A plugin does not work.
            StoreError: The plan or the environment cannot be written.
        """
        if self.plan is None or self.failure is not None:
            return
        with self.record_failures():
            self.announce()
            prepared = prepare_case(self.plan, environment_from, self.report)
            self.record_environment(prepared.describe_environment())
            self._prepared = prepared

    def check_parity(self, reference_case: str | None = None, *, use_cache: bool = True) -> None:
        """Check that the first steps of the trainer follow the model's reference.

        Does nothing for a case that is not prepared or has failed. No failure of the parity run is raised. After a
        crash, a timeout or an invalid record, the parity verdict fails. Any other failure, such as a lost node, becomes
        the case's failure.

        Args:
            reference_case: Name of the case of the model's reference to compare with, such as `small`; None for the one
                that fits the learning-rate policy of the spec.
            use_cache: True to accept the evidence of an earlier parity run, which may have been on another node of the
                launcher.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; it is also recorded as the case's failure.
            PluginError: A plugin does not work.
            StoreError: The evidence cannot be written.
        """
        if self._prepared is None or self.failure is not None:
            return
        with self.record_failures():
            self.record_parity(
                check_parity(
                    self.id, self._prepared, reference_case, self.registry, self.report, use_cache=use_cache
                )
            )

    def measure(self, attempt: int | None = None, deadline: float | None = None) -> None:
        """Take all repeats of the protocol, or only one, each in new processes.

        A `RunFailed`, or a lack of a resource such as memory or disk, is not raised: it becomes the case's failure.
        Does nothing for a case that is not prepared or has failed. All processes have ended when this returns or
        raises.

        Args:
            attempt: Number of the one repeat to take, counted from 1; None for all.
            deadline: A time on the monotonic clock, in seconds, at which the case fails with a timeout; None for no
                limit.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; it is recorded as the case's failure, and finished repeats are kept.
            PluginError: The plugin's files cannot be packed.
            StoreError: The records cannot be written.
        """
        if self._prepared is None or self.failure is not None:
            return
        prepared, request = self._prepared, self._prepared.request(self.id, attempt)
        parity = self._parity_run or self.parity
        with self.record_failures(), environments.use_environment(prepared.environment):
            stream = launch(prepared.plan, request, self.registry, deadline, self.report, parity)
            with closing(stream):
                for event in stream:
                    self.record_event(event)
        self._parity_run = None

    def trace(self) -> None:
        """Take an extra attempt under the framework's profiler, and write the traces into the run's directory.

        The attempt is part of no metric. The result gets a summary of each trace, and a note that names the traces or
        the reason why there are none: a failure of the attempt, of a plugin, of the store, or for lack of a resource is
        not raised. Does nothing for a case that has no directory, is not prepared or has failed.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. All processes have ended, and the case has no failure for it.
        """
        if self.directory is None or self._prepared is None or self.failure is not None:
            return
        self.report("trace", f"{STEPS} steps in separate processes")
        self.traces, sentences = take_trace(self.id, self._prepared, self.registry, self.directory)
        self.note(*sentences)

    def conclude(self, *, write: bool = True, finished_at: str | None = None) -> Result:
        """Return the result of everything that was recorded, and notify the observers of it.

        Args:
            write: True to write the result to the store, if there is one; False not to write it.
            finished_at: The end of a run that took place before, on another machine, in UTC and ISO 8601; None for
                now.

        Raises:
            StoreError: The result cannot be written; the observers have not been notified.
            InvalidRecord: The result breaks its own schema; nothing was written, and the observers have not been
                notified.
            PluginError: A measurer that was not needed before cannot be loaded.
        """
        # A start on another machine, or before this one's clock was set, may be later than now.
        result = summarize(self, finished_at or max(now(), self.started_at))
        if write and self.directory is not None:
            try:
                self.directory.write_result(result)
            except DocumentError as error:
                raise InvalidRecord(f"The result of {self.id} was not written: {error}") from error
        if result.failure is not None:
            self.observers.notify("dlperf_error", run_id=self.id, failure=result.failure)
        self.observers.notify("dlperf_result", run_id=self.id, result=result)
        return result

    def conclude_invalid(self, error: InvalidRecord) -> Result:
        """Return a failed result after `conclude` raised `InvalidRecord`, and notify the observers of it.

        The result has `error` as its failure, and no repeats, notes, hardware, parity and traces. The attempts stay on
        disk.

        Raises:
            StoreError: The result cannot be written; the observers have not been notified.
        """
        self.failure = Failure(error.kind, remove_secrets(str(error)))
        self.repeats, self.notes, self.hardware, self.parity, self.traces = [], [], (), None, ()
        return self.conclude()

    def announce(self) -> None:
        """Write the plan, then notify the observers that the case starts. Does nothing for a case that was refused.

        Raises:
            StoreError: The plan cannot be written.
        """
        if self.plan is None:
            return
        if self.directory is not None:
            self.directory.write_plan(self.plan.to_dict())
        place = None if self.directory is None else str(self.directory.path)
        self.observers.notify("dlperf_run_started", run_id=self.id, plan=self.plan, directory=place)

    def _open_directory(self, store: ResultStore, resume: bool) -> None:
        """Make the directory, or reopen it and read the attempts back; write the spec."""
        if resume and (store.directory / self.id).is_dir():
            self.directory = store.reopen_run(self.id)
            for attempt in store.recover(self.id).attempts:
                if attempt.failure is None:  # a failure of an earlier session does not count in this one
                    self.repeats.append(attempt.repeat)
                self.hardware = attempt.nodes or self.hardware
                self.notes += attempt.notes
            self._notes_written = len(self.notes)
        else:
            self.directory = store.open_run(self.id)
        self.directory.write_spec(self.spec)
