"""Resolve `batch_size="max"`: probes are short cases in new processes; results are cached by device and case."""

from __future__ import annotations

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk.errors import RunFailed
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.max_batch import budget, cache
from dlperf_sdk.max_batch.search import Probe, SearchResult, find_max_batch
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.planning.secret_variables import list_requested_variables, redact_variables
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent import hardware

MAX_BATCH = 2**20
"""Samples per device that are tried at most."""
RESERVE = 16
"""On a CPU, a probe's memory limit is lower than the process's by one part of this many. Two processes of one size
were seen to differ by 3 %, by what their threads happened to allocate; what fitted in a probe has to fit again."""
SHORT = {"protocol": "quick", "canonical_steps": 1, "warmup": 1, "steps": 2, "repeats": 1}
"""Protocol of a probe: the first steps allocate everything, and a second pair shows what stays."""


class _SearchFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def begin_case(
    spec: RunSpec, store: ResultStore | str | Path | None, observers: Observers, registry: Registry
) -> Case:
    """Find the largest batch size that fits, and return the case with it: planned, with a directory, and not started.

    If the search fails, its failure is that of the returned case. A note in the case's result describes the search.

    Args:
        spec: A spec whose batch size is `max`.
        store: The store, or its directory, in which the case's directory is created; None to store nothing.
        observers: The observers; they are notified of each probe, too.
        registry: The plugins.

    Raises:
        UsageError: The case is invalid, or the store cannot be written.
        PluginError: A plugin does not work.
        KeyboardInterrupt: Ctrl-C was pressed; all processes have ended.
    """
    if store is not None:  # before the search, which takes minutes
        (store if isinstance(store, ResultStore) else ResultStore(store)).probe()
    spec, failure, note = resolve_max_batch(spec, observers, registry)
    case = Case.begin(spec, store, observers, registry)
    case.fail(failure)
    case.note(note)
    return case


def resolve_max_batch(
    spec: RunSpec,
    observers: Observers,
    registry: Registry,
    *,
    run_id: str | None = None,
    deadline: float = math.inf,
) -> tuple[RunSpec, Failure | None, str]:
    """Find the largest batch size that fits, in the cache or by probes, and return the spec with it.

    The size is a multiple of `accumulation`, at most `MAX_BATCH` (2^20 samples per device), and the largest to within
    1/32. A size that probes found is put into the cache.

    Args:
        spec: A spec whose batch size is `max`.
        observers: Notified with one line of progress per probe, in the stage `batch-size`.
        registry: The plugins.
        run_id: Name of the run that needs the size; the names of the probes' jobs contain it. None: new names.
        deadline: A time on the monotonic clock, in seconds, at which the search fails with a timeout.

    Returns:
        Three values: the spec, with the size that was found or, after a failure, with the batch size `accumulation`;
        the failure, or None if a size was found; and a sentence on the search, for the notes of the result.

    Raises:
        UsageError: The case is invalid.
        PluginError: A plugin that the case needs does not work.
        KeyboardInterrupt: Ctrl-C was pressed; all processes have ended.
    """
    step = spec.accumulation
    smallest = attrs.evolve(spec, batch_size=step)
    try:
        plan = make_plan(smallest, registry)
    except RunFailed as error:
        return (
            smallest,
            Failure(error.kind, str(error)),
            "batch_size max was not searched for: the case was refused.",
        )
    limit = budget.process_memory(plan)
    key = cache_key(plan, limit)
    known = cache.read(key)
    if known is not None and known["size"] * step <= MAX_BATCH:
        size, probes = known["size"] * step, known["probes"]
        note = f"batch_size max is {size:,}, from the cache: a search of {probes} probes on this device."
        return attrs.evolve(spec, batch_size=size), None, note
    limited = smallest
    if plan.device == "cpu" and limit is not None:
        limit -= limit // RESERVE
        limited = attrs.evolve(smallest, memory_limit=limit)
    try:
        search = find_max_batch(
            lambda size: _probe(limited, size * step, observers, registry, run_id, deadline),
            limit,
            MAX_BATCH // step,
        )
    except _SearchFailed as failed:
        return (
            smallest,
            failed.failure,
            "batch_size max was not found: a probe failed for another reason than memory.",
        )
    if search.size is None:
        message = f"Not even a batch of {step} fits into the memory. Use a smaller model, or more memory."
        return smallest, Failure("out-of-memory", message), "batch_size max was searched for: nothing fits."
    cache.write(key, search.size, len(search.probes))
    return attrs.evolve(spec, batch_size=search.size * step), None, describe_search(search, step)


