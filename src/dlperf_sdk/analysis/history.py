"""The history of a case: its throughput over time, versions or a label, and where its level changed."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen
from packaging.version import InvalidVersion, Version

from dlperf_sdk.analysis.change_points import MIN_VALUES, find_change_points
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.interfaces.database import Answer, Store
from dlperf_sdk.worker.estimate import median

MOST_RUNS = 1000
"""Runs of a case that its history has, the newest."""
ALL_RUNS = "SELECT * FROM results"
"""Query that selects what histories are made of."""
TIME = "time"
VERSIONS = ("framework_version", "sdk_version")
_CASE = ("case_key", "case_name", "hardware")
_ESTIMATE = ("throughput_unit", "estimator")
"""Columns that the runs of a history share: case and hardware, and the estimate, which a failed run lacks."""
_FACETS = ("framework", "model", "topology", "batch_size", "precision", "device")


@frozen
class Run:
    """A run of a case."""

    id: str
    """Name of the run."""
    started_at: str
    """Start of the run in UTC, in ISO 8601."""
    problem: str
    """Failure, or failed verdicts; empty if the run is valid."""
    throughput: float | None
    """Throughput in the history's unit; None if the run is not valid."""
    low: float | None
    """Lower end of the throughput's interval; None without an interval."""
    high: float | None
    """Upper end of the throughput's interval; None without an interval."""
    versions: Mapping[str, str]
    """Versions of the framework and of dlperf-sdk, by the names of `VERSIONS`."""
    labels: Mapping[str, str]
    """Labels of the run: name → value."""

    @property
    def day(self) -> str:
        """The day on which the run started, in UTC: `2026-03-14`."""
        return self.started_at[:10]

    def value(self, order: str) -> str | None:
        """Return the run's start, version or label by which a history is ordered; None if the run does not have it.

        Args:
            order: `time`, one of `VERSIONS`, or the name of a label.
        """
        if order == TIME:
            return self.started_at
        return self.versions.get(order, self.labels.get(order))


@frozen
class Level:
    """Successive valid runs between two changes."""

    runs: tuple[Run, ...]
    throughput: float
    """Median of the runs, in the history's unit."""


@frozen
class Change:
    """A change from one level to the next."""

    before: Run
    """Last run of the level before."""
    after: Run
    """First run of the level after."""
    ratio: float
    """Throughput of the level after relative to the level before."""
    differences: tuple[str, ...]
    """Versions and labels that differ between the two runs: `commit 1f3a9c → 77b02e`."""

    @property
    def percent(self) -> str:
        """The change of the throughput: `−3.1 %`."""
        return f"{'−' if self.ratio < 1 else '+'}{abs(self.ratio - 1):.1%}".replace("%", " %")


@frozen
class History:
    """The runs of one case on one kind of hardware, in order."""

    key: str
    """12 hexadecimal digits that identify case, hardware, unit and estimator."""
    name: str
    """Short name of the case."""
    hardware: str
    """Devices of the runs; empty if they are unknown."""
    unit: str
    """Unit of the throughputs; empty if no run has one."""
    order: str
    """Order of the runs: `time`, one of `VERSIONS`, or a label's name."""
    facets: Mapping[str, str]
    """Framework, model, topology, batch size, precision and device."""
    runs: tuple[Run, ...]
    """All runs in order, failed ones included; at most `MOST_RUNS`."""
    levels: tuple[Level, ...]
    """The valid runs, divided into levels, in order; empty without a valid run."""
    changes: tuple[Change, ...]
    """One fewer than levels."""
    omitted: int
    """Number of runs left out: older ones, and those without the version or label of `order`."""

    @property
    def valid(self) -> tuple[Run, ...]:
        """The valid runs, in order."""
        return tuple(run for run in self.runs if run.throughput is not None)

    @property
    def has_too_few_runs(self) -> bool:
        """True if the history has no change, and its valid runs are too few for a change to be found."""
        return not self.changes and len(self.valid) < MIN_VALUES

    @property
    def newest(self) -> Run:
        """The run that started last, valid or not.

        Raises:
            ValueError: The history has no runs.
        """
        return max(self.runs, key=lambda run: run.started_at)


def load_histories(store: Store, order: str = TIME) -> tuple[History, ...]:
    """Query a store for `ALL_RUNS`, and return the histories that `make_histories` makes of the answer.

    Args:
        store: The store.
        order: Order of the runs, as in `make_histories`.

    Raises:
        StoreError: The store cannot be read.
        UsageError: The store takes too long to answer.
        UnknownName: `order` is neither `time` nor one of `VERSIONS`, and no run has such a label.
        KeyboardInterrupt: A signal ended the query.
    """
    return make_histories(store.query(ALL_RUNS), order)


