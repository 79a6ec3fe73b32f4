"""Ctrl-C on the command line, however far a case is: one line says what is kept, and nothing is left anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

CASE = ("--batch-size", "8", "--python", sys.executable)
SLOW = ("--set", "fault=slow")
LONG = (*SLOW, "--warmup", "2", "--steps", "3000", "--repeats", "2")
SHORT = ("--set", "fault=hang-step-second", "--warmup", "2", "--steps", "20", "--repeats", "2")
PHASES = {
    "preflight": (LONG, "launch: "),
    "warm-up": ((*SLOW, "--warmup", "3000", "--steps", "20"), "repeat 1 of 7: warming up"),
    "window": (LONG, "repeat 1 of 2: measuring"),
    "collecting": (SHORT, " samples/s in "),
}
"""What is asked for, and the line behind which Ctrl-C is pressed."""


def begun(bench, *words):
    """The command, in a process group of its own, as a shell with job control has it."""
    command = [sys.executable, "-m", "dlperf_sdk", "run", "faulty", "linear", "--topology", "2n1d@slurm"]
    return subprocess.Popen(
        [*command, *CASE, *words, "--output", str(bench.folder / "store")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )


def until(process, text):
    """Take its lines up to one that holds the text."""
    output = []
    for line in process.stderr:
        output.append(line)
        if text in line:
            return
    raise AssertionError("".join(output))


def interrupted(process):
    """Press Ctrl-C; the exit code, the last line, and the seconds that it took."""
    started_at = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert "Traceback" not in output, output
    return process.returncode, output.splitlines()[-1], time.monotonic() - started_at


def jobs():
    """The jobs that wait or run, by number."""
    message = subprocess.run(
        ["squeue", "-h", "-o", "%i %T"], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[0]: line.split()[1] for line in message.splitlines()}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("launcher", ["slurm-step", "slurm-job"])
def test_ctrl_c_ends_a_case_wherever_it_is(bench, launcher, phase):
    if launcher == "slurm-step":
        bench._allocate()
    others = set(jobs())
    words, text = PHASES[phase]
    with begun(bench, *words) as process:
        until(process, text)
        code, last, took = interrupted(process)
    assert code == 130, last
    assert last.startswith("Interrupted. "), last
    stored = "1 finished repeat is kept" if phase == "collecting" else "No repeat had finished"
    assert stored in last
    assert took < 30
    assert {number for number, state in jobs().items() if state != "COMPLETING"} == others


def test_ctrl_c_while_a_job_waits(bench):
    bench._allocate()
    bench.leave()
    others = jobs()
    with begun(bench, *LONG) as process:
        until(process, " is waiting: ")
        assert sorted(jobs().values()) == ["PENDING", "RUNNING"]
        code, last, _ = interrupted(process)
    assert (code, last.startswith("Interrupted. No repeat had finished")) == (130, True), last
    assert jobs() == others
