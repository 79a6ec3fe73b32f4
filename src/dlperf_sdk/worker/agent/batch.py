"""The batch script's part: start the agents, hold their tether, keep agent 0's stream until it has been fetched."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, List, Optional

from dlperf_sdk.worker.agent.scratch import scratch
from dlperf_sdk.worker.agent.standalone import first_event

BEAT = 5.0
"""Seconds between two signs of life on the agents' tether."""
_GRACE = 10.0
_LOOK = 0.2
_ENDED = b'"event": "ended"'
"""What is in the last line of agent 0."""


def main(folder: str, linger: float, step: List[str]) -> int:
    """Run `step`, keep what it prints in `folder`/stream, wait up to `linger` seconds for it to be fetched.

    The value, and with it what Slurm calls the job in the end, is 0 if the run came to a good end. The step's own code
    says less: the end of their tether, and our patience, may reach agents that have nothing left to do.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    process: Optional["subprocess.Popen[bytes]"] = None
    code: Optional[int] = None
    over = threading.Event()
    held = contextlib.ExitStack()
    held.enter_context(scratch(folder))
    try:
        with contextlib.ExitStack() as files:
            stream = files.enter_context(open(os.path.join(folder, "stream"), "wb", buffering=0))
            diagnostics = files.enter_context(open(os.path.join(folder, "diagnostics"), "wb"))
            stream.write(first_event(sys.argv[0]))
            process = subprocess.Popen(
                step, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=diagnostics
            )
            assert process.stdin is not None and process.stdout is not None  # noqa: S101 - both are pipes
            threading.Thread(target=_feed, args=(process.stdin, over), daemon=True).start()
            for line in process.stdout:
                stream.write(line)
                if _ENDED in line:
                    code = _code(line)
                    over.set()
                    # The step does not end by itself where one of its nodes cannot be reached any more.
                    killing = threading.Timer(_GRACE, process.kill)
                    killing.daemon = True
                    killing.start()
            over.set()
            left = process.wait()
            stream.write(_last_words(diagnostics.name))
        open(os.path.join(folder, "over"), "w").close()
        end = time.monotonic() + linger
        while time.monotonic() < end and not os.path.exists(os.path.join(folder, "fetched")):
            time.sleep(_LOOK)
        return left if code is None else code
    finally:
        over.set()
        shutil.rmtree(folder, ignore_errors=True)  # before anything that Slurm may not wait for
        if process is not None and process.poll() is None:
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        held.close()


def _code(line: bytes) -> int:
    """Of the stream's last event."""
    try:
        return 0 if json.loads(line.decode())["failure"] is None else 1
    except (ValueError, KeyError, TypeError):
        return 1


def _last_words(path: str) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4000))
        said = file.read().decode("utf-8", "replace").strip()
    return json.dumps({"event": "diagnostics", "text": said}).encode() + b"\n"


def _feed(pipe: IO[bytes], over: threading.Event) -> None:
    try:
        with pipe, open(sys.argv[0], "rb") as bundle:
            shutil.copyfileobj(bundle, pipe)
            pipe.flush()
            while not over.wait(BEAT):
                pipe.write(b"\n")
                pipe.flush()
    except (OSError, ValueError):
        pass  # nobody reads it any more
