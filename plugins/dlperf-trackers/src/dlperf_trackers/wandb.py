"""Weights & Biases: a run with config, summary, tags and an artifact."""

from __future__ import annotations

import os

from dlperf_trackers.tracked_run import TrackedRun
from dlperf_trackers.trackers import import_library

LONGEST_TAG = 64
"""Characters: a limit of W&B."""


def write(run: TrackedRun) -> str:
    """Write a run to the server of Weights & Biases, or in offline mode to a directory; return its URL or directory.

    The project is `WANDB_PROJECT`, else `dlperf`; the variable `WANDB_DIR` names the parent of the directory. The
    library sends nothing about the user, the host, the repository, the installed packages or the console. Errors of the
    library pass through.

    Raises:
        ImportError: The library `wandb` cannot be imported.
    """
    wandb = import_library("wandb")
    settings = wandb.Settings(
        host="",  # None would be the name of this host
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    opened = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or "dlperf",
        id=run.id,
        name=run.case,
        config={**run.parameters, **run.tags},
        tags=[f"{name}: {outcome}"[:LONGEST_TAG] for name, outcome in run.verdicts.items()],
        settings=settings,
    )
    for step in range(max(map(len, run.repeats.values()), default=0)):
        values = {
            f"{name}_repeat": values[step] for name, values in run.repeats.items() if step < len(values)
        }
        opened.log({"repeat": step + 1, **values})
    opened.summary.update({**run.metrics, **{f"verdict.{name}": text for name, text in run.verdicts.items()}})
    artifact = wandb.Artifact(f"result-{run.id}", type="dlperf-result")
    for name, text in run.files.items():
        with artifact.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
    opened.log_artifact(artifact)
    place = opened.url or opened.dir
    opened.finish(exit_code=0 if run.ok else 1)
    return str(place)
