"""TensorBoard: a folder per run with one event file. TensorFlow and PyTorch are not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlperf_trackers.tracked_run import TrackedRun
from dlperf_trackers.trackers import import_library

_PARTIAL = ".partial"


def write(run: TrackedRun, directory: Path) -> str:
    """Write the event file of a run, and return its path; a reader sees the old file or the whole new one.

    The file is in the subdirectory of `directory` whose name is the run's id, where it replaces earlier files of the
    run. The file's name has no host name, unlike that of files that other programs write. Scalars are at step 0. The
    scalars of the repeats, whose names begin with `repeats/`, are at the steps 1, 2, ….

    Args:
        run: The run.
        directory: The log directory of TensorBoard; it is created if needed.

    Raises:
        ImportError: The library `tensorboard` cannot be imported.
        OSError: The file cannot be written.
    """
    events = import_library("tensorboard.compat.proto.event_pb2")
    scalar = import_library("tensorboard.plugins.scalar.summary").scalar_pb
    hparams = import_library("tensorboard.plugins.hparams.summary_v2")
    text = import_library("tensorboard.plugins.text.summary_v2").text_pb
    verdicts = {f"verdict.{name}": outcome for name, outcome in run.verdicts.items()}
    metrics = [hparams.Metric(name) for name in run.metrics]
    parameters: dict[str, Any] = {**run.parameters, **run.tags, **verdicts}
    summaries = [
        (0, hparams.hparams_config_pb([hparams.HParam(name) for name in parameters], metrics)),
        (0, hparams.hparams_pb(parameters, trial_id=run.id, start_time_secs=run.started.timestamp())),
        (0, text("report", run.files["report.md"])),
        *((0, scalar(name, value)) for name, value in run.metrics.items()),
    ]
    for name, values in run.repeats.items():
        summaries += [(step, scalar(f"repeats/{name}", value)) for step, value in enumerate(values, 1)]
    time = run.finished.timestamp()
    folder = directory / run.id
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(time):010d}.dlperf"
    partial = folder / _PARTIAL  # without "tfevents", so that TensorBoard does not read it
    with partial.open("wb") as file:
        writer = import_library("tensorboard.summary.writer.record_writer").RecordWriter(file)
        writer.write(events.Event(wall_time=time, file_version="brain.Event:2").SerializeToString())
        for step, summary in summaries:
            writer.write(events.Event(wall_time=time, step=step, summary=summary).SerializeToString())
        writer.flush()
    for earlier in folder.glob("events.out.tfevents.*.dlperf"):
        earlier.unlink()
    partial.replace(path)
    return str(path)
