"""One attempt on one node: start this node's workers, watch them, end them, collect what they leave."""

import json
import os
import signal
import subprocess
import time
from typing import Any, Dict, List, Optional

from dlperf_sdk.worker import lifetime
from dlperf_sdk.worker.processes import SERVICE, Cluster, Process
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.trainer import write_json

LARGEST_RECORD = 64 * 1024 * 1024
DEEPEST_RECORD = 32
"""Objects and arrays inside each other: whoever reads the record on its way to the store can follow."""
LONGEST_LOG = 256 * 1024
GRACE = 3.0
"""Seconds between asking a worker to end and killing it."""


class Worker:
    """One process of this node, from its start to its exit."""

    def __init__(self, request, process, name, directory):
        # type: (Request, Process, str, str) -> None
        self.request, self.process, self.name, self.directory = request, process, name, directory
        self.seen = ("start", 0)
        self.changed = time.monotonic()
        self.verdict = None  # type: Optional[Dict[str, Any]]
        """A failure that the agent itself found: a passed deadline."""
        self.ended = False
        self._record = None  # type: Optional[Dict[str, Any]]
        self.why_no_record = "left no readable record"

    def start(self, command, environment, order):
        # type: (List[str], Dict[str, str], Dict[str, Any]) -> None
        work = os.path.join(self.directory, "work")
        os.makedirs(work, mode=0o700)
        self.progress = Progress(os.path.join(self.directory, "progress"))
        write_json(os.path.join(self.directory, "process.json"), order)
        self._log = os.path.join(self.directory, "log")
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self.popen = subprocess.Popen(
                command + ["worker", self.directory],
                cwd=work,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)
        self.changed = time.monotonic()

    def go(self):
        # type: () -> None
        try:
            self.popen.stdin.write(b"g")
            self.popen.stdin.flush()
        except OSError:
            pass  # it has died; its exit says so

    def look(self):
        # type: () -> None
        """Note how far it is, and when it last got on."""
        now = self.progress.read()
        if now != self.seen:
            self.seen, self.changed = now, time.monotonic()

    def overdue(self):
        # type: () -> Optional[Dict[str, Any]]
        """The failure, if the phase it is in has passed its deadline without a sign of life."""
        phase = self.seen[0]
        key = {"measure": "step", "done": "teardown"}.get(phase, phase)
        limit = self.request.deadlines.get(key)
        silent = time.monotonic() - self.changed
        if self.process.role == SERVICE or limit is None or silent <= limit:
            return None
        return {
            "kind": "timeout",
            "phase": phase,
            "message": (
                "%s got no further in phase '%s' for %.0f s, which is its deadline; it was ended. If it was only slow, "
                "allow more with the deadline '%s'; its log shows what it did last." % (self.name, phase, limit, key)
            ),
        }

    def signal(self, number):
        # type: (int) -> None
        """To the whole process group: a worker's helpers (input pipelines) end with it."""
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def exit(self):
        # type: () -> Dict[str, Any]
        code = self.popen.returncode
        return {
            "node": self.process.node,
            "role": self.process.role,
            "rank": self.process.rank,
            "pid": self.popen.pid,
            "code": None if code < 0 else code,
            "signal": _signal_name(-code) if code < 0 else None,
            "phase": self.seen[0],
        }

    def record(self):
        # type: () -> Optional[Dict[str, Any]]
        """Its record, once it has ended, or None if it left none that can be read."""
        if self._record is None:
            self._record = self._read_record()
        return self._record

    def _read_record(self):
        # type: () -> Optional[Dict[str, Any]]
        path = os.path.join(self.directory, "record.json")
        try:
            size = os.path.getsize(path)
            if size > LARGEST_RECORD:
                self.why_no_record = "left a record of %d bytes, and %d are read" % (size, LARGEST_RECORD)
                return None
            with open(path, encoding="utf-8") as file:
                record = json.load(file, parse_constant=_no_constant)
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            self.why_no_record = "left a record that cannot be read (%s)" % error
            return None
        if not isinstance(record, dict) or not _within(record, DEEPEST_RECORD):
            self.why_no_record = "left a record that is no object, or nested more than %d deep" % DEEPEST_RECORD
            return None
        return record

    def log(self):
        # type: () -> str
        with open(self._log, "rb") as file:
            file.seek(max(0, os.path.getsize(self._log) - LONGEST_LOG))
            return file.read().decode("utf-8", "replace")


def _no_constant(name):
    # type: (str) -> None
    raise ValueError("%s is no number of JSON" % name)


def _within(value, depth):
    # type: (Any, int) -> bool
    """Whether objects and arrays are nested no deeper than this."""
    if not isinstance(value, (dict, list)):
        return True
    return depth > 0 and all(_within(item, depth - 1) for item in (value.values() if isinstance(value, dict) else value))


