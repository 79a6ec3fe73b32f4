"""The other processes of a job, as rank 0 admits them."""

from __future__ import annotations

import json
import math
import socket
import time
from contextlib import closing

import pytest

from dlperf_sdk.launchers.joined.crew import Crew
from dlperf_sdk.launchers.joined.job_kinds import find_job_kind, read_seat
from dlperf_sdk.worker.agent import link

SECRET = "0123456789abcdef" * 2
JOB = {"RANK": "0", "WORLD_SIZE": "2"}
HELLO = {
    "event": "hello",
    "job": ["the variables RANK and WORLD_SIZE", 2, 1],
    "seat": [1, 0],
    "host": "n1",
    "digests": {},
    "cpus": [0],
    "devices": None,
}


@pytest.fixture
def crew():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        crew = Crew(read_seat(find_job_kind(JOB), JOB, 2, 1), HELLO, "127.0.0.1")
        crew.listen(listener, SECRET)
        yield crew, listener.getsockname()


def introduce(address, **changes):
    """Connect as a process of the job, and say hello; JSON spells infinity as a number that is too large."""
    member = link.connect(address, SECRET, 10)
    member.socket.settimeout(10)
    member.send_line(json.dumps({**HELLO, **changes}).replace("Infinity", "1e999").encode() + b"\n")
    return member


@pytest.mark.parametrize(
    "changes",
    [
        {"seat": [2, 0]},
        {"seat": [1, 1]},
        {"seat": [-1, 0]},
        {"seat": [math.inf, 0]},
        {"seat": 1},
        {"cpus": [-1]},
        {"cpus": [1 << 40]},
        {"job": []},
    ],
)
def test_an_impossible_introduction_is_refused_and_keeps_no_process_out(crew, changes):
    crew, address = crew
    with closing(introduce(address, **changes)) as stranger:
        assert next(stranger.messages(), None) is None  # the connection is closed
    assert crew.list_missing() == [(1, 0)]
    with closing(introduce(address)):
        deadline = time.monotonic() + 10
        while crew.list_missing() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert crew.list_missing() == []
