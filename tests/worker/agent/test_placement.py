"""How agents find their place and each other, and what differs between nodes."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker.agent import preflight, rendezvous
from dlperf_sdk.worker.agent.placement import expand_hosts, resolve_placement

SECRET = secrets.token_hex(32)  # its ports are no other test run's


# -- where an agent is


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3],login", ["n1", "n2", "n3", "login"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1,3]-ib", ["r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib"]),
    ],
)
def test_slurms_short_form_of_hosts(short, names):
    assert expand_hosts(short) == names


@given(st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True), min_size=1))
def test_a_plain_list_of_hosts_is_itself(names):
    assert expand_hosts(",".join(names)) == names


NUMBERS = st.tuples(st.integers(0, 30), st.integers(0, 4), st.integers(1, 3)).map(
    lambda given: (f"{given[0]:0{given[2]}}", f"{given[0] + given[1]:0{given[2]}}")
)
PIECES = st.lists(
    st.tuples(st.sampled_from(["n", "-ib", "."]), st.lists(NUMBERS, max_size=2)), min_size=1, max_size=3
)


@given(PIECES)
def test_ranges_stand_for_their_numbers_of_which_the_last_go_fastest(pieces):
    short, names = "", [""]
    for text, ranges in pieces:
        brackets = f"[{','.join('-'.join(item) for item in ranges)}]" if ranges else ""
        short += text + brackets
        inside = [
            str(number).zfill(len(first))
            for first, last in ranges
            for number in range(int(first), int(last) + 1)
        ]
        names = [name + text + number for name in names for number in inside or [""]]
    assert expand_hosts(short) == names


@pytest.mark.parametrize(
    "text",
    [
        "a[0-399]b[0-399]",
        "a[0-99999]b[0-99999]c[0-99999]d[0-99999]",
        "a[0-99999],b[0-99999]",
        "a" * 1_000_000 + "[0-99999]",
        f"a[{'0' * 4000}-99999]",
        "[0]" * 1000 + "[0-99999]",
        "a[0-99999999999][2-1]",
        "a[2-1]",
    ],
)
def test_too_many_hosts_are_refused_before_any_is_named(text):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"."):
            expand_hosts(text)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@given(st.text(alphabet="n0123456789[]-,", max_size=12))
def test_any_text_is_a_list_of_hosts_or_an_error(text):
    try:
        assert all(name and "[" not in name for name in expand_hosts(text)) or "]" in text
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["", "n[1-", "n]1[", "a,,b", "n[1-999999999]", "n[x]", "n[[1]]", "n[]"])
def test_invalid_host_list_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        expand_hosts(text)


def test_a_place_comes_from_the_engines_variables():
    variables = {"SLURM_NODEID": "2", "SLURM_STEP_NODELIST": "n[1-4]"}
    assert resolve_placement("$SLURM_NODEID", "$SLURM_STEP_NODELIST", 4, variables) == (
        2,
        ["n1", "n2", "n3", "n4"],
    )
    assert resolve_placement("1", "a,b", 2, {}) == (1, ["a", "b"])
    assert resolve_placement("7", "a,b", 9, {}) == (7, ["a", "b"])


@pytest.mark.parametrize(("node", "hosts"), [("$ABSENT", "a"), ("2", "a,b"), ("-1", "a"), ("x", "a")])
def test_a_place_that_is_none(node, hosts):
    with pytest.raises(ValueError, match=r"."):
        resolve_placement(node, hosts, 2, {})


# -- how agents find each other


def test_holders_of_the_secret_compute_the_same_ports():
    candidates = rendezvous.candidate_ports(SECRET)
    assert candidates == rendezvous.candidate_ports(SECRET) != rendezvous.candidate_ports("6" * 64)
    assert len(set(candidates)) == rendezvous.CANDIDATES
    assert all(20000 <= port < 32000 for port in candidates)


def test_a_port_that_is_taken_is_passed_over():
    candidates = rendezvous.candidate_ports(SECRET)
    with (
        rendezvous.listen("127.0.0.1", candidates) as first,
        rendezvous.listen("127.0.0.1", candidates) as second,
    ):
        # Others may have taken the first ones.
        places = [candidates.index(listener.getsockname()[1]) for listener in (first, second)]
        assert places[0] < places[1]
        assert first.getsockname()[0] == "127.0.0.1"


def test_unreachable_peer_is_reported():
    with pytest.raises(OSError, match="no coordinator of this run on 127.0.0.1"):
        rendezvous.connect("127.0.0.1", rendezvous.candidate_ports(SECRET), SECRET, 0.2)


# -- what is held against each other before the clock


def test_the_first_difference_is_named_with_its_node():
    same = {"python": "3.11.7", "packages": {"torch": "2.13.0"}}
    other = {"python": "3.11.7", "packages": {"torch": "2.12.0"}}
    assert preflight.difference([("n1", same), ("n2", dict(same))]) is None
    assert preflight.difference([("n1", same), ("n2", other)]) == "n2 has torch 2.12.0, and n1 has 2.13.0"
    assert "none" in preflight.difference([("n1", same), ("n2", {"python": "3.11.7", "packages": {}})])
    message = preflight.difference([("n1", same), ("n2", {"python": "3.12.1"})])
    assert message == "n2 has Python 3.12.1, and n1 has 3.11.7"


def test_environment_reports_its_versions():
    message = preflight.versions([sys.executable], dict(os.environ))
    assert message["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "numpy" in message["packages"]
    assert preflight.versions(["/nowhere/python"], {}) == {}


def test_a_node_that_cannot_be_reached_is_named():
    door = preflight.Doorbell("127.0.0.1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        doors = [[0, "127.0.0.1", door.port], [1, "127.0.0.1", closed.getsockname()[1]]]
        assert preflight.unreachable(doors) == [1]
    door.close()
