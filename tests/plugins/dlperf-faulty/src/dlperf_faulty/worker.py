"""Worker half: each fault is a few lines over what is right."""

import atexit
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy
from dlperf_numpy import worker

from dlperf_sdk.worker import lifetime
from dlperf_sdk.worker.unsupported import Unsupported


def attempt():
    """Which attempt this is: a worker's directory is named after it."""
    return int(Path.cwd().parent.name.partition("-")[0])


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


RECORDS = {
    "huge-record": lambda record: json.dumps(dict(record, facts={"pad": "x" * 70 * 2**20})),
    "deep-record": lambda record: json.dumps(dict(record, facts={"deep": nested(100)})),
    "nan-record": lambda record: json.dumps(dict(record, samples=float("nan"))),
    "infinite-record": lambda record: json.dumps(dict(record, samples="many")).replace('"many"', "1e999"),
    "half-record": lambda record: json.dumps(record)[:-100],
    "text-record": lambda record: '"ok"',
    "other-attempt": lambda record: json.dumps(dict(record, attempt=7)),
    "other-rank": lambda record: json.dumps(dict(record, rank=5)),
    "odd-record": lambda record: json.dumps(dict(record, window={"start": "yesterday", "end": 1})),
    "neither-record": lambda record: json.dumps(dict(record, status="perhaps")),
    "odd-failure": lambda record: json.dumps(dict(record, status="failed", failure={"kind": "nonsense"})),
}
"""What a worker's own record becomes after it has been written."""


class AbortsWhenForgotten:
    """What a framework's thread does that lets go of an object of Python's while the interpreter is taken down."""

    def __del__(self, abort=os.abort):  # by then a module's names may be gone
        abort()


def serve():
    host, _, port = os.environ["FAULTY_SERVER"].rpartition(":")
    with socket.create_server((host, int(port))) as listening:
        print("serving")
        while True:
            connection = listening.accept()[0]
            if os.environ["FAULTY_ROLE"] == "server-leaves":
                connection.detach()  # the kernel closes it when this process has ended, and the trainer goes on
                return
            connection.close()
            if os.environ["FAULTY_ROLE"] == "server-killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.environ["FAULTY_ROLE"] == "server-exits":
                sys.exit(3)


def meet_server():
    """No training before the server is there, as with parameter servers."""
    host, _, port = os.environ["FAULTY_SERVER"].rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), 10) as connection:
                connection.recv(1)  # until it is closed
                return
        except ConnectionRefusedError:
            time.sleep(0.01)


def fault_here(text):
    """The fault that befalls this node; a fleet's ssh tells each node its name, and a real node has a host's."""
    here = os.environ.get("LC_NODE") or socket.gethostname()
    for fault, at, node in (part.partition("@") for part in text.split(",")):
        if not at or node == here:
            return fault
    return "none"


class Runtime(worker.Runtime):
    def start(self):
        options = self.request.framework_options
        self.fault = fault_here(options["fault"]) if self.process.rank == options["rank"] else "none"
        if self.fault.endswith("-second"):  # it befalls the second attempt
            self.fault = self.fault.removesuffix("-second") if attempt() == 2 else "none"
        if self.fault == "hang-start":
            time.sleep(1000)
        if self.fault == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        meet_server()
        super().start()

    def stop(self):
        if self.fault == "hang-stop":
            time.sleep(1000)
        if self.fault == "exception-at-the-end":
            raise RuntimeError("the fault that was asked for")
        if self.fault == "no-record":
            Path("../record.json").unlink()
        if self.fault in RECORDS:
            path = Path("../record.json")
            path.write_text(RECORDS[self.fault](json.loads(path.read_text())))

    @contextmanager
    def trace(self, path):
        """A toy's profiler: it knows that something was traced."""
        yield
        Path(path).write_text(
            '{"traceEvents": [{"name": "step", "ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}]}'
        )

    def facts(self):
        return {"odd": self} if self.fault == "odd-facts" else super().facts()


class Linear(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.fault = runtime.fault
        # Ones, not zeros: memory that is not written to is not there yet.
        self.held = numpy.ones(request.batch_size * request.framework_options["sample_bytes"], numpy.uint8)

    def step(self, batch):
        result = super().step(batch)
        if self.fault == "no-falling":
            return result._replace(loss=1.0)
        if self.fault == "slow" or (self.fault == "noisy" and attempt() % 2):
            time.sleep(0.01)
        if self.steps == self.request.protocol["canonical_steps"] + self.request.protocol["warmup"] + 2:
            result = self.go_wrong(result)
        return result

    def go_wrong(self, result):
        """In the second step of the window."""
        if self.fault == "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "real-time-signal":
            os.kill(os.getpid(), 40)
        elif self.fault in ("hang-step", "stubborn"):
            time.sleep(1000)
        elif self.fault == "exception":
            raise RuntimeError("the fault that was asked for")
        elif self.fault == "leak":
            print("the environment:", dict(os.environ), flush=True)
            raise RuntimeError(f"rejected: {os.environ['MY_TOKEN']}")
        elif self.fault == "unsupported":
            raise Unsupported("This cannot be done here.")
        elif self.fault == "exit":
            os._exit(0)
        elif self.fault == "system-exit":
            sys.exit(3)
        elif self.fault == "out-of-memory":
            resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
            bytearray(2**31)
        elif self.fault == "garbage":
            os.write(1, os.urandom(100000))
            print('{"event": "ended", "status": "ok"}', flush=True)
        elif self.fault == "huge-log":
            for _ in range(100):
                os.write(1, b"x" * 2**20)
            print("\nthe end of a long log", flush=True)
        elif self.fault == "full-disk":
            with Path("filling").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
        elif self.fault == "nan":
            return result._replace(loss=float("nan"))
        elif self.fault == "drift":
            self.weights["weight"] = self.weights["weight"] + 1
        elif self.fault == "orphan":
            # A daemon that left its session and its parent: only whoever adopts orphans can end it.
            code = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(1000)"
            subprocess.Popen([sys.executable, "-c", code, "dlperf-orphan"], start_new_session=True).wait()
        elif self.fault == "aborting-finalisation":
            sys.held_to_the_end = AbortsWhenForgotten()
            atexit.register(print, "the exit functions have run")
            lifetime.skip_finalization()
        elif self.fault == "bit-flip" or (self.fault == "bit-flip-once" and attempt() == 2):
            self.weights["weight"].view(numpy.uint32)[0, 0] ^= 1
        elif self.fault == "fewer-samples":
            return result._replace(samples=result.samples - 1)
        return result

    def observed(self):
        return {"precision": "fp16"} if self.fault == "other-precision" else super().observed()

    def deviation(self):
        return {"imprecise": 0.1, "nan-deviation": float("nan")}.get(self.fault, super().deviation())