def make_histories(answer: Answer, order: str = TIME) -> tuple[History, ...]:
    """Return the histories of all cases in a store, sorted by name.

    A case has one history for each hardware, unit and estimator of its runs. If `order` is a label that only runs of
    other histories have, the history has no runs.

    Args:
        answer: The store's answer to the query `ALL_RUNS`.
        order: Order of the runs: `time`; one of `VERSIONS`; or the name of a label, whose values are in the order of
            their first runs. Runs without the version or label are left out.

    Returns:
        The histories; empty if the store has no results.

    Raises:
        UnknownName: `order` is neither `time` nor one of `VERSIONS`, and no run has such a label.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for values in answer.rows:
        row = dict(zip(answer.columns, values, strict=True))
        groups.setdefault(tuple(row.get(name) for name in _CASE), []).append(row)
    _merge_failures(groups)
    rows = [row for group in groups.values() for row in group]
    if order != TIME and order not in VERSIONS:
        known = {name for row in rows for name in _parse_labels(row)}
        if order not in known:
            raise UnknownName("order of a history", order, {TIME, *VERSIONS, *known})
    histories = (_make_history(part, order) for group in groups.values() for part in _split(group))
    return tuple(sorted(histories, key=lambda history: (history.name, history.hardware, history.key)))


def _merge_failures(groups: dict[tuple[Any, ...], list[dict[str, Any]]]) -> None:
    """Move failed runs of unknown hardware to the only hardware that their case was measured on."""
    known = Counter(key[0] for key in groups if key[2] is not None)
    for key in [key for key in groups if key[2] is None and known[key[0]] == 1]:
        home = next(other for other in groups if other[0] == key[0] and other[2] is not None)
        groups[home] += groups.pop(key)


def _split(rows: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Split a case's rows by unit and estimator; failed runs have no unit and go with the largest part."""
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(tuple(row.get(name) for name in _ESTIMATE), []).append(row)
    failed = [part for (unit, _), part in parts.items() if unit is None]
    measured = [part for (unit, _), part in parts.items() if unit is not None]
    if not measured:
        return [list(rows)]
    largest = max(measured, key=len)
    for part in failed:
        largest += part
    return measured


def _make_history(rows: Sequence[Mapping[str, Any]], order: str) -> History:
    """Return the history of a case from rows of the index.

    Args:
        rows: Rows of the table `results`, at least one, in any order. They belong to one case, hardware, unit and
            estimator; a failed run may lack the last three.
        order: Order of the runs, as in `load_histories`.
    """
    shared = {
        name: next((row[name] for row in rows if row.get(name) is not None), "")
        for name in (*_CASE, *_ESTIMATE)
    }
    newest_first = sorted(map(_make_run, rows), key=lambda run: (run.started_at, run.id), reverse=True)
    labeled = [run for run in newest_first if run.value(order) is not None]
    runs = _sort_runs(labeled[:MOST_RUNS][::-1], order)
    valid = [run for run in runs if run.throughput is not None]
    values = [run.throughput for run in valid if run.throughput is not None]
    starts = find_change_points(values)
    edges = [0, *starts, len(valid)] if valid else []
    levels = [
        Level(tuple(valid[start:end]), median(values[start:end])) for start, end in itertools.pairwise(edges)
    ]
    changes = [
        Change(
            old.runs[-1],
            new.runs[0],
            new.throughput / old.throughput,
            _list_differences(old.runs[-1], new.runs[0]),
        )
        for old, new in itertools.pairwise(levels)
    ]
    facets = {name: str(rows[0].get(name) or "") for name in _FACETS}
    return History(
        key=hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12],
        name=str(shared["case_name"]),
        hardware=str(shared["hardware"]),
        unit=str(shared["throughput_unit"]),
        order=order,
        facets=facets,
        runs=tuple(runs),
        levels=tuple(levels),
        changes=tuple(changes),
        omitted=len(rows) - len(runs),
    )


def _make_run(row: Mapping[str, Any]) -> Run:
    throughput = row.get("throughput")
    is_valid = (
        bool(row["ok"]) and isinstance(throughput, float) and math.isfinite(throughput) and throughput > 0
    )
    failure = "no valid throughput" if row["status"] == "ok" else row["status"]
    problem = "" if is_valid else str(row["failed"] or failure)
    low, high = row.get("throughput_low"), row.get("throughput_high")
    return Run(
        id=str(row["id"]),
        started_at=str(row["started_at"]),
        problem=problem,
        throughput=throughput if is_valid else None,
        low=low,
        high=high,
        versions={name: str(row[name]) for name in VERSIONS if row.get(name) is not None},
        labels=_parse_labels(row),
    )


def _parse_labels(row: Mapping[str, Any]) -> dict[str, str]:
    return json.loads(row["labels"]) if row.get("labels") else {}


def _sort_runs(runs: list[Run], order: str) -> list[Run]:
    """Sort runs, which are in the order of time: by version, or by the first run of each label's value."""
    if order == TIME:
        return runs
    if order in VERSIONS:
        return sorted(runs, key=lambda run: _version_key(run.value(order) or ""))
    first: dict[str | None, int] = {}
    for run in runs:
        first.setdefault(run.value(order), len(first))
    return sorted(runs, key=lambda run: first[run.value(order)])


def _version_key(text: str) -> tuple[bool, Version, str]:
    try:
        return True, Version(text), text
    except InvalidVersion:
        return False, Version("0"), text


def _list_differences(before: Run, after: Run) -> tuple[str, ...]:
    pairs = ((before.versions, after.versions), (before.labels, after.labels))
    return tuple(
        f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}"
        for old, new in pairs
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )
