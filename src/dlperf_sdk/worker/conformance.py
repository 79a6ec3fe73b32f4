"""The programs of the conformance suite: questions to a worker that its record does not answer.

`check` answers everything from one start: it measures first, in the untouched process, as the program `measure`
does. The suite's questions and the parity run follow, each with its own trainer; their answers are among the
record's facts. `answer` answers the questions alone; `exhaust` takes steps for which there is not enough memory.
"""

import json
import math
import os
import resource
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy

from dlperf_sdk.worker import bundled, canonical, memory
from dlperf_sdk.worker.digest import digest_of
from dlperf_sdk.worker.enqueue_times import is_plausible
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.processes import Cluster, Process
from dlperf_sdk.worker.programs import Task, follow_reference, measure
from dlperf_sdk.worker.request import Request, resolve

ANSWERS, PARITY = "conformance_answers", "conformance_parity"
"""Names of the facts that hold what `check` and `answer` return."""
PAUSE = 0.1
"""Seconds after `synchronize` in which nothing may change. Work that it has not waited for is done in this time."""
HEADROOM = 256 * 2**20
"""Bytes that a step may still allocate when it is to run out of memory: for libraries that are loaded at their
first use. The stacks of threads are added."""
STACK = 8 * 2**20
"""Bytes of a thread's stack, if the user's limit is none."""
EXTRA_STEPS = 4
"""Steps on the canonical batch after the canonical ones: as many as warm-up and window of a short case."""
NO_SETTING = "conformance"
"""A name of a precision, a compiler, a layout, a strategy and a data source that no plugin has."""
TRIES = 3
"""Maximum number of measurements of a time, since the machine may be busy meanwhile; the best one counts."""


def check(task: Task) -> Dict[str, Any]:
    """Measure, then answer the questions of the conformance suite, then take the steps of a parity run.

    The questions are left out if the case has several devices and the runtime's clock is "blocking". The parity run is
    left out if the bundle has no `parity.json`, the parity run's request. The questions and the parity run each get a
    new trainer.

    Args:
        task: The started runtime, and a trainer that has taken no step.

    Returns:
        Fields of the record: those of the measurement, as `programs.measure` returns them, and the dict `facts`. In
        `facts`, the key `ANSWERS` has the answers, as `answer` returns them, and the key `PARITY` the fields of the
        parity record, as `programs.follow_reference` returns them. A key is absent if its part was left out.

    Raises:
        Unsupported: The trainer does not support the request's part of a step or its data source.
        DataError: The prepared data is missing, or is not what the controller prepared.
        RuntimeError: The loss scaler skipped too many steps of the parity run.
        ValueError: The trainer's parameters are not the manifest's, or `parity.json` is malformed.
    """
    record = measure(task)
    facts: Dict[str, Any] = {}
    if task.cluster.world_size == 1 or task.runtime.clock != "blocking":  # others are not asked
        facts[ANSWERS] = _answers(_rebuild(task, task.request))
    bundle = os.path.dirname(os.path.abspath(sys.argv[0]))
    if bundled.contains(bundle, "parity.json"):
        request = Request.from_json(bundled.member(bundle, "parity.json"))
        facts[PARITY] = follow_reference(_rebuild(task, request))
    return dict(record, facts=facts)


def answer(task: Task) -> Dict[str, Any]:
    """Answer the questions of the conformance suite without a measurement.

    Args:
        task: The started runtime, and a trainer that has taken no step.

    Returns:
        A dict with the record's field `facts`, which is a dict with the answers under the key `ANSWERS`. The answers
        are a dict of JSON values by name. Its key `asked` has the name of the question that failed, None if all were
        answered; after a failure, the key `error` has the traceback. A question that was not asked has no answer.

    Raises:
        Exception: The exception of the question that failed, if the case has several replicas: the other workers would
            wait for this one.
    """
    return {"facts": {ANSWERS: _answers(task)}}


def exhaust(task: Task) -> Dict[str, Any]:
    """Take two steps with a limit on this process's memory that is meant to be too low for them.

    The limit is the memory in use, plus `HEADROOM` (256 MiB), plus one thread's stack per processor. At the end, also
    after an error, the limit is raised to the hard limit.

    Args:
        task: The started runtime, and a trainer.

    Returns:
        An empty dict, if the steps succeed in spite of the limit: the record then has no further fields.

    Raises:
        Exception: The framework's own error for a lack of memory, which is the expected outcome.
    """
    runtime, trainer = task.runtime, task.trainer
    batch = trainer.canonical_batch()
    runtime.synchronize()
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stacks = (os.cpu_count() or 1) * (STACK if stack == resource.RLIM_INFINITY else stack)
    memory.limit(memory.read_used_memory() + HEADROOM + stacks)
    try:
        handles = [trainer.step(batch).loss for _ in range(2)]
        runtime.synchronize()
        for handle in handles:
            trainer.read_loss(handle)
    finally:
        memory.remove_limit()
    return {}


