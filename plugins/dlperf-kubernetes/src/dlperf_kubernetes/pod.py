"""The program of a pod: run one node's agent from the bundle; pod 0's standard output is the stream of the run.

The manifest holds its source. It needs a Python 3.7 or later, and the bundle as a file.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

_POLL = 0.5
"""Seconds between two tries to resolve a name."""


def _await_names(names: "list[str]", timeout: float) -> None:
    """Wait until the pods' names can be resolved, which is when the pods have addresses.

    A name that stays unknown is left to the agent, which reports it.
    """
    deadline = time.monotonic() + timeout
    for name in names:
        while time.monotonic() < deadline:
            try:
                socket.getaddrinfo(name, None)
                break
            except OSError:
                time.sleep(_POLL)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def main(bundle: str, hosts: str, timeout: str, *arguments: str) -> int:
    """Run the agent of this pod's node, and wait until the agent ends.

    The environment variable JOB_COMPLETION_INDEX has the node's number. The logs of a pod mix standard output and
    standard error. Therefore the agent's standard error goes to a file, whose end is written to standard output as an
    event when the agent has ended. Node 0 writes the event `case` before it starts the agent. A SIGTERM is passed on to
    the agent.

    Args:
        bundle: Path of the bundle's file.
        hosts: The names of the first two pods, joined by a comma; `127.0.0.1` if there is only one node.
        timeout: Maximum seconds to wait until these names can be resolved, as text. After that, the agent is started
            anyway, and reports a name that is unknown.
        arguments: More arguments of the agent.

    Returns:
        The agent's exit code, or if a signal ended it, the signal's number, which is positive.

    Raises:
        KeyError: JOB_COMPLETION_INDEX is not set.
        OSError: The agent cannot be started.
    """
    sys.path.insert(0, bundle)
    from dlperf_sdk.worker.agent.diagnostics import diagnostics_event
    from dlperf_sdk.worker.agent.standalone import first_event

    node = os.environ["JOB_COMPLETION_INDEX"]
    command = [sys.executable, "-I", "-S", bundle, "agent", "--node", node, "--hosts", hosts]
    command += ["--python", sys.executable, *arguments]
    signal.signal(signal.SIGTERM, lambda *received: sys.exit(1))
    with tempfile.TemporaryFile() as diagnostics:
        if node == "0":
            _write(first_event(bundle, sys.executable))
        _await_names(hosts.split(","), float(timeout))
        agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=diagnostics)
        signal.signal(signal.SIGTERM, lambda *received: agent.terminate())
        code = agent.wait()
        _write(diagnostics_event(diagnostics) + b"\n")
    return abs(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
