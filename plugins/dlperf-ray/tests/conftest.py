"""A real Ray cluster: `make test-ray` names the Python that has Ray; elsewhere the tests are skipped by name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs ignore
RAY_PYTHON = os.environ.get("DLPERF_TEST_RAY", "")


class Cluster:
    """A head without CPUs, and nodes with one CPU each."""

    def __init__(self, nodes):
        script = Path(__file__).with_name("ray_cluster.py")
        self._process = subprocess.Popen(
            [RAY_PYTHON, str(script), str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = self._process.stdout.readline().strip()
        assert self.address
        self.options = {"address": self.address, "ray_python": RAY_PYTHON}

    def kill_node(self, index):
        """Kill all processes of a node."""
        self._process.stdin.write(f"{index}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == str(index)

    def free_cpus(self):
        """Return the CPUs that are free in the whole cluster."""
        code = f"import ray; ray.init({self.address!r}, logging_level='ERROR', log_to_driver=False); "
        code += "print('free', ray.available_resources().get('CPU', 0))"
        done = subprocess.run(
            [RAY_PYTHON, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        return float(done.stdout.rpartition("free ")[2])

    def close(self):
        with self._process:
            self._process.stdin.close()
            self._process.wait(60)


@pytest.fixture(scope="session")
def ray_python():
    """The Python that has Ray: `make test-ray`, a part of every CI run, makes its environment and names it.

    Skipped without it: Ray is in no other environment.
    """
    if not RAY_PYTHON:
        pytest.skip("no Ray: make test-ray")
    return RAY_PYTHON


@pytest.fixture(scope="session")
def cluster(ray_python):
    created = Cluster(2)
    yield created
    created.close()


def processes_of(run_id):
    """Return the living processes whose command line has the name of a run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and any(run_id in word for word in process.cmdline()):
                found.append(process)
    return found


def until_ended(run_id, timeout=30.0):
    """Wait until no process of a run is left."""
    deadline = time.monotonic() + timeout
    while left := processes_of(run_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
