"""Logs of other programs as results: marked as imported, with the estimator that was used, and not verified.

::

    from dlperf_sdk.exchange.import_logs import import_logs

    results = import_logs("tf-cnn-benchmarks", ["run-1.log", "run-2.log"], {"precision": "fp32"})

Logs of the same case become the repeats of one result. Facts that a log does not state must be given, or stay
unknown. A log has at most a million lines; it is read line by line, and nothing in it is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

import dlperf_sdk
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError, UnknownName, UsageError
from dlperf_sdk.interfaces.figure import OPTION_ROLES, PublishedFigure
from dlperf_sdk.interfaces.importer import Importer, Log, Reading
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results import metrics
from dlperf_sdk.results.result import (
    INCONCLUSIVE,
    INTEGRITY,
    NOT_APPLICABLE,
    Fact,
    Imported,
    Result,
    Source,
    Verdict,
)
from dlperf_sdk.results.store import new_run_id
from dlperf_sdk.results.verdicts import VERDICTS
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import TopologySpec

_NEEDED = ("framework", "model", "topology", "batch_size", "precision")
"""Facts that every imported result has."""
_SPEC = (*_NEEDED, "accumulation", "compiler", "strategy", "layout", "device", "data")
_ROLES: dict[str, Role] = {
    **{
        field.name: field.metadata["role"]
        for kind in (PublishedFigure, RunSpec)
        for field in attrs.fields(kind)
        if "role" in field.metadata
    },
    **OPTION_ROLES,
}


@frozen
class _ImportedLog:
    """A log that was read to its end."""

    source: Source
    modified: float
    reading: Reading


def import_logs(
    importer: str,
    paths: Iterable[str | Path],
    stated: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> tuple[Result, ...]:
    """Return a result for each case in the logs.

    Logs that state the same facts become the repeats of one result, in the order of `paths`. Nothing is stored.

    Args:
        importer: Name of an installed importer.
        paths: The logs, at least one.
        stated: Facts that the logs do not state, or state wrongly, under the names of the fields of run specs
            (`precision`, `data`, …) and of published figures (`hardware`, `clip_norm`, …); None: none. If the
            importer measures over a window of steps, `warmup` and `steps` choose another window.
        registry: The plugins; None for the installed ones.

    Returns:
        The results, in the order of their first logs.

    Raises:
        UnknownName: There is no such importer, or `stated` has a name that is not a fact of a case.
        PluginError: The importer cannot be used.
        DocumentError: A log cannot be read or is malformed; the message names the line.
        UsageError: There is no log, two files have the same content, or a fact that every case needs is neither in a
            log nor given.
        SpecError: A value is impossible.
    """
    registry = registry or Registry()
    reader = registry.importer(importer)
    stated = _check_given(reader, stated or {})
    logs = [_read(reader, Path(path), stated, registry) for path in paths]
    if not logs:
        raise UsageError("There is no log to import: name one or more files.")
    cases: dict[str, list[_ImportedLog]] = {}
    files: dict[str, str] = {}
    for log in logs:
        name, digest = log.source.name, log.source.sha256
        if digest in files:
            raise UsageError(
                f"{name} and {files[digest]} are the same log (SHA-256 {digest[:12]}…), which would count as two "
                "repeats: name it once."
            )
        files[digest] = name
        reading = log.reading
        known = {
            **reading.facts,
            **stated,
            "estimator": reading.estimator,
            "how": reading.estimator_description,
        }
        cases.setdefault(json.dumps(known, sort_keys=True), []).append(log)
    return tuple(_result(reader, logs, stated, registry) for logs in cases.values())


def _read(importer: Importer, path: Path, stated: Mapping[str, Any], registry: Registry) -> _ImportedLog:
    log = Log(path)
    with registry.wrap_plugin_errors("importers", importer.name, f"read {path}"):
        reading = importer.read(log, stated)
    return _ImportedLog(Source(path.name, log.sha256(), log.line_count), log.modified, reading)


def _check_given(importer: Importer, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given facts, with a topology in its one spelling.

    Raises:
        UnknownName: A name is not a fact of a case.
        SpecError: A value is impossible.
    """
    window = ("warmup", "steps") if importer.has_window else ()
    names = {*_SPEC, *window, *OPTION_ROLES, "framework_version", "hardware", "implementation", "machine"}
    for name in stated:
        if name not in names:
            raise UnknownName("fact of an imported case", name, names)
    for name, minimum in (("warmup", 0), ("steps", 1), ("batch_size", 1)):
        value = stated.get(name, minimum)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**31:
            raise SpecError(f"{name} is {format_value(value)}; it must be a whole number, {minimum} or more.")
    topology = {"topology": str(TopologySpec.parse(stated["topology"]))} if "topology" in stated else {}
    return {**stated, **topology}


def _result(
    importer: Importer, logs: Sequence[_ImportedLog], stated: Mapping[str, Any], registry: Registry
) -> Result:
    first = logs[0].reading
    known = {**first.facts, **stated}
    for name in _NEEDED:
        if name not in known:
            raise UsageError(
                f"{logs[0].source.name} does not state the {name.replace('_', ' ')}: add --set {name}=…, as it was."
            )
    protocol = {name: known[name] for name in ("warmup", "steps") if name in known}
    spec = RunSpec(**{name: known[name] for name in _SPEC if name in known}, **protocol, repeats=len(logs))
    known["topology"] = str(spec.topology)
    is_installed = spec.model in registry.names("models")
    unit = registry.model(spec.model).unit if is_installed else importer.unit
    rates = [log.reading.throughput for log in logs]
    note = f"imported, {first.estimator}: {first.estimator_description}"
    modified = [datetime.fromtimestamp(log.modified, UTC) for log in logs]
    return Result(
        id=new_run_id(spec, min(modified)),
        status="ok",
        failure=None,
        spec=spec,
        facts=_facts({**known, "estimator": first.estimator}, stated),
        metrics=(
            metrics.metric("throughput", unit, rates, note),
            metrics.metric(
                "throughput-per-device", unit, [rate / spec.topology.devices for rate in rates], note
            ),
        ),
        verdicts=_verdicts(),
        repeats=(),
        stopping=None,
        environment=None,
        hardware=(),
        workload=None,
        notes=_notes(first, stated),
        # Few logs state the time of the run; the time of the file's last change is known.
        started_at=min(modified).isoformat(timespec="seconds"),
        finished_at=max(modified).isoformat(timespec="seconds"),
        sdk_version=dlperf_sdk.__version__,
        imported=Imported(
            importer.name,
            importer.version,
            first.program,
            first.estimator_description,
            tuple(log.source for log in logs),
        ),
    )


def _facts(known: Mapping[str, Any], stated: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return the log's facts as observed and the given ones as requested."""
    return tuple(
        Fact(
            name,
            _ROLES.get(name, "context"),
            value if name in stated else None,
            None if name in stated else value,
        )
        for name, value in sorted(known.items())
    )


def _notes(reading: Reading, stated: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a note for each given fact that the log contradicts."""
    return tuple(
        f"{name} is {reading.facts[name]} in the logs, and was said to be {value}."
        for name, value in stated.items()
        if reading.facts.get(name, value) != value
    )


def _verdicts() -> tuple[Verdict, ...]:
    detail = "Imported: there are no records to judge by."
    return (
        Verdict("complete-records", INTEGRITY, NOT_APPLICABLE, detail),
        *(
            Verdict(check.name, INTEGRITY, INCONCLUSIVE, detail)
            for check in VERDICTS
            if check.kind == INTEGRITY and check.judge and check.name != "complete-records"
        ),
    )
