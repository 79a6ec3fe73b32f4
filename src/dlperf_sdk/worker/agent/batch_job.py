"""The batch script's part: start the agents, hold their tether, and keep agent 0's stream until it is acknowledged.

A launcher with a queue submits a script that calls this; `kept_stream.py` reads the stream from elsewhere.
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
    """Run the command that starts the agents, and keep agent 0's stream in a folder until a reader acknowledges it.

    The folder has the files `stream`; `diagnostics`, the command's standard error; and, when the stream is complete,
    `over`. A reader creates the file `acknowledged` there (see `kept_stream`). The function returns when this file
    exists, or `linger_seconds` after the stream is complete. The folder is removed at the end, also after SIGTERM.

    Args:
        folder: The folder of this job, which must exist.
        linger_seconds: Seconds to wait for an acknowledgement when the stream is complete.
        step: The command that starts the agents, such as `srun …`; its standard output is agent 0's stream.

    Returns:
        The exit code, which the scheduler reports as the job's. If the stream has the event `ended`, it is 0 if that
        event has no failure, else 1; the command's own exit code does not count, because the command may be killed when
        the agents have finished their work. If the stream lacks the event, it is the command's exit code, negative if a
        signal ended the command.

    Raises:
        SystemExit: A SIGTERM or SIGHUP arrived. The command is then ended, by force after 10 s.
        OSError: The folder does not exist or cannot be written to, or the command cannot be started.
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
                target=tether.feed, args=([process.stdin], open(sys.argv[0], "rb"), stopped), daemon=True
            )
            feeding.start()
            for line in process.stdout:
                stream.write(line)
                if _ENDED in line:
                    code = _exit_code(line)
                    stopped.set()
                    # The step does not end by itself if one of its nodes can no longer be reached.
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
        sweep()  # srun kills agents it has started if it fails to start another; remove what they left on this node


def _exit_code(line: bytes) -> int:
    """Return the exit code that the stream's last event stands for."""
    try:
        return 0 if json.loads(line.decode())["failure"] is None else 1
    except (ValueError, KeyError, TypeError):
        return 1
