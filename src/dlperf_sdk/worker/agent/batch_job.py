"""The batch script's part: start the agents, hold their tether, keep agent 0's stream until it is acknowledged.

A launcher with a queue submits a script that calls this; `kept_stream.py` reads what is kept from elsewhere.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import List, Optional

from dlperf_sdk.worker import lifetime
from dlperf_sdk.worker.agent import tether
from dlperf_sdk.worker.agent.diagnostics import diagnostics_event
from dlperf_sdk.worker.agent.scratch import scratch, sweep
from dlperf_sdk.worker.agent.standalone import first_event

_GRACE = 10.0
"""Seconds for the agents to end."""
_POLL = 0.2
_ENDED = b'"event": "ended"'
"""Part of the last line of agent 0."""


def main(folder: str, linger_seconds: float, step: List[str]) -> int:
    """Run `step`, keep its output in `folder`/stream, and wait up to `linger_seconds` seconds for an acknowledgement.

    Returns:
        The exit code, which the scheduler reports as the job's: 0 if the run succeeded. The step's own code says less:
        the end of the tether, and the grace period, may reach agents that have nothing left to do.
    """
    lifetime.exit_on_termination()
    process: Optional["subprocess.Popen[bytes]"] = None
    code: Optional[int] = None
    stopped = threading.Event()
    lock = contextlib.ExitStack()
    lock.enter_context(scratch(folder))
    try:
        with contextlib.ExitStack() as files:
            stream = files.enter_context(open(os.path.join(folder, "stream"), "wb", buffering=0))
            diagnostics = files.enter_context(open(os.path.join(folder, "diagnostics"), "a+b"))
            stream.write(first_event(sys.argv[0]))
            process = subprocess.Popen(
                step, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=diagnostics
            )
            assert process.stdin is not None and process.stdout is not None  # noqa: S101 - both are pipes
            feeding = threading.Thread(
                target=tether.feed, args=(process.stdin, open(sys.argv[0], "rb"), stopped), daemon=True
            )
            feeding.start()
            for line in process.stdout:
                stream.write(line)
                if _ENDED in line:
                    code = _exit_code(line)
                    stopped.set()
                    # The step does not end by itself where one of its nodes cannot be reached any more.
                    killing = threading.Timer(_GRACE, process.kill)
                    killing.daemon = True
                    killing.start()
            stopped.set()
            step_code = process.wait()
            stream.write(diagnostics_event(diagnostics) + b"\n")
        open(os.path.join(folder, "over"), "w").close()
        deadline = time.monotonic() + linger_seconds
        while time.monotonic() < deadline and not os.path.exists(os.path.join(folder, "acknowledged")):
            time.sleep(_POLL)
        return step_code if code is None else code
    finally:
        stopped.set()
        shutil.rmtree(folder, ignore_errors=True)  # first: the scheduler may not wait for the rest
        if process is not None and process.poll() is None:
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        lock.close()
        sweep()  # what is left of an agent on this node: srun kills those it has started if it fails to start another


def _exit_code(line: bytes) -> int:
    """Return the exit code that the stream's last event stands for."""
    try:
        return 0 if json.loads(line.decode())["failure"] is None else 1
    except (ValueError, KeyError, TypeError):
        return 1
