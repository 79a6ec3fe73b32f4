"""Prometheus: one text file per case with its latest result, for the textfile collector of node_exporter."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from dlperf_trackers.tracked_run import TrackedRun
from dlperf_trackers.trackers import import_library

CASE_LABELS = ("framework", "model", "topology", "batch_size", "precision")
"""Parameters that are labels of every series, next to `case`, which is unique."""
INFO_LABELS = ("id", "status", "sdk_version")


def write(run: TrackedRun, directory: Path) -> str:
    """Write the metrics of a run into the text file of its case, and return the file's path.

    The file is replaced atomically. Every gauge has the label `case`. A gauge has the same help text in all files, as
    node_exporter requires.

    Args:
        run: The run.
        directory: The directory of the text files; it is created if needed.

    Raises:
        ImportError: The library `prometheus_client` cannot be imported.
        OSError: The file cannot be written.
    """
    client = import_library("prometheus_client")
    registry = client.CollectorRegistry()
    case = {"case": run.case, **{name: str(run.parameters.get(name, "")) for name in CASE_LABELS}}

    def add(name: str, help: str, value: float, **labels: str) -> None:
        if name not in gauges:
            gauges[name] = client.Gauge(f"dlperf_{name}", help, [*case, *labels], registry=registry)
        gauges[name].labels(**case, **labels).set(value)

    gauges: dict[str, Any] = {}
    add("run_ok", "1 if the case ran and no integrity verdict failed, else 0.", float(run.ok))
    add("run_repeats", "Number of finished repeats.", max(map(len, run.repeats.values()), default=0))
    add("run_finished_timestamp_seconds", "End of the run, in s since 1970.", run.finished.timestamp())
    add("run_info", "Description of the run.", 1, **{name: run.tags[name] for name in INFO_LABELS})
    for check, outcome in run.verdicts.items():
        add("verdict", "1 for the outcome of the check.", 1, check=check, outcome=outcome)
    for name in run.repeats:
        unit = run.tags[f"unit.{name}"]
        for part, help in (
            ("", "Median"),
            ("_low", "Lower end of the interval"),
            ("_high", "Upper end of it"),
        ):
            value = run.metrics.get(f"{name}{part}")
            if value is not None:
                add(f"{name}{part}", f"{help} over the repeats.", value, unit=unit)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / _file_name(run.case)
    client.write_to_textfile(str(path), registry)
    return str(path)


def _file_name(case: str) -> str:
    """Return the name of a case's file: the words of the case, and a hash that makes the name unique."""
    words = re.sub(r"[^0-9A-Za-z.=]+", "-", case)[:100].strip("-.")
    return f"dlperf-{words}-{hashlib.sha256(case.encode()).hexdigest()[:8]}.prom"
