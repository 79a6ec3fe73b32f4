"""The part of a process of the job that is not rank 0: it serves rank 0 until that ends, and leads its node's agent."""

from __future__ import annotations

import base64
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from dlperf_sdk.errors import LostNode
from dlperf_sdk.launchers.joined.agent_process import run_agent
from dlperf_sdk.launchers.joined.job_kinds import Seat
from dlperf_sdk.launchers.joined.meeting import Meeting, find_meeting
from dlperf_sdk.worker.agent import link, rendezvous, tether

_RETRY = 0.5
"""Seconds between two looks at the file of the job, and at the ports of rank 0."""
_ATTEMPT = 5.0
"""Seconds for one attempt to reach rank 0; after that, the file is read again, for it may be that of an earlier job."""
_GRACE = 25.0
"""Seconds after a signal in which rank 0 may store its result and dismiss this process."""


def find_controller(
    path: Path, address: str, environ: Mapping[str, str], seat: Seat, ports: range, timeout: float
) -> tuple[link.Link, Meeting]:
    """Connect to rank 0 of the job, which may not listen yet.

    Args:
        path: The job's file, as `meeting_file` returns it.
        address: Rank 0's address, if the user or the job gives it; empty if not.
        environ: The environment variables of this process.
        seat: This process's place in the job.
        ports: The ports on which rank 0 may listen; empty for any.
        timeout: Seconds to try.

    Returns:
        The link to rank 0; and the secret and address by which it was found.

    Raises:
        LostNode: Rank 0 was not found within `timeout` seconds.
        UsageError: The secret in DLPERF_JOIN_SECRET has fewer than 32 characters, or it is given without an address.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            meeting = find_meeting(path, address, environ)
            candidates = rendezvous.candidate_ports(meeting.secret, ports)
            attempt = min(_ATTEMPT, max(_RETRY, deadline - time.monotonic()))
            return rendezvous.connect(meeting.address, candidates, meeting.secret, attempt), meeting
        except (OSError, ValueError) as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise LostNode(
                f"{seat.describe().capitalize()} ({socket.gethostname()}) has not found rank 0 of its job within "
                f"{timeout:.0f} s: {reason}. All processes must run the same command in a folder that the nodes share; "
                "otherwise name such a folder with --set meeting=DIR."
            )
        time.sleep(_RETRY)


def serve(connection: link.Link, hello: Mapping[str, Any]) -> int | None:
    """Execute the requests of rank 0, such as to start an agent, until rank 0 dismisses this process.

    While this runs in the main thread, SIGTERM, SIGHUP and SIGINT do not end this process: they are reported to rank 0,
    which ends the run. A signal that this process ignores stays ignored.

    Args:
        connection: The link to rank 0, which is closed at the end.
        hello: The message with which this process introduces itself, as `introduce` returns it.

    Returns:
        The exit code of rank 0; None if the connection to rank 0 was lost.
    """
    connection.socket.settimeout(tether.TIMEOUT)
    connection.send(dict(hello))
    bundle = b""
    with _report_signals(connection), ExitStack() as launched:
        launched.callback(connection.close)
        agent = launched.enter_context(ExitStack())
        for message in connection.messages():
            order = message.get("do")
            if order in ("bundle", "end"):
                agent.close()
            if order == "bundle":
                bundle = base64.b64decode(message["content"])
            elif order == "launch":
                os.sched_setaffinity(0, message["cpus"])
                number = message["launch"]
                on_line = partial(_send_line, connection, number)
                on_end = partial(_send_end, connection, number)
                agent.enter_context(run_agent(message["command"], bundle, on_line, on_end))
            elif order == "dismiss":
                return int(message["code"])
    return None


def _send_line(connection: link.Link, launch: int, line: str) -> None:
    connection.send({"event": "line", "launch": launch, "line": line})


def _send_end(connection: link.Link, launch: int, code: int, errors: str) -> None:
    connection.send({"event": "ended", "launch": launch, "code": code, "errors": errors})


@contextmanager
def _report_signals(connection: link.Link) -> Iterator[None]:
    """Report signals to rank 0 instead of ending; if it does not answer for `_GRACE` seconds, close the connection."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return

    def report(number: int, frame: FrameType | None) -> None:
        # In a thread: the main thread may hold the connection's lock.
        message = {"event": "signal", "name": signal.Signals(number).name}
        threading.Thread(target=connection.send, args=(message,), daemon=True).start()
        leaving = threading.Timer(_GRACE, connection.socket.shutdown, (socket.SHUT_RDWR,))
        leaving.daemon = True
        leaving.start()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, report)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
