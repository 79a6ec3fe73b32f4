"""Ask one worker what a record does not tell. Runs in the framework's environment: standard library, Python 3.7.

    python -I probe.py DIRECTORY NUMBER QUESTIONS

The directory holds what a bundle does, and `cluster.json`; the number is that of the process in the case; the questions
are among `QUESTIONS`. The answer goes to `answer-NUMBER.json` there, whatever happens. All trainers go through the same
questions, so they meet.
"""

import json
import os
import resource
import sys
import time
import traceback

PAUSE = 0.1
"""Seconds in which nothing may change once `synchronize` has returned, and in which what it left undone is done."""
HEADROOM = 256 * 2**20
"""Bytes that a step may still allocate where it is to run out of memory: for libraries that are only loaded when they
are used. Threads have their stacks beside it."""
STACK = 8 * 2**20
"""Bytes of a thread's stack where the user has no limit."""
FURTHER = 4
"""Steps on the canonical batch behind the canonical ones: a short case's warm-up and window are as many."""
TRIES = 3
"""How often time is taken at most, on a machine that may do something else meanwhile: the best counts."""


def initial(request, trainer, canonical, answer):
    """The parameters before the first step, against the canonical weights."""
    wanted = canonical.weights(request.parameters, request.seed)
    given = iter(trainer.parameters(0))
    answer["manifest"], answer["initial"] = [], []
    for name, values in given:
        if not isinstance(values, canonical.numpy.ndarray):
            raise TypeError(
                "`parameters` gives a %s for %s; it must give NumPy arrays" % (type(values).__name__, name)
            )
        answer["manifest"].append(
            [name, list(values.shape), str(values.dtype), bool(values.flags.c_contiguous)]
        )
        expected = next(wanted, (None, None))
        same = expected[0] == name and expected[1].shape == values.shape
        if not same or float(abs(expected[1] - values).max()) != 0.0:
            answer["initial"].append(name)


def asynchrony(runtime, trainer, batch):
    """How long enqueueing some steps takes, then synchronising, then what should wait for nothing any more; and, where
    it can say so itself, how long the device was at it. Beside the times, the steps' losses."""
    events = runtime.clock == "event"
    runtime.synchronize()
    time.sleep(PAUSE)  # what it did not wait for is not taken for these steps' work
    begin = time.monotonic()
    marks = [runtime.mark()] if events else []
    handles = [trainer.step(batch).loss for _ in range(FURTHER)]
    marks += [runtime.mark()] if events else []
    enqueued = time.monotonic()
    runtime.synchronize()
    synchronised = time.monotonic()
    losses = [trainer.read_loss(handle) for handle in handles]
    read = time.monotonic()
    times = {
        "enqueue": enqueued - begin,
        "synchronize": synchronised - enqueued,
        "read": read - synchronised,
        "device": sum(runtime.elapsed(marks)) if events else None,
        "steps": FURTHER,
    }
    return times, plain(losses)


def plain(losses):
    """The losses of some steps, of each replica of this process."""
    return [[float(value) for value in step] for step in losses]