def _rebuild(task: Task, request: Request) -> Task:
    """Return the task of a request with another trainer, built as the first one was."""
    task.progress.enter("compile")
    trainer = resolve(request.trainer)(task.runtime, request, task.process)
    return task._replace(trainer=trainer, request=request)


def _answers(task: Task) -> Dict[str, Any]:
    """Return the answers to all questions; `asked` in them is the question that failed, None if all were answered.

    A failure ends the attempt only where other workers would wait for this one.
    """
    answers: Dict[str, Any] = {}
    try:
        _ask(task.runtime, task.trainer, task.request, task.cluster, answers)
    except Exception:
        if task.cluster.world_size > 1:
            raise
        answers["error"] = traceback.format_exc()[-8000:]
    return answers


def _ask(
    runtime: Runtime, trainer: Trainer, request: Request, cluster: Cluster, answers: Dict[str, Any]
) -> None:
    """Go through a worker's life, and note each answer as soon as it is known."""
    answers["asked"] = "is_out_of_memory"
    answers["clock"] = runtime.clock
    answers["out_of_memory"] = {
        repr(error): bool(runtime.is_out_of_memory(error))
        for error in (
            MemoryError(),
            ValueError("a shape does not fit"),
            ValueError("unsupported memory format"),
            RuntimeError("CUDA error: an illegal memory access was encountered"),
        )
    }
    answers["asked"] = "parameters"
    _compare_weights(request, trainer, answers)

    answers["asked"] = "deviation"
    before = digest_of(request.parameters, trainer.parameters(0))
    trainer.deviation()
    runtime.synchronize()
    answers["traceless"] = digest_of(request.parameters, trainer.parameters(0)) == before

    answers["asked"] = "step"
    runtime.reset_peak_memory()
    batch = trainer.canonical_batch()
    answers["losses"], answers["samples"], answers["changed"] = [], [], []
    handles = []
    for _ in range(request.protocol["canonical_steps"]):
        loss, samples, _ = trainer.step(batch)
        runtime.synchronize()
        now = digest_of(request.parameters, trainer.parameters(0))
        handles.append(loss)
        answers["losses"] += _floats([trainer.read_loss(loss)])
        answers["samples"].append(samples)
        answers["changed"].append(now != before)
        before = now
    answers["peak_memory"] = runtime.peak_memory()

    answers["asked"] = "synchronize"
    times, answers["losses_further"] = _enqueue(runtime, trainer, batch)
    answers["losses_again"] = _floats([trainer.read_loss(handle) for handle in handles])
    answers["asynchrony"] = [times]
    # With several trainers, all must take the same number of steps: they synchronize in each.
    while len(answers["asynchrony"]) < TRIES and (
        cluster.world_size > 1 or not is_plausible(runtime.clock, times)
    ):
        times, _ = _enqueue(runtime, trainer, batch)
        answers["asynchrony"].append(times)

    answers["asked"] = "batches"
    batches = trainer.batches()
    for _ in range(2):
        trainer.step(next(batches))
    answers["prefetched"] = trainer.prefetched_batches()
    answers["asked"] = "synchronize"
    runtime.synchronize()
    digest = digest_of(request.parameters, trainer.parameters(0))
    time.sleep(PAUSE)
    answers["settled"] = digest_of(request.parameters, trainer.parameters(0)) == digest

    answers["asked"] = "facts"
    answers["facts"] = json.loads(json.dumps(runtime.facts(), allow_nan=False))
    answers["asked"] = "observed"
    answers["observed"] = json.loads(json.dumps(trainer.observed(), allow_nan=False))
    if cluster.world_size == 1 and request.compiler == "none":
        answers["asked"] = "evidence"
        answers["evidence"] = _vary_request(runtime, request, trainer.process)
        answers["asked"] = "refusals"
        answers["refusals"] = _collect_refusals(runtime, request, cluster, trainer.process)
    answers["asked"] = None