def _probe(
    spec: RunSpec, size: int, observers: Observers, registry: Registry, run_id: str | None, deadline: float
) -> Probe:
    """Try one size in new processes; a failure for another reason than memory ends the search."""
    if time.monotonic() >= deadline:
        raise _SearchFailed(Failure("timeout", "The time was up before the largest batch size was found."))
    short: dict[str, Any] = {**SHORT, "target": None, "max_repeats": None}
    short_spec = attrs.evolve(spec, batch_size=size, **short)
    name = None if run_id is None else f"largest-{run_id}"
    case = Case.begin(short_spec, None, Observers({}), registry, run_id=name)
    observers.notify("dlperf_stage", run_id=case.id, stage="batch-size", detail=f"trying {size:,} per device")
    case.prepare()
    case.measure(deadline=None if math.isinf(deadline) else deadline)
    failure = case.failure
    if failure is not None and failure.kind != "out-of-memory":
        raise _SearchFailed(failure)
    peaks = [
        record.facts.get("allocated_memory", record.peak_host_memory)
        if record.peak_device_memory is None
        else record.peak_device_memory // len(record.replicas)
        for repeat in case.repeats
        for record in repeat.records
    ]
    return Probe(size // spec.accumulation, failure is None, max(peaks, default=None))


def cache_key(plan: Plan, limit: int | None) -> dict[str, Any]:
    """Return a dict of all conditions that the largest batch size depends on: name → JSON value.

    Environment variables, which may be secrets, are in it as a digest.

    Args:
        plan: The plan of the case with any batch size.
        limit: The bytes of memory that one process may take; None if unknown.

    Raises:
        SpecError: An environment variable of the spec has only a hash as its value.
    """
    spec = plan.spec
    recorded = redact_variables(list_requested_variables(spec), plan.secrets)
    variables = json.dumps(recorded, sort_keys=True).encode()
    machine = hardware.describe()
    gpus = [{"name": gpu.get("name"), "memory": gpu.get("memory")} for gpu in machine.get("gpus") or ()]
    return {
        "device": plan.device,
        "hardware": gpus if plan.device == "cuda" else machine.get("cpu"),
        "memory": machine.get("memory"),
        # Free memory of a host varies, and is rounded to GiB; a limit that the user set is exact.
        "limit": spec.memory_limit or (None if limit is None else limit >> 30),
        "reserve": RESERVE,
        "framework": spec.framework,
        "plugin": plan.plugin,
        "model": spec.model,
        "options": {**plan.model_options, **plan.framework_options},
        "precision": spec.precision,
        "compiler": spec.compiler,
        "layout": spec.layout,
        "strategy": spec.strategy,
        "accumulation": spec.accumulation,
        "topology": str(spec.topology),
        "data": spec.data.source,
        "python": spec.python,
        "container": [spec.container, spec.container_mounts, spec.container_devices],
        "variables": hashlib.sha256(variables).hexdigest(),
        "requirements": list(plan.environment.requirements),
    }


def describe_search(search: SearchResult, step: int) -> str:
    """Return a sentence on a search that found a size: the size, and the sizes that were tried, in samples per device.

    Args:
        search: The search, whose `size` is not None.
        step: Samples per device in one unit of the search's sizes: the case's `accumulation`.
    """
    assert search.size is not None
    sizes = ", ".join(
        f"{probe.size * step:,}{'' if probe.fits else ' (too large)'}" for probe in search.probes
    )
    remark = "" if search.exact else ", to which the search was not finished"
    if search.exact and all(probe.fits for probe in search.probes):
        remark = f", near the {MAX_BATCH:,} at which the search ends, not the memory"
    return f"batch_size max is {search.size * step:,}{remark}: tried in fresh processes {sizes}."
