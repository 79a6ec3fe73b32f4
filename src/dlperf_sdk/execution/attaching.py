"""Follow a job that another controller submitted, and store its result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dlperf_sdk.errors import (
    UsageError,
)
from dlperf_sdk.execution.replay import replay_events
from dlperf_sdk.folders import CAMPAIGNS
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.topology import AttachedJob
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore, campaign_of


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
        SpecError: To plan the case, a file that it names would have to be read here, which is refused.
        UsageError: The case cannot be planned here, or the store cannot be written.
        StoreError: The store has other measurements of the run; or it has the run's complete result, and this stream
            ends with a failure.
        PluginError: A plugin, or a given observer, does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
        Unavailable: The queue does not answer at the start.
        KeyboardInterrupt: Ctrl-C was pressed. The job continues, and can be attached to again.
    """
    listeners = Observers.load(observers)

    def report_waiting(text: str) -> None:
        listeners.notify("dlperf_stage", run_id=job.id, stage="queue", detail=text)

    result = replay_events(job.stream, store, listeners, registry or Registry(), report_waiting)
    job.acknowledge()
    return result
