"""From what was read of single logs to results: the logs of one case are its repeats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

import dlperf_sdk
from dlperf_sdk.documents.json_values import shown
from dlperf_sdk.errors import SpecError, UnknownName, UsageError
from dlperf_sdk.exchange.importers import dllogger, dlperf_log, tf_cnn
from dlperf_sdk.exchange.importers.reading import Importer, Reading
from dlperf_sdk.published.figure import OPTION_ROLES, PublishedFigure
from dlperf_sdk.results import metrics
from dlperf_sdk.results.result import (
    INCONCLUSIVE,
    INTEGRITY,
    NOT_APPLICABLE,
    Fact,
    Imported,
    Result,
    Verdict,
)
from dlperf_sdk.results.store import new_run_id
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import TopologySpec

VERSION = "2"
"""Of the importers: raised when one reads a log differently than before."""

IMPORTERS: dict[str, Importer] = {
    "dlperf-log": dlperf_log.read,
    "tf-cnn-benchmarks": tf_cnn.read,
    "dllogger": dllogger.read,
}
"""Name → what reads a log of that kind."""

_WINDOWED = ("dlperf-log", "dllogger")
"""Importers that choose a window, with `warmup` and `steps`; the others take what the log sums up itself."""
_NEEDED = ("framework", "model", "topology", "batch_size", "precision")
"""Without these a throughput is of nothing."""
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
_UNVERIFIED = ("finite-loss", "loss-falls", "replicas-equal", "precision-effective", "as-requested")


def import_logs(
    importer: str, paths: Iterable[str | Path], said: Mapping[str, Any] | None = None
) -> tuple[Result, ...]:
    """Results of logs. Logs of which the same is known are repeats of one result, in their order.

    `said` is what the logs do not say, or say wrongly, under the names of a run spec's fields (`precision`, `data`,
    …) and of published figures' (`hardware`, `clip_norm`, …); `warmup` and `steps` choose another window, where
    the importer takes one.

    Raises:
        UnknownName: there is no such importer, or `said` names nothing that a case has.
        DocumentError: a log is not what it should be; the message names the line.
        UsageError: the same file is given twice, or what a case needs is neither in a log nor said.
        SpecError: a value is impossible.
    """
    if importer not in IMPORTERS:
        raise UnknownName("importer", importer, IMPORTERS)
    said = _checked(importer, said or {})
    readings = [IMPORTERS[importer](Path(path), said) for path in paths]
    if not readings:
        raise UsageError("There is no log to import: name one or more files.")
    cases: dict[str, list[Reading]] = {}
    files: dict[str, str] = {}
    for reading in readings:
        name, digest = reading.source.name, reading.source.sha256
        if digest in files:
            raise UsageError(
                f"{name} and {files[digest]} are the same log (SHA-256 {digest[:12]}…), which would count as two "
                "repeats: name it once."
            )
        files[digest] = name
        known = {**reading.facts, **said, "estimator": reading.estimator, "how": reading.how}
        cases.setdefault(json.dumps(known, sort_keys=True), []).append(reading)
    return tuple(_result(importer, each, said) for each in cases.values())


def _checked(importer: str, said: Mapping[str, Any]) -> dict[str, Any]:
    window = ("warmup", "steps") if importer in _WINDOWED else ()
    names = {*_SPEC, *window, *OPTION_ROLES, "framework_version", "hardware", "implementation", "machine"}
    for name in said:
        if name not in names:
            raise UnknownName("fact of an imported case", name, names)
    for name, least in (("warmup", 0), ("steps", 1), ("batch_size", 1)):
        value = said.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            raise SpecError(f"{name} is {shown(value)}; it must be a whole number, {least} or more.")
    # Two ways to write one topology are one case.
    shape = {"topology": str(TopologySpec.parse(said["topology"]))} if "topology" in said else {}
    return {**said, **shape}


def _result(importer: str, readings: Sequence[Reading], said: Mapping[str, Any]) -> Result:
    first = readings[0]
    known = {**first.facts, **said}
    for name in _NEEDED:
        if name not in known:
            raise UsageError(
                f"{first.source.name} does not say the {name.replace('_', ' ')}: add --set {name}=…, as it was."
            )
    protocol = {name: known[name] for name in ("warmup", "steps") if name in known}
    spec = RunSpec(
        **{name: known[name] for name in _SPEC if name in known}, **protocol, repeats=len(readings)
    )
    known["topology"] = str(spec.topology)
    unit = "seq/s" if spec.model.startswith("bert") else "img/s"
    rates = [reading.throughput for reading in readings]
    note = f"imported, {first.estimator}: {first.how}"
    changed = [datetime.fromtimestamp(reading.changed, UTC) for reading in readings]
    return Result(
        id=new_run_id(spec, min(changed)),
        status="ok",
        failure=None,
        spec=spec,
        facts=_facts({**known, "estimator": first.estimator}, said),
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
        notes=_notes(first, said),
        # When it ran, few logs say; when they were last written to, the file system does.
        started_at=min(changed).isoformat(timespec="seconds"),
        finished_at=max(changed).isoformat(timespec="seconds"),
        sdk_version=dlperf_sdk.__version__,
        imported=Imported(
            importer, VERSION, first.program, first.how, tuple(reading.source for reading in readings)
        ),
    )


def _facts(known: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[Fact, ...]:
    """What the log says is observed, what was said by hand requested; what nobody says is not there."""
    return tuple(
        Fact(
            name,
            _ROLES.get(name, "context"),
            value if name in said else None,
            None if name in said else value,
        )
        for name, value in sorted(known.items())
    )


def _notes(reading: Reading, said: Mapping[str, Any]) -> tuple[str, ...]:
    """Where what was said by hand is not what the log says."""
    return tuple(
        f"{name} is {reading.facts[name]} in the logs, and was said to be {value}."
        for name, value in said.items()
        if reading.facts.get(name, value) != value
    )


def _verdicts() -> tuple[Verdict, ...]:
    detail = "Imported: there are no records to judge by."
    return (
        Verdict("complete-records", INTEGRITY, NOT_APPLICABLE, detail),
        *(Verdict(name, INTEGRITY, INCONCLUSIVE, detail) for name in _UNVERIFIED),
    )
