"""Make a result from the stream of a run alone: of an attached job, or of a machine without dlperf.

Such a stream begins with an event `case`, which holds the case's spec and environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk import data
from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.environments.prepared import CONTAINER, GIVEN, PreparedEnvironment
from dlperf_sdk.errors import (
    DocumentError,
    InvalidRecord,
    LostNode,
    SpecError,
    StoreError,
    UnknownName,
    UsageError,
)
from dlperf_sdk.execution.case import Case
from dlperf_sdk.execution.launch import bundle_metadata, make_job
from dlperf_sdk.folders import CAMPAIGNS
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.topology import AttachedJob, Submission
from dlperf_sdk.launchers.stream_events import parse_event
from dlperf_sdk.parity.evidence import ParityRun, make_unknown_parity, plan_parity_run
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.planning.secret_variables import redact_variables, secret_names
from dlperf_sdk.planning.spec_file import declaration_lookup, list_restricted_settings
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import attempt_outcome
from dlperf_sdk.results.convert import parity_from_dict, to_plain
from dlperf_sdk.results.files import check_replaceable, explain_os_errors
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.store import ResultStore, campaign_of, check_id, new_run_id
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import reveal

_WORD = re.compile(r"[\x21-\x7e]{1,200}")
"""Name or version of a package, as `lock.txt` may contain it."""
_CLOCK_ERROR = timedelta(days=1)
"""How far the clock of the machine that ran a case may be ahead of this one's."""


def replay(
    lines: Iterable[bytes],
    store: ResultStore | str | Path,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
) -> Result:
    """Make a result from an event stream as if its case had been run on this machine; store and return it.

    Attempts that the store already has, because the controller was lost in the middle, are kept. A failure of the
    run, such as a stream that stops early, is in the result's `failure`.

    Args:
        lines: The lines of the stream, each a JSON object in UTF-8; lines that are no event are left out.
        store: The store, or its directory, in which the run's directory is created or continued.
        observers: Objects with hook implementations.
        registry: The plugins; None for the installed ones.

    Raises:
        DocumentError: The stream does not describe its case, or the description breaks the schema.
        SpecError: The case names a file that planning it here would read.
        UsageError: The case cannot be planned here, or the store cannot be written.
        StoreError: The store has other measurements of the run, or its complete result while this stream fails.
        PluginError: A plugin, or a given observer, does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
        KeyboardInterrupt: Ctrl-C was pressed. Attempts that were read are in the store; no result was written.
    """
    return _replay(lines, store, Observers.load(observers), registry or Registry())


def _replay(
    lines: Iterable[bytes],
    store: ResultStore | str | Path,
    observers: Observers,
    registry: Registry,
    waiting: Callable[[str], None] = lambda text: None,
) -> Result:
    """Store the result of a stream, and call `waiting` with each new reason for which the run waits in a queue."""
    events = (event for event in map(parse_event, lines) if event is not None)
    first = next(_skip_to_start(events, waiting), None)
    if first is None:
        raise DocumentError("No line is an event of a run. Expected the events.jsonl that a bundle writes.")
    if first["event"] == "ended":
        failure = first.get("failure")
        reason = f": {failure.get('message')}" if isinstance(failure, Mapping) else ""
        raise DocumentError(f"The run ended before it described its case{reason}.")
    try:
        spec, run_id, started = RunSpec.from_dict(first["spec"]), first["id"], _read_time(first)
        environment = _environment(first, spec, registry)
        if not isinstance(run_id, str) or not run_id:
            raise TypeError
    except (KeyError, TypeError, AttributeError) as error:
        raise DocumentError("The first event does not describe the case of the run.") from error
    for setting in list_restricted_settings(spec.to_dict(), declaration_lookup(registry)):
        if setting.reads:  # nothing of the case is executed here, but planning it would read the file
            raise SpecError(
                f"The case of the stream {setting.description}, which is a file of another machine; a stream may not "
                f"decide which file is read here. Run the case again without {setting.name}."
            )
    results = store if isinstance(store, ResultStore) else ResultStore(Path(store))
    is_complete = _has_complete_result(results, run_id, spec)
    case = Case.begin(spec, results, observers, registry, run_id=run_id, started_at=started)
    case.announce()
    continues = bool(case.repeats)
    if not continues:
        case.record_environment(environment)
    _record_parity(case, environment, first.get("parity"))
    finished = None
    with case.record_failures():
        finished = _take(case, events)
    if is_complete and case.failure is not None:
        raise StoreError(
            f"{results.directory} already has the complete result of the run {run_id}, and this stream of the same run "
            f"failed: {case.failure.message} The result was not changed. Use another --output."
        )
    if continues:
        case.record_environment(environment)
    return case.conclude(finished_at=finished)