def _vary_request(runtime: Runtime, request: Request, process: Process) -> Dict[str, Any]:
    """Collect evidence from trainers of varied requests: it must follow what a trainer does, not its request.

    `claims` has what each trainer observed if the request named a precision or a compiler that does not exist, null
    if it refused. `finite` is true if `deviation` is a finite number although all weights are NaN.
    """
    not_finite = [
        dict(entry, init={"kind": "constant", "value": float("nan")}) for entry in request.parameters
    ]
    variations = {
        "precision": request._replace(precision=NO_SETTING),
        "compiler": request._replace(compiler=NO_SETTING, parameters=not_finite),
        "weights": request._replace(parameters=not_finite),
    }
    evidence: Dict[str, Any] = {"claims": {}, "finite": None}
    for name, varied in variations.items():
        if name == "weights" and evidence["finite"] is not None:
            continue  # seen by the trainer with another compiler
        try:
            other = resolve(request.trainer)(runtime, varied, process)
            deviation = other.deviation()
            observed = other.observed()
        except Exception:
            # A refusal is right for a setting that does not exist, and any failure for weights that are no numbers.
            continue
        evidence["claims"][name] = observed.get(name)
        if varied.parameters is not_finite and deviation is not None:
            evidence["finite"] = math.isfinite(deviation)
    return evidence


def _collect_refusals(
    runtime: Runtime, request: Request, cluster: Cluster, process: Process
) -> Dict[str, Optional[str]]:
    """Return how the plugin refuses unknown names: the exception's type and message, null if there was none.

    The keys are those of the request: `precision`, `compiler`, `layout` and `data`, which a trainer refuses, and
    `strategy`, which a runtime for several devices refuses when it is made.
    """

    def build(**changes: Any) -> Trainer:
        trainer: Trainer = resolve(request.trainer)(runtime, request._replace(**changes), process)
        return trainer

    (node,) = cluster.nodes
    pair = cluster._replace(nodes=(node, node), strategy=NO_SETTING)
    attempts: Dict[str, Callable[[], Any]] = {
        "precision": lambda: build(precision=NO_SETTING),
        "compiler": lambda: build(compiler=NO_SETTING),
        "layout": lambda: build(layout=NO_SETTING),
        "data": lambda: next(iter(build(data=dict(request.data, source=NO_SETTING)).batches())),
        "strategy": lambda: resolve(request.runtime)(request._replace(strategy=NO_SETTING), pair, process),
    }
    refusals: Dict[str, Optional[str]] = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            refusals[name] = None
        except Exception as error:
            refusals[name] = "%s: %s" % (type(error).__name__, error)
    return refusals


def _compare_weights(request: Request, trainer: Trainer, answers: Dict[str, Any]) -> None:
    """Compare the parameters before the first step with the canonical weights."""
    expected_weights = canonical.weights(request.parameters, request.seed)
    actual = iter(trainer.parameters(0))
    answers["manifest"], answers["initial"] = [], []
    for name, values in actual:
        if not isinstance(values, numpy.ndarray):
            raise TypeError(
                "`parameters` gives a %s for %s; it must give NumPy arrays" % (type(values).__name__, name)
            )
        answers["manifest"].append(
            [name, list(values.shape), str(values.dtype), bool(values.flags.c_contiguous)]
        )
        expected = next(expected_weights, (None, None))
        is_equal = expected[0] == name and expected[1].shape == values.shape
        if not is_equal or float(abs(expected[1] - values).max()) != 0.0:
            answers["initial"].append(name)


def _enqueue(runtime: Runtime, trainer: Trainer, batch: Any) -> Tuple[Dict[str, Any], List[List[float]]]:
    """Run `EXTRA_STEPS` steps, and return their times in seconds and their losses.

    The times are those of enqueueing the steps, of `synchronize`, and of reading the losses, which should no longer
    wait for anything. `device` is the device's own time if the clock is 'event', else None.
    """
    events = runtime.clock == "event"
    runtime.synchronize()
    time.sleep(PAUSE)  # so that work which `synchronize` missed does not count as these steps'
    begin = time.monotonic()
    marks = [runtime.mark()] if events else []
    handles = [trainer.step(batch).loss for _ in range(EXTRA_STEPS)]
    marks += [runtime.mark()] if events else []
    enqueued = time.monotonic()
    runtime.synchronize()
    synchronized = time.monotonic()
    losses = [trainer.read_loss(handle) for handle in handles]
    read = time.monotonic()
    times = {
        "enqueue": enqueued - begin,
        "synchronize": synchronized - enqueued,
        "read": read - synchronized,
        "device": sum(runtime.elapsed(marks)) if events else None,
        "steps": EXTRA_STEPS,
    }
    return times, _floats(losses)


def _floats(losses: List[Any]) -> List[List[float]]:
    """Return the losses of some steps, of each replica of this process.

    Raises:
        ValueError: A loss is NaN or infinite.
    """
    numbers = [[float(value) for value in step] for step in losses]
    if not all(math.isfinite(loss) for step in numbers for loss in step):
        raise ValueError("these losses, of steps on the canonical batch, are not all finite: %r" % numbers)
    return numbers
