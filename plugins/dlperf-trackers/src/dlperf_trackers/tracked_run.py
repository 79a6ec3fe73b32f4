"""A result as trackers take it: parameters, metrics, verdicts and files, each by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from dlperf_sdk import Result
from dlperf_sdk.reports import markdown, result_page
from dlperf_sdk.results.table import cell, free_name, identifier

Scalar = str | int | float | bool


@frozen(kw_only=True)
class TrackedRun:
    """The part of a result that trackers write, which is the same for all trackers."""

    id: str
    """Name of the run."""
    case: str
    """Short name of the case, such as `torch resnet50 1n2d b64 fp32`."""
    ok: bool
    """True if the case ran and no integrity verdict failed."""
    started: datetime
    """Start of the run."""
    finished: datetime
    """End of the run."""
    tags: Mapping[str, str]
    """`id`, `case`, `status`, `ok`, `sdk_version`; `unit.METRIC` for the units."""
    parameters: Mapping[str, Scalar]
    """Facts of the case: as observed, else as requested. A list or a mapping is JSON."""
    verdicts: Mapping[str, str]
    """Outcome of each check."""
    metrics: Mapping[str, float]
    """Median of each metric, and the ends of its interval as `NAME_low` and `NAME_high` if there is one."""
    repeats: Mapping[str, tuple[float, ...]]
    """Values of each metric, one per repeat."""
    files: Mapping[str, str]
    """Name of a file → its text: `report.md`, and `result.json` with all records."""

    @classmethod
    def from_result(cls, result: Result) -> TrackedRun:
        """Return the part of a result that trackers write; this reads the result's records.

        Raises:
            DocumentError: The records cannot be read.
        """
        names_taken: set[str] = set()
        metrics: dict[str, float] = {}
        repeats: dict[str, tuple[float, ...]] = {}
        units: dict[str, str] = {}
        for metric in result.metrics:
            name = free_name(identifier(metric.name), names_taken)
            parts = {name: metric.value, f"{name}_low": metric.low, f"{name}_high": metric.high}
            metrics.update({part: value for part, value in parts.items() if value is not None})
            repeats[name] = metric.repeats
            units[f"unit.{name}"] = metric.unit
        return cls(
            id=result.id,
            case=result.spec.label,
            ok=result.ok,
            started=datetime.fromisoformat(result.started_at),
            finished=datetime.fromisoformat(result.finished_at),
            tags={
                "id": result.id,
                "case": result.spec.label,
                "status": result.status,
                "ok": "true" if result.ok else "false",
                "sdk_version": result.sdk_version,
                **units,
            },
            parameters=_parameters(result),
            verdicts={verdict.name: verdict.outcome for verdict in result.verdicts},
            metrics=metrics,
            repeats=repeats,
            files={
                "report.md": markdown.text_of(result_page.page(result)),
                "result.json": json.dumps(result.to_dict(), allow_nan=False),
            },
        )


def _parameters(result: Result) -> dict[str, Scalar]:
    parameters: dict[str, Scalar] = {}
    for fact in result.facts:
        value: Any = fact.requested if fact.observed is None else fact.observed
        if isinstance(value, bool | int | float):
            parameters[fact.name] = value
        elif value:  # neither None nor empty
            parameters[fact.name] = str(cell(str, value))
    return parameters
