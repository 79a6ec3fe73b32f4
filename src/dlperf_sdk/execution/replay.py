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
)
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.launchers.stream_events import parse_event
from dlperf_sdk.parity.evidence import ParityRun, make_unknown_parity, plan_parity_run
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.planning.secret_variables import redact_variables, secret_names
from dlperf_sdk.planning.spec_file import declaration_lookup, list_restricted_settings
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import attempt_outcome
from dlperf_sdk.results.convert import parity_from_dict, to_plain
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.store import ResultStore, check_id
from dlperf_sdk.spec.run_spec import RunSpec

FREQUENT = (b'{"event": "heartbeat"', b'{"event": "progress"')
"""How the lines of heartbeats and progress begin, of which a stream may have any number."""
_WORD = re.compile(r"[\x21-\x7e]{1,200}")
"""Name or version of a package, as `lock.txt` may contain it."""
_MOST_LINES = 20_000
"""Maximum number of lines of a stream apart from heartbeats and progress, for a case without devices."""
_LINES_PER_DEVICE = 500
"""Further ones per device. An attempt has one line per process, and up to nine for its log."""
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
        DocumentError: The stream does not describe its case, the description breaks the schema, or the stream has more
            lines than a run of its case writes.
        SpecError: To plan the case, a file that it names would have to be read here, which is refused.
        UsageError: The case cannot be planned here, or the store cannot be written.
        StoreError: The store has other measurements of the run; or it has the run's complete result, and this stream
            ends with a failure.
        PluginError: A plugin, or a given observer, does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
        KeyboardInterrupt: Ctrl-C was pressed. Attempts that were read are in the store; no result was written.
    """
    return replay_events(lines, store, Observers.load(observers), registry or Registry())


def replay_events(
    lines: Iterable[bytes],
    store: ResultStore | str | Path,
    observers: Observers,
    registry: Registry,
    waiting: Callable[[str], None] = lambda text: None,
) -> Result:
    """Make a result from an event stream, as `replay` does; store and return it.

    Args:
        lines: The lines of the stream, each a JSON object in UTF-8; lines that are no event are left out.
        store: The store, or its directory, in which the run's directory is created or continued.
        observers: The observers of the run.
        registry: The plugins.
        waiting: Function that is called with each new reason, a text, for which the run waits in a queue.

    Raises:
        DocumentError: The stream does not describe its case, the description breaks the schema, or the stream has more
            lines than a run of its case writes.
        SpecError: To plan the case, a file that it names would have to be read here, which is refused.
        UsageError: The case cannot be planned here, or the store cannot be written.
        StoreError: The store has other measurements of the run; or it has the run's complete result, and this stream
            ends with a failure.
        PluginError: A plugin does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
        KeyboardInterrupt: Ctrl-C was pressed. Attempts that were read are in the store; no result was written.
    """
    stream = _Stream(lines)
    events = iter(stream)
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
    stream.most_lines += _LINES_PER_DEVICE * spec.topology.devices
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


class _Stream:
    """The events on the lines of a stream, of which it may have as many as a run writes."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self.most_lines = lines, _MOST_LINES

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the events; lines that are no event are left out.

        Raises:
            DocumentError: The stream has too many lines.
        """
        count = 0
        for line in self._lines:
            count += not line.startswith(FREQUENT)
            if count > self.most_lines:
                raise DocumentError(
                    f"The event stream of this case may have {self.most_lines:,} lines apart from heartbeats and "
                    "progress; this one has more."
                )
            event = parse_event(line)
            if event is not None:
                yield event


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
        DocumentError: The metadata break the schema.
    """
    if case.plan is None:
        return
    if plain is not None:
        case.record_parity(parity_from_dict(plain))
        return
    prepared = restore_prepared(case.plan, environment.python, environment.lock, environment.command)
    run = plan_parity_run(case.plan, prepared, environment.variables, case.registry, use_cache=False)
    if isinstance(run, ParityRun):
        case.record_parity(make_unknown_parity(case.spec, "The stream contains no parity run."))
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


def restore_prepared(plan: Plan, python: str, lock: str, command: tuple[str, ...]) -> PreparedEnvironment:
    """Return the environment of a case that another machine runs or has run. Nothing is checked or prepared here.

    Args:
        plan: The plan of the case.
        python: Version of the environment's Python; empty if unknown.
        lock: The environment's packages, as lines of pip's requirements files; empty if unknown.
        command: The words that start the environment's Python.
    """
    return PreparedEnvironment(GIVEN, plan.spec.framework, plan.device, python, lock, command, "", Path())


def _take(case: Case, events: Iterable[dict[str, Any]]) -> str | None:
    """Record the events, and return the time at which the run ended; None if its nodes could not say it.

    Raises:
        LostNode: The stream stops before the run's end.
        InvalidRecord: An event breaks the protocol, a repeat ends twice, or the run succeeded with too few repeats.
        DocumentError: The run ended before it started.
    """
    stored, ended = list(case.repeats), set[int]()
    diagnostics = ""
    for event in events:
        if event["event"] == "diagnostics":
            diagnostics = str(event.get("text"))
            continue
        repeat = next((repeat for repeat in stored if repeat.attempt == event.get("attempt")), None)
        if event["event"] == "attempt-ended" and isinstance(attempt := event.get("attempt"), int):
            if attempt in ended:
                raise InvalidRecord(f"Repeat {attempt} of the stream ends twice.")
            ended.add(attempt)
        if event["event"] == "parity-ended" or repeat is None:
            case.record_event(event)
        elif event["event"] == "attempt-ended":
            _check_equal(event, repeat, case.id)
        if event["event"] == "ended":
            _check_complete(case)
            if "time" not in event:
                return None
            finished = _read_time(event)
            if finished < case.started_at:
                raise DocumentError(f"The run ended at {finished}, before it started at {case.started_at}.")
            return finished
    raise LostNode(f"The stream stops in the middle of the run. {diagnostics}".strip())


def _check_complete(case: Case) -> None:
    """Check that a run without a failure has taken the repeats that its protocol requires.

    Raises:
        InvalidRecord: It has taken fewer.
    """
    if case.failure is None and case.stopping() is None:
        protocol = case.spec.resolved_protocol()
        raise InvalidRecord(
            f"The stream reports success after {len(case.repeats)} of {protocol.repeats:,} repeats; the others are "
            "missing from it. Finished repeats are kept. Carry the stream over again, or run the bundle again."
        )


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