def life(request, cluster, process, resolve, answer):
    """Go through a worker's life, and note each answer as soon as it is there."""
    from probe_times import convinces

    from dlperf_sdk.worker import canonical
    from dlperf_sdk.worker.digest import digest_of

    answer["asked"] = "start"
    runtime = resolve(request.runtime)(request, cluster, process)
    answer["clock"] = runtime.clock
    runtime.start()
    answer["out_of_memory"] = {
        repr(error): bool(runtime.is_out_of_memory(error))
        for error in (
            MemoryError(),
            ValueError("a shape does not fit"),
            ValueError("unsupported memory format"),
            RuntimeError("CUDA error: an illegal memory access was encountered"),
        )
    }
    answer["asked"] = "the constructor of the trainer"
    trainer = resolve(request.trainer)(runtime, request, process)
    answer["asked"] = "parameters"
    initial(request, trainer, canonical, answer)

    answer["asked"] = "deviation"
    before = digest_of(request.parameters, trainer.parameters(0))
    answer["deviation"] = trainer.deviation()
    runtime.synchronize()
    answer["traceless"] = digest_of(request.parameters, trainer.parameters(0)) == before

    answer["asked"] = "step"
    runtime.reset_peak_memory()
    batch = trainer.canonical_batch()
    answer["losses"], answer["samples"], answer["changed"] = [], [], []
    handles = []
    for _ in range(request.protocol["canonical_steps"]):
        loss, samples = trainer.step(batch)
        runtime.synchronize()
        now = digest_of(request.parameters, trainer.parameters(0))
        handles.append(loss)
        answer["losses"] += plain([trainer.read_loss(loss)])
        answer["samples"].append(samples)
        answer["changed"].append(now != before)
        before = now
    answer["peak_memory"] = runtime.peak_memory()

    answer["asked"] = "synchronize"
    tried, answer["losses_further"] = asynchrony(runtime, trainer, batch)
    answer["losses_again"] = plain([trainer.read_loss(handle) for handle in handles])
    answer["asynchrony"] = [tried]
    # In company all take as many steps, whatever each has seen: they meet in every one.
    while len(answer["asynchrony"]) < TRIES and (
        cluster.world_size > 1 or not convinces(runtime.clock, tried)
    ):
        tried, _ = asynchrony(runtime, trainer, batch)
        answer["asynchrony"].append(tried)

    answer["asked"] = "batches"
    batches = trainer.batches()
    for _ in range(2):
        trainer.step(next(batches))
    answer["prefetched"] = trainer.prefetched_batches()
    answer["asked"] = "synchronize"
    runtime.synchronize()
    then = digest_of(request.parameters, trainer.parameters(0))
    time.sleep(PAUSE)
    answer["settled"] = digest_of(request.parameters, trainer.parameters(0)) == then

    answer["asked"] = "facts"
    answer["facts"] = json.loads(json.dumps(runtime.facts(), allow_nan=False))
    answer["asked"] = "observed"
    answer["observed"] = json.loads(json.dumps(trainer.observed(), allow_nan=False))
    answer["asked"] = "stop"
    runtime.stop()
    answer["asked"] = None


def exhaustion(request, cluster, process, resolve, answer):
    """Take steps for which there is no memory, and note what is raised: the batch and the network are there already, so
    it is the framework that asks in vain."""
    from dlperf_sdk.worker import memory

    answer["asked"] = "start"
    runtime = resolve(request.runtime)(request, cluster, process)
    runtime.start()
    answer["asked"] = "the constructor of the trainer"
    trainer = resolve(request.trainer)(runtime, request, process)
    answer["asked"] = "canonical_batch"
    batch = trainer.canonical_batch()
    runtime.synchronize()
    answer["asked"], answer["raised"] = "steps without memory", None
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stacks = (os.cpu_count() or 1) * (STACK if stack == resource.RLIM_INFINITY else stack)
    memory.limit(memory.in_use() + HEADROOM + stacks)
    try:
        handles = [trainer.step(batch).loss for _ in range(2)]
        runtime.synchronize()
        for handle in handles:
            trainer.read_loss(handle)
    except Exception as error:
        memory.lift()
        known = bool(runtime.is_out_of_memory(error))
        answer["raised"] = {"type": type(error).__name__, "message": str(error)[:2000], "known": known}
    memory.lift()
    answer["asked"] = None


QUESTIONS = {"life": life, "exhaustion": exhaustion}


def main(directory, number, questions):
    """Answer in `answer-NUMBER.json`: `asked` is what it was asked when it failed, None if it did not."""
    sys.path.insert(0, directory)
    from dlperf_sdk.worker.processes import SERVICE, cluster_from
    from dlperf_sdk.worker.request import Request, resolve

    answer = {"asked": "the bundle", "error": None}
    try:
        request = Request.load(os.path.join(directory, "request.json"))
        with open(os.path.join(directory, "cluster.json"), encoding="utf-8") as file:
            cluster = cluster_from(json.load(file))
        process = resolve(request.processes)(cluster)[int(number)]
        if process.role == SERVICE:
            resolve(process.target or "")()
            return 0
        QUESTIONS[questions](request, cluster, process, resolve, answer)
    except Exception:
        answer["error"] = traceback.format_exc()[-8000:]
    with open(os.path.join(directory, "answer-%s.json" % number), "w", encoding="utf-8") as file:
        json.dump(answer, file)
    if answer.get("raised"):
        os._exit(0)  # a framework that has run out of memory may hang when the interpreter is taken down
    return 0 if answer["error"] is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
