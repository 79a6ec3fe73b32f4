"""A case on a machine without dlperf: `python case.pyz run -o OUT` needs only this bundle and a Python.

All nodes of the case are agents on this machine. Their stream is written to `OUT/events.jsonl`, which `dlperf
ingest` turns into a result wherever dlperf is installed.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, List, Optional

from dlperf_sdk.worker.agent.diagnostics import diagnostics_event
from dlperf_sdk.worker.agent.preflight import versions
from dlperf_sdk.worker.bundled import DamagedBundle, member, read_request
from dlperf_sdk.worker.dates import now
from dlperf_sdk.worker.variables import worker_environment

BEAT = 5.0
"""Seconds between two heartbeats on the agents' tethers."""
_PATIENCE = 10.0
EVENTS = "events.jsonl"


def first_event(bundle: str, python: Optional[str] = None) -> bytes:
    """Return the line of the event `case`, which tells a reader of the stream the case, its environment and the time.

    Args:
        bundle: The bundle's file or directory.
        python: The interpreter that the user named; None for the one in the request. It is run to list the
            environment's packages, unless the case runs in a container.

    Returns:
        The line of JSON with its line feed: the fields of the bundle's `case.json`, and `event`, `time`, `id` (the
        run's name), `command` (the interpreter's) and `versions` (as `preflight.versions` returns them; empty in a
        container). Empty if the bundle does not contain the case.

    Raises:
        DamagedBundle: The case is malformed, or the bundle has no request or a malformed one.
        OSError: The bundle does not exist, or cannot be read.
        zipfile.BadZipFile: The bundle is neither a directory nor a zip archive.
    """
    try:
        case = json.loads(member(bundle, "case.json"))
    except KeyError:
        return b""
    except (ValueError, RecursionError) as error:
        raise DamagedBundle("case.json: %s" % error) from None
    if not isinstance(case, dict) or not isinstance(case.get("spec"), dict):
        raise DamagedBundle("case.json is no case")
    request = read_request(bundle, "request.json")
    command = [python] if python else request.command
    # The Python in a container is another one, which has not been started yet.
    contained = bool(case["spec"].get("container"))
    facts = {} if contained else versions(command, worker_environment(os.environ, request.variables, {}))
    event = dict(case, event="case", time=now(), id=request.id, command=command, versions=facts)
    return json.dumps(event).encode() + b"\n"


def main(output: str, python: str) -> int:
    """Run the bundle's case with an interpreter that has its framework, and write the stream to `events.jsonl`.

    Progress is printed. Ctrl-C ends the run; the events before it stay in the file. The bundle is the program that this
    process runs.

    Args:
        output: The directory for `events.jsonl`; it is created if it does not exist.
        python: The interpreter's path.

    Returns:
        The exit code: 0 if the case succeeded, else 4.

    Raises:
        SystemExit: The directory already contains a run.
        DamagedBundle: The case or the request is missing or malformed; the directory is not created then.
        OSError: The directory or the file cannot be made, or an agent cannot be started.
    """
    bundle = os.path.abspath(sys.argv[0])
    request, first = read_request(bundle, "request.json"), first_event(bundle, python)
    os.makedirs(output, mode=0o700, exist_ok=True)
    path = os.path.join(output, EVENTS)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        sys.exit("There is already a run in %s; choose another folder with -o." % output)
    is_over, ended = threading.Event(), None  # type: threading.Event, Optional[Dict[str, Any]]
    with os.fdopen(descriptor, "wb", buffering=0) as events, tempfile.TemporaryFile() as diagnostics:
        events.write(first)
        agents = [_agent(bundle, node, python, diagnostics) for node in range(request.nodes)]
        beating = threading.Thread(target=_beat, args=(agents, is_over), daemon=True)
        beating.start()
        try:
            for line in agents[0].stdout or ():
                events.write(line)
                ended = _report_event(line) or ended
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
        finally:
            is_over.set()
            beating.join()
            _end(agents)
        events.write(diagnostics_event(diagnostics) + b"\n")
    print("Written to %s. Carry it back, and run: dlperf ingest %s" % (path, output))
    return 0 if ended is not None and ended["failure"] is None else 4


def _agent(bundle: str, node: int, python: str, diagnostics: Any) -> "subprocess.Popen[bytes]":
    arguments = ["--node", str(node), "--hosts", "127.0.0.1", "--python", python, "--tether"]
    return subprocess.Popen(
        [sys.executable, "-I", bundle, "agent"] + arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if node == 0 else subprocess.DEVNULL,
        stderr=diagnostics,
        start_new_session=True,
    )


def _beat(agents: List["subprocess.Popen[bytes]"], is_over: threading.Event) -> None:
    while not is_over.wait(BEAT):
        for agent in agents:
            if agent.stdin is not None:
                with contextlib.suppress(OSError):
                    os.write(agent.stdin.fileno(), b"\n")


def _end(agents: List["subprocess.Popen[bytes]"]) -> None:
    for agent in agents:
        if agent.stdin is not None:
            agent.stdin.close()
    for agent in agents:
        try:
            agent.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()


def _report_event(line: bytes) -> Optional[Dict[str, Any]]:
    """Print the events that users wait for; return the last one of a run. A line that is not an event is left out."""
    try:
        event: Dict[str, Any] = json.loads(line.decode())
        if event["event"] == "parity-ended":
            print("Parity run: %s" % event["status"])
        if event["event"] == "attempt-ended":
            print("Repeat %d: %s" % (event["attempt"], event["status"]))
        if event["event"] != "ended":
            return None
        if event["failure"] is not None:
            print("Failed: %s" % event["failure"]["message"], file=sys.stderr)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return event