def _signal_name(number):
    # type: (int) -> str
    try:
        return signal.Signals(number).name
    except ValueError:
        return "SIG%d" % number  # a real-time signal: they have no names


def _oom_kills():
    # type: () -> int
    """How often the kernel has killed a process for memory, on this machine, since it was started."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return int(dict(line.split() for line in file).get("oom_kill", 0))
    except OSError:
        return 0


def failure_of(worker, record, kernel_killed):
    # type: (Worker, Optional[Dict[str, Any]], bool) -> Optional[Dict[str, Any]]
    """How this trainer failed, if it did: what the agent saw comes before what the worker said."""
    exit = worker.exit()
    if worker.verdict is not None:
        failure = dict(worker.verdict)
    elif record is not None and record.get("status") == "failed" and isinstance(record.get("failure"), dict):
        failure = dict(record["failure"])
    elif exit["signal"] == "SIGKILL" and kernel_killed:
        failure = {
            "kind": "out-of-memory",
            "message": (
                "%s was killed by the kernel in phase '%s' because the machine, or the control group it runs in, had no "
                "memory left. Use a smaller batch size, or a machine with more memory." % (worker.name, exit["phase"])
            ),
        }
    elif exit["signal"]:
        failure = {
            "kind": "crashed",
            "message": "%s was ended by %s in phase '%s'." % (worker.name, exit["signal"], exit["phase"]),
        }
    elif exit["code"]:
        failure = {
            "kind": "crashed",
            "message": "%s left with exit code %d in phase '%s' and without a record." % (worker.name, exit["code"], exit["phase"]),
        }
    elif record is None or record.get("status") != "ok":
        failure = {"kind": "invalid-record", "message": "%s ended well, but %s." % (worker.name, worker.why_no_record)}
    else:
        return None
    failure.setdefault("phase", exit["phase"])
    return dict(failure, node=exit["node"], rank=exit["rank"])


class Attempt:
    """All workers of one node in one attempt."""

    def __init__(self, request, number, directory):
        # type: (Request, int, str) -> None
        self.request, self.number, self.directory = request, number, directory
        self.workers = []  # type: List[Worker]
        self._oom_before = _oom_kills()

    def start(self, cluster, processes, orders):
        # type: (Cluster, List[Process], List[Dict[str, Any]]) -> None
        """Start them; `orders` holds for each its `name`, `command`, `environment`, `cpus` and `request`."""
        for process, order in zip(processes, orders):
            name = order["name"]
            worker = Worker(self.request, process, name, os.path.join(self.directory, "%d-%s" % (self.number, name)))
            plain_cluster = dict(cluster._asdict(), nodes=[node._asdict() for node in cluster.nodes])
            worker.start(
                order["command"],
                order["environment"],
                {
                    "agent": os.getpid(),
                    "attempt": self.number,
                    "request": order["request"],
                    "cluster": plain_cluster,
                    "process": process._asdict(),
                    "cpus": order["cpus"],
                },
            )
            self.workers.append(worker)

    @property
    def trainers(self):
        # type: () -> List[Worker]
        return [worker for worker in self.workers if worker.process.role != SERVICE]

    def check(self):
        # type: () -> None
        """Look at everyone. A worker past its deadline is ended."""
        for worker in self.workers:
            if worker.ended:
                continue
            worker.look()
            if worker.popen.poll() is not None:
                worker.look()
                worker.ended = True
                worker.signal(signal.SIGKILL)  # what it may have left behind in its group
                continue
            overdue = worker.overdue()
            if overdue is not None and worker.verdict is None:
                worker.verdict = overdue
                worker.signal(signal.SIGKILL)

    def ready(self):
        # type: () -> bool
        return all(worker.seen[0] == "ready" for worker in self.trainers)

    def go(self):
        # type: () -> None
        for worker in self.trainers:
            worker.go()

    def failures(self):
        # type: () -> List[Dict[str, Any]]
        """Of the trainers that have ended."""
        killed = _oom_kills() > self._oom_before
        found = [failure_of(worker, worker.record(), killed) for worker in self.trainers if worker.ended]
        return [failure for failure in found if failure is not None]

    def over(self):
        # type: () -> bool
        return all(worker.ended for worker in self.trainers)

    def end(self):
        # type: () -> None
        """End whoever is left: ask, wait a little, kill; and then their orphans."""
        left = [worker for worker in self.workers if worker.popen.poll() is None]
        for worker in left:
            worker.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(worker.popen.poll() is None for worker in left):
            time.sleep(0.02)
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
            worker.popen.wait()
            worker.look()
            worker.ended = True
            worker.popen.stdin.close()
        for pid in lifetime.children():
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass
