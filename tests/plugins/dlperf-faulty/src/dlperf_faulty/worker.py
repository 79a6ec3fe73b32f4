"""Worker half: each fault is a few lines over what is right."""

import os
import resource
import signal
import subprocess
import sys
import time

from dlperf_numpy import worker

from dlperf_sdk.worker.interface import Unsupported


def serve():
    print("serving")
    while True:
        time.sleep(1)


class Runtime(worker.Runtime):
    def start(self):
        options = self.request.framework_options
        self.fault = options["fault"] if self.process.rank == options["rank"] else "none"
        if self.fault == "hang-start":
            time.sleep(1000)
        if self.fault == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().start()

    def stop(self):
        if self.fault == "hang-stop":
            time.sleep(1000)


class Linear(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.fault, self.steps = runtime.fault, 0

    def step(self, batch):
        self.steps += 1
        result = super().step(batch)
        if self.steps == self.request.protocol["canonical_steps"] + self.request.protocol["warmup"] + 2:
            result = self.go_wrong(result)
        return result

    def go_wrong(self, result):
        """In the second step of the window."""
        if self.fault == "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault in ("hang-step", "stubborn"):
            time.sleep(1000)
        elif self.fault == "exception":
            raise RuntimeError("the fault that was asked for")
        elif self.fault == "unsupported":
            raise Unsupported("This cannot be done here.")
        elif self.fault == "exit":
            os._exit(0)
        elif self.fault == "out-of-memory":
            resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
            bytearray(2**31)
        elif self.fault == "garbage":
            os.write(1, os.urandom(100000))
            print('{"event": "ended", "status": "ok"}', flush=True)
        elif self.fault == "nan":
            return result._replace(loss=float("nan"))
        elif self.fault == "drift":
            self.parameters["weight"] = self.parameters["weight"] + 1
        elif self.fault == "orphan":
            # A daemon that left its session and its parent: only whoever adopts orphans can end it.
            code = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(1000)"
            subprocess.Popen([sys.executable, "-c", code, "dlperf-orphan"], start_new_session=True).wait()
        elif self.fault == "fewer-samples":
            return result._replace(samples=result.samples - 1)
        return result

    def observed(self):
        return {"precision": "fp16"} if self.fault == "other-precision" else super().observed()

    def deviation(self):
        return 0.1 if self.fault == "imprecise" else super().deviation()
