"""Run one trainer process: from the request to the record, whatever happens in between."""

import os
import sys
import traceback
from time import monotonic
from typing import Any, Callable, Dict, Optional

from dlperf_sdk.worker import memory
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.processes import Cluster, Process
from dlperf_sdk.worker.programs import PROGRAMS, Task
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.request import RECORD_VERSION, Request, resolve
from dlperf_sdk.worker.unsupported import Unsupported
from dlperf_sdk.worker.writing import write_json

_THREAD_VARIABLES = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "NUMEXPR_")


def _circumstances() -> Dict[str, Any]:
    """Return the facts that do not depend on the framework: Python's version, CPU affinity, thread variables."""
    return {
        "python_version": "%d.%d.%d" % sys.version_info[:3],
        "cpus": sorted(os.sched_getaffinity(0)),
        "thread_variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(_THREAD_VARIABLES)},
    }


def _describe_limit(limit: Optional[int]) -> str:
    """Return the limit of this process's memory in parentheses; empty without a limit."""
    if limit is not None:
        return " (memory_limit lets each process allocate %d bytes)" % limit
    space = memory.address_space_limit()
    return "" if space is None else " (`ulimit -v` leaves it %d KiB: raise it)" % (space // 1024)


def _is_of_the_data(error: BaseException) -> bool:
    from dlperf_sdk.worker.data import DataError  # late: many start at once, few need it

    return isinstance(error, DataError)


def _failure(
    error: BaseException, phase: str, runtime: Optional[Runtime], request: Request
) -> Dict[str, Any]:
    """Return an exception as a failure of the protocol, without the values of secret variables."""
    from dlperf_sdk.worker.agent.secret_values import replace_values, secret_values  # late: few fail

    # Before anything is cut, or a part of a value could stay that nobody would recognize.
    secrets, limit = secret_values(request, os.environ), request.memory_limit
    message = replace_values(str(error), secrets.items())[:4000] or type(error).__name__
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    if isinstance(error, MemoryError) or (runtime is not None and runtime.is_out_of_memory(error)):
        kind = "out-of-memory"
    elif (limit or memory.address_space_limit()) and memory.reports_out_of_memory(message):
        kind = "out-of-memory"
    elif isinstance(error, Unsupported):
        kind = "unsupported"
    elif _is_of_the_data(error):
        kind = "unavailable"
    else:
        kind = "crashed"
    return {
        "kind": kind,
        "phase": phase,
        "type": type(error).__name__,
        "message": message + (_describe_limit(limit) if kind == "out-of-memory" else ""),
        "traceback": replace_values("".join(lines), secrets.items())[-16000:],
    }


def run(
    request: Request,
    cluster: Cluster,
    process: Process,
    attempt: int,
    directory: str,
    wait_for_go: Callable[[], None],
) -> int:
    """Run the request's program in this trainer process, write its record, and return the exit code.

    The phases are reported in the file `progress` of the directory, and the record is its file `record.json`. If the
    program succeeds, the record has the status `ok`, and the runtime is stopped after the record was written. If the
    start, the program or the writing of the record raises an exception, the record has the status `failed` with the
    failure, and the traceback goes to standard error.

    Args:
        request: The case.
        cluster: All nodes of the case.
        process: This process of the case.
        attempt: Number of the attempt, counted from 1; 0 for the parity run.
        directory: An existing directory for the two files.
        wait_for_go: Function that blocks until all workers of the case may begin the measured window.

    Returns:
        0; or 1 if the record has a failure.

    Raises:
        OSError: The file `progress`, or the record of a failure, cannot be written.
        Exception: An exception of `Runtime.stop` passes through.
    """
    progress = Progress(os.path.join(directory, "progress"))
    entered_at = monotonic()
    runtime: Optional[Runtime] = None
    record: Dict[str, Any] = {
        "schema_version": RECORD_VERSION,
        "request": request.id,
        "attempt": attempt,
        "rank": process.rank,
        "node": process.node,
        "status": "failed",
        "failure": None,
    }
    try:
        progress.enter("start")
        runtime = resolve(request.runtime)(request, cluster, process)
        runtime.start()
        started = monotonic()
        progress.enter("compile")
        trainer = resolve(request.trainer)(runtime, request, process)
        built = monotonic()
        task = Task(runtime, trainer, request, cluster, process, progress, wait_for_go)
        answer = resolve(PROGRAMS[request.program])(task)
        if "phases" in answer:
            answer["phases"]["compile"] += built - started
            answer["phases"]["start"] = started - entered_at
        loop_facts = answer.pop("facts", {})
        facts = {**_circumstances(), **memory.facts(request.memory_limit), **runtime.facts(), **loop_facts}
        complete = dict(record, status="ok", facts=facts, observed=trainer.observed(), **answer)
        write_json(os.path.join(directory, "record.json"), complete)
        record = complete
    except Exception as error:
        if request.memory_limit is not None:
            memory.remove_limit()
        traceback.print_exc()
        record["failure"] = _failure(error, progress.read()[0], runtime, request)
        write_json(os.path.join(directory, "record.json"), record)
    if runtime is not None and record["status"] == "ok":
        # After a failure the framework may hang in its own teardown, and the agent ends the process anyway.
        runtime.stop()
    progress.enter("done")
    return 0 if record["status"] == "ok" else 1