def _read_time(event: Mapping[str, Any]) -> str:
    """Return the time of an event of the stream, as documents have it.

    Raises:
        DocumentError: The event has no time, or one that is no time in UTC, or one that is still to come.
    """
    try:
        time = datetime.fromisoformat(event["time"])
        if time.utcoffset() != timedelta():
            raise ValueError
        is_to_come = time > datetime.now(UTC) + _CLOCK_ERROR
    except (KeyError, TypeError, ValueError):
        raise DocumentError(
            f"The event {event['event']} of the stream has the time {format_value(event.get('time'))}; expected one in "
            "UTC, such as 2026-01-31T12:00:00+00:00."
        ) from None
    if is_to_come:
        raise DocumentError(
            f"The event {event['event']} of the stream has the time {event['time']}, which is still to come. Check the "
            "clocks of this machine and of the one that ran the case."
        )
    return time.isoformat(timespec="seconds")


def _has_complete_result(store: ResultStore, run_id: str, spec: RunSpec) -> bool:
    """Return True if the store has a result of the run without a failure.

    Raises:
        StoreError: The run in the store has another spec.
    """
    check_id(run_id)
    try:
        stored = store.load(store.directory / run_id)
    except (StoreError, DocumentError, UnknownName):
        return False
    if stored.spec.to_dict() != spec.to_dict():
        raise StoreError(
            f"{store.directory} already has a run {run_id} of another case. Use another --output."
        )
    return stored.failure is None


