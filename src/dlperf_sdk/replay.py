"""A result from the stream of a run alone: of a job that somebody attaches to, of a machine that has no dlperf.

Such a stream begins with an event `case`, which says what was asked for and what it ran in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlperf_sdk import bundle, data, hookspecs
from dlperf_sdk.errors import DocumentError, LostNode, RunFailed, UsageError
from dlperf_sdk.execute import Case, begin, conclude, told
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.launch import event_on
from dlperf_sdk.plan import make_plan
from dlperf_sdk.records import Failure
from dlperf_sdk.registry import Registry
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.spec import RunSpec
from dlperf_sdk.topologies import slurm_job


def replay(
    lines: Iterable[bytes],
    store: ResultStore | str | Path,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
) -> Result:
    """The result of the run that a stream tells of, put into the store as if it had been run from here.

    What the store already has of it, because its controller was lost in the middle, is kept.

    Raises:
        DocumentError: the stream does not say which case it belongs to.
        UsageError, PluginError: the case cannot be planned here, or the store cannot be written.
    """
    events = (event for event in map(event_on, lines) if event is not None)
    first = next((event for event in events if event["event"] not in ("heartbeat", "waiting", "diagnostics")), None)
    if first is None or first["event"] == "ended":
        why = "" if first is None else f": {first['failure']['message']}"
        raise DocumentError(f"The run was over before it said anything{why}.")
    try:
        spec, run_id, environment = RunSpec.from_dict(first["spec"]), str(first["id"]), _environment(first)
    except (KeyError, TypeError, AttributeError) as error:
        raise DocumentError("This is no stream that says which case it belongs to.") from error
    case = begin(
        spec, store, Observers(hookspecs.listeners(observers)), registry or Registry(), run_id=run_id
    )
    _announce(case, environment)
    try:
        _take(case, events)
    except RunFailed as error:
        case.collected.failure = Failure(error.kind, str(error))
    return conclude(case)


def _environment(first: Mapping[str, Any]) -> Environment:
    packages = first["versions"].get("packages", {})
    return Environment(
        kind="given",
        python=str(first["versions"].get("python", "")),
        lock="".join(f"{name}=={version}\n" for name, version in sorted(packages.items())),
        command=tuple(map(str, first["command"])),
        variables={name: value for name, value in first["variables"].items() if value is not None},
        plugin=str(first["plugin"]),
    )


def _announce(case: Case, environment: Environment) -> None:
    collected = case.collected
    collected.environment = environment
    if collected.directory is not None:
        collected.directory.write_spec(case.spec)
        if case.plan is not None:
            collected.directory.write_plan(case.plan.to_dict())
        collected.directory.write_environment(environment)
    place = None if collected.directory is None else str(collected.directory.path)
    if case.plan is not None:
        collected.observers.tell("dlperf_run_started", run_id=case.id, plan=case.plan, directory=place)


def _take(case: Case, events: Iterable[dict[str, Any]]) -> None:
    finished = {repeat.attempt for repeat in case.collected.repeats}
    said = ""
    for event in events:
        if event["event"] == "diagnostics":
            said = str(event.get("text"))
        elif event.get("attempt") not in finished:
            case.collected.take(event)
        if event["event"] == "ended":
            return
    raise LostNode(f"The stream stops in the middle of the run. {said}".strip())


def pack(spec: RunSpec, path: Path, registry: Registry | None = None) -> bundle.Bundle:
    """Write a case as one file, which a machine without dlperf can run: `python FILE run -o OUT`.

    Raises:
        UsageError: its data lies in a folder here, which will not be there.
        RunFailed: the case cannot be run.
    """
    if spec.data.path is not None:
        raise UsageError(
            f"The data {spec.data} lies in a folder of this machine, and the file is for another one. "
            "Use synthetic data."
        )
    planned = make_plan(spec, registry or Registry())
    samples = data.prepare(
        spec.data, planned.model_options, planned.inputs, seed=spec.seed, on_progress=lambda *_: None
    )
    request = planned.request(new_run_id(spec, datetime.now(UTC)), ("python3",), spec.env, samples)
    return bundle.build(request, path, planned.packages, told(planned))


def attach(
    job: str, store: ResultStore | str | Path, observers: Iterable[Any] = (), registry: Registry | None = None
) -> Result:
    """The result of a Slurm job that `run` submitted and then lost, followed from its beginning to its end.

    Raises:
        Unavailable: there is no such job, or Slurm does not answer here.
        DocumentError, UsageError, PluginError: as `replay` does.
    """
    return replay(slurm_job.stream(job), store, observers, registry or Registry())
