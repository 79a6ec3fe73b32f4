"""MLflow: a run with parameters, metrics, tags and artifacts, through the client, without its fluent API.

The client adds no tag about the user, the host, the program or the repository.
"""

from __future__ import annotations

import os
from typing import Any

from dlperf_trackers.tracked_run import TrackedRun
from dlperf_trackers.trackers import import_library

LONGEST_VALUE = 500
"""Characters of a parameter: the limit of MLflow before 2.8."""
ID_TAG = "dlperf.id"


def write(run: TrackedRun) -> str:
    """Write a run to the server or database that `MLFLOW_TRACKING_URI` names; return a text such as `MLflow run ID`.

    The experiment is the one with the id `MLFLOW_EXPERIMENT_ID`, if that variable is set. Otherwise it is the one with
    the name `MLFLOW_EXPERIMENT_NAME`, by default `dlperf`, which is created if it is missing. An earlier MLflow run of
    the same result is deleted when the new one is complete; MLflow can restore it. If MLFLOW_HTTP_REQUEST_MAX_RETRIES
    is not set, it is set to 2 in this process.

    Raises:
        ImportError: MLflow cannot be imported.
        mlflow.exceptions.MlflowException: The server or database cannot be reached, or refuses the run. Other errors of
            MLflow pass through, too.
    """
    # With MLflow's default, it takes minutes until the error about a server that refuses connections.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    mlflow = import_library("mlflow")
    entities = import_library("mlflow.entities")
    client = mlflow.MlflowClient()
    experiment = os.environ.get("MLFLOW_EXPERIMENT_ID") or _experiment_id(
        client, os.environ.get("MLFLOW_EXPERIMENT_NAME") or "dlperf"
    )
    earlier = client.search_runs([experiment], f"tags.`{ID_TAG}` = '{run.id}'")
    start, end = (int(time.timestamp() * 1000) for time in (run.started, run.finished))
    tags = {f"dlperf.{name}": text for name, text in run.tags.items()}
    tags |= {f"verdict.{name}": outcome for name, outcome in run.verdicts.items()}
    run_id = client.create_run(experiment, start_time=start, tags=tags, run_name=run.case).info.run_id
    parameters = [entities.Param(name, str(value)[:LONGEST_VALUE]) for name, value in run.parameters.items()]
    metrics = [entities.Metric(name, value, end, 0) for name, value in run.metrics.items()]
    for name, values in run.repeats.items():
        metrics += [
            entities.Metric(f"{name}_repeat", value, end, step) for step, value in enumerate(values, 1)
        ]
    client.log_batch(run_id, params=parameters, metrics=metrics)  # the client splits it into requests
    for name, text in run.files.items():
        client.log_text(run_id, text, name)
    client.set_terminated(run_id, "FINISHED" if run.ok else "FAILED", end_time=end)
    for replaced in earlier:
        client.delete_run(replaced.info.run_id)
    return f"MLflow run {run_id}"


def _experiment_id(client: Any, name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)
