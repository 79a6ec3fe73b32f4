"""The shared counters: what one process writes the other reads, and nothing in the file can hurt the reader."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker.progress import PHASES, Progress


def test_agent_reads_the_workers_progress(tmp_path):
    agent, worker = Progress(str(tmp_path / "progress")), Progress(str(tmp_path / "progress"))
    assert agent.read() == ("start", 0)
    for phase in PHASES:
        worker.counters[1] = 7
        worker.enter(phase)
        assert agent.read() == (phase, 0)
        worker.counters[1] = 2**40
        assert agent.read() == (phase, 2**40)


def test_across_processes_also_when_the_worker_is_killed(tmp_path):
    path = tmp_path / "progress"
    agent = Progress(str(path))
    script = (
        "import os, signal, sys; from dlperf_sdk.worker.progress import Progress; p = Progress(sys.argv[1]); "
        "p.enter('measure'); p.counters[1] = 41; os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -9
    assert agent.read() == ("measure", 41)
    assert path.stat().st_mode & 0o777 == 0o600


@given(st.binary(min_size=16, max_size=16))
def test_whatever_stands_in_the_file_is_some_phase(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("progress") / "progress"
    path.write_bytes(content)
    progress = Progress(str(path))
    phase, step = progress.read()
    assert phase in PHASES
    assert step == struct.unpack("qq", content)[1]
    progress.close()


def test_a_closed_map_cannot_be_read(tmp_path):
    progress = Progress(str(tmp_path / "progress"))
    progress.close()
    with pytest.raises(ValueError, match="released"):
        progress.read()


def test_an_unknown_phase(tmp_path):
    with pytest.raises(ValueError, match="tuple"):
        Progress(str(tmp_path / "progress")).enter("lunch")