def _skip_to_start(
    events: Iterable[dict[str, Any]], waiting: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield the events from the run's first on."""
    waits = None
    for event in events:
        if event["event"] == "waiting" and event.get("text") != waits:
            waits = event.get("text")
            waiting(str(waits))
        if event["event"] not in ("heartbeat", "waiting", "diagnostics"):
            yield event


def _record_parity(case: Case, environment: Environment, plain: Any) -> None:
    """Record the evidence in the bundle's metadata, or the parity run that the stream may bring.

    Raises:
        DocumentError: the metadata break the schema.
    """
    if case.plan is None:
        return
    if plain is not None:
        case.record_parity(parity_from_dict(plain))
        return
    prepared = _restore_prepared(case.plan, environment.python, environment.lock, environment.command)
    run = plan_parity_run(case.plan, prepared, environment.variables, case.registry, use_cache=False)
    if isinstance(run, ParityRun):
        case.record_parity(make_unknown_parity("The stream contains no parity run."))
        run = attrs.evolve(run, cacheable=False)  # it took place on another machine
    case.record_parity(run)


def _environment(first: Mapping[str, Any], spec: RunSpec, registry: Registry) -> Environment:
    """Return the environment of the workers on the other machine.

    Raises:
        DocumentError: A field of it has an impossible value.
    """
    packages = first["versions"].get("packages", {})
    for name, version in packages.items():
        if not (_WORD.fullmatch(name) and _WORD.fullmatch(version)):
            raise DocumentError(
                f"The first event of the stream has the package {format_value(name)} in the version "
                f"{format_value(version)}; expected a name and a version without blanks."
            )
    environment = Environment(
        kind=CONTAINER if spec.container else GIVEN,
        python=str(first["versions"].get("python", "")),
        lock="".join(f"{name}=={version}\n" for name, version in sorted(packages.items())),
        command=tuple(map(str, first["command"])),
        variables=redact_variables(spec.env, secret_names(spec, registry)),
        plugin=str(first["plugin"]),
    )
    schema.check("result", to_plain(environment), "environment")
    return environment


def _restore_prepared(plan: Plan, python: str, lock: str, command: tuple[str, ...]) -> PreparedEnvironment:
    """Return the environment on the other machine, with the fields that are known here."""
    return PreparedEnvironment(GIVEN, plan.spec.framework, plan.device, python, lock, command, "", Path())


def _take(case: Case, events: Iterable[dict[str, Any]]) -> str | None:
    """Record the events, and return the time at which the run ended; None if its nodes could not say it.

    Raises:
        LostNode: The stream stops before the run's end.
        DocumentError: The run ended before it started.
    """
    stored = list(case.repeats)
    diagnostics = ""
    for event in events:
        if event["event"] == "diagnostics":
            diagnostics = str(event.get("text"))
            continue
        repeat = next((repeat for repeat in stored if repeat.attempt == event.get("attempt")), None)
        if event["event"] == "parity-ended" or repeat is None:
            case.record_event(event)
        elif event["event"] == "attempt-ended":
            _check_equal(event, repeat, case.id)
        if event["event"] == "ended":
            if "time" not in event:
                return None
            finished = _read_time(event)
            if finished < case.started_at:
                raise DocumentError(f"The run ended at {finished}, before it started at {case.started_at}.")
            return finished
    raise LostNode(f"The stream stops in the middle of the run. {diagnostics}".strip())


def _check_equal(event: Mapping[str, Any], stored: Repeat, run_id: str) -> None:
    """Check that an attempt of the stream is the one that the store has.

    Raises:
        StoreError: It has other records.
    """
    try:
        outcome = attempt_outcome(event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRecord(f"Repeat {stored.attempt} of the stream breaks the protocol: {error}") from error
    if isinstance(outcome, Failure) or tuple(outcome.records) != tuple(stored.records):
        raise StoreError(
            f"Repeat {stored.attempt} of the run {run_id} in the store has other records than this stream: the bundle "
            "was run more than once, or its streams were mixed. The store was not changed. Use another --output."
        )


def pack(
    spec: RunSpec, path: Path, registry: Registry | None = None
) -> tuple[bundle.Bundle, tuple[str, ...]]:
    """Write a case as one file: a bundle, or a file for the launcher's scheduler that holds the bundle.

    A machine without dlperf can run a bundle: `python FILE run -o OUT`.

    Args:
        spec: The case.
        path: The file, which is replaced if it exists.
        registry: The plugins; None for the installed ones.

    Returns:
        The bundle, and the commands with which users submit the file to the scheduler; no commands if the file is the
        bundle.

    Raises:
        UsageError: The case is invalid, its data lies in a folder of this machine, or it names a container; or the
            launcher's file would hold the value of a secret variable.
        Unavailable: The launcher's scheduler does not take the case.
        PluginError: A plugin does not work.
        RunFailed: The case cannot be run.
        StoreError: The file cannot be written, or is not a regular file.
    """
    if spec.data.path is not None:
        raise UsageError(
            f"The data {spec.data} lies in a folder of this machine, and the file is for another one. "
            "Use synthetic data."
        )
    if spec.container is not None:
        raise UsageError(
            f"The case names the container {spec.container}, and the file is run by a Python that is there already. "
            "Leave --container out, and run the file inside it."
        )
    plugins = registry or Registry()
    planned = make_plan(spec, plugins)
    samples = data.prepare(
        spec.data, planned.model_options, planned.inputs, seed=spec.seed, on_progress=lambda *_: None
    )
    prepared = _restore_prepared(planned, "", "", ("python3",))
    variables = {name: reveal({name: value}, {}).get(name) for name, value in planned.spec.env.items()}
    parity = plan_parity_run(planned, prepared, variables, plugins, use_cache=False)
    first, known = (parity.request, None) if isinstance(parity, ParityRun) else (None, parity)
    request = planned.request(new_run_id(spec, datetime.now(UTC)), prepared.command, variables, samples)
    with explain_os_errors(path):
        check_replaceable(path)
        packed = bundle.build(request, path, planned.packages, bundle_metadata(planned, known), first)
        try:
            submission = _make_submission(planned, packed, request.id, plugins)
        except BaseException:
            path.unlink()  # the bundle alone is not what the user asked for
            raise
        if submission is None:
            return packed, ()
        path.write_bytes(submission.content)  # the mode stays: only its owner can read it
        return packed, submission.commands


def _make_submission(plan: Plan, packed: bundle.Bundle, run_id: str, registry: Registry) -> Submission | None:
    """Return the file that the case's launcher makes of a bundle.

    Raises:
        UsageError: The bundle holds the value of a secret variable.
    """
    name = plan.spec.topology.launcher
    launcher = registry.topology(name)
    job = make_job(plan, run_id, packed.path, launcher)
    with registry.wrap_plugin_errors("topologies", name, "write a file for its scheduler"):
        submission = launcher.submission(job, str(packed.path))
    if submission is not None:
        secret = next((secret for secret in plan.secrets if plan.spec.env[secret] is not None), None)
        if secret is not None:
            raise UsageError(
                f"The file for {name} would hold the value of {secret}, which may be a secret. Write "
                f"--env {secret} without a value, and set {secret} where the agents run."
            )
    return submission


def find_job(text: str, registry: Registry | None = None) -> AttachedJob:
    """Return a job that an earlier `run` submitted to a launcher's queue, to follow it again.

    Args:
        text: The job and its launcher, `JOB@LAUNCHER`, such as `4213@slurm`.
        registry: The plugins; None for the installed ones.

    Raises:
        Unavailable: The launcher has no queue or its queue does not answer; or the job does not exist, has ended, or
            was not submitted by dlperf.
        UsageError: The text is not of this form, or the job is one attempt of a campaign's case.
        UnknownName: There is no such launcher.
        PluginError: The launcher does not work.
    """
    identifier, _, name = text.rpartition("@")
    if not identifier or not name:
        raise UsageError(
            f"Expected a job and its launcher, JOB@LAUNCHER, got {text[:100]!r}; for example 4213@slurm."
        )
    plugins = registry or Registry()
    launcher = plugins.topology(name)
    with plugins.wrap_plugin_errors("topologies", name, f"attach to {identifier}"):
        job = launcher.attach(identifier)
    stamp = campaign_of(job.id)
    if stamp is not None:
        raise UsageError(
            f"{job.label} is one attempt of a campaign's case, and a result of it alone would lack the other attempts. "
            "Resume the campaign: `dlperf campaign resume DIR` cancels the job and repeats the attempt. DIR is the "
            f"campaign's directory, {CAMPAIGNS}/{stamp}-NAME unless --output gave another."
        )
    return job


def attach(
    job: AttachedJob,
    store: ResultStore | str | Path,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
) -> Result:
    """Follow a job that another controller submitted, from its beginning to its end; store and return its result.

    The job keeps its event stream until the result is in the store: after an interruption, this function can be called
    again. While the job waits, observers get the reason as lines of the stage `queue`.

    Args:
        job: The job, as `find_job` returned it.
        store: The store, or its directory, in which the run's directory is created or continued.
        observers: Objects with hook implementations.
        registry: The plugins; None for the installed ones.

    Raises:
        DocumentError: The stream does not describe its case, or the description breaks the schema.
        SpecError: The case names a file that planning it here would read.
        UsageError: The case cannot be planned here, or the store cannot be written.
        StoreError: The store has other measurements of the run, or its complete result while this stream fails.
        PluginError: A plugin, or a given observer, does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
        Unavailable: The queue does not answer at the start.
        KeyboardInterrupt: Ctrl-C was pressed. The job continues, and can be attached to again.
    """
    listeners = Observers.load(observers)

    def report_waiting(text: str) -> None:
        listeners.notify("dlperf_stage", run_id=job.id, stage="queue", detail=text)

    result = _replay(job.stream, store, listeners, registry or Registry(), report_waiting)
    job.acknowledge()
    return result
