"""How a process ends that is asked to."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """\
import os, signal
from dlperf_sdk.worker import lifetime

def ask(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)

{before}
try:
    lifetime.exit_on_termination()
    {inside}
    print("too late")
finally:
    ask(signal.SIGTERM, signal.SIGHUP)
    print("cleaned up")
"""


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        pytest.param("", "ask(signal.SIGTERM)", id="once"),
        pytest.param("", "ask(signal.SIGHUP)", id="hangup"),
        pytest.param(
            "signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,)); ask(signal.SIGTERM)",
            "pass",
            id="blocked-before",
        ),
    ],
)
def test_it_exits_once_and_its_clean_up_is_not_interrupted(before, inside):
    program = PROGRAM.format(before=before, inside=inside)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "cleaned up\n", "")
