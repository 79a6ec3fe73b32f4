"""Why agents were not started, from what engines print."""

from __future__ import annotations

import json

import pytest

from dlperf_sdk.launchers import start_failures, stream_events

PYTHON = "/nowhere/python9"
OPENMPI = f"""\
--------------------------------------------------------------------------
mpirun was unable to find the specified executable file, and therefore
did not launch the job.  This error was first reported for process
rank 0; it may have occurred for other processes as well.

Node:       n1
Executable: {PYTHON}
--------------------------------------------------------------------------
2 total processes failed to start
"""


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (f"bash: line 1: {PYTHON}: No such file or directory", "No such file or directory"),
        (f"sh: 1: {PYTHON}: not found", "not found"),
        (f"zsh:1: no such file or directory: {PYTHON}", "no such file or directory"),
        (f"bash: line 1: {PYTHON}: Permission denied", "Permission denied"),
        (f"slurmstepd: error: execve(): {PYTHON}: No such file or directory", "No such file or directory"),
        (
            f"Error: crun: executable file `{PYTHON}` not found in $PATH: No such file or directory",
            "not found",
        ),
        (OPENMPI, "mpirun finds no such program"),
        (f"{PYTHON}: can't open file 'x': [Errno 2] No such file or directory", None),
        (f"bash: line 1: {PYTHON}.1: No such file or directory", None),
        (f"bash: line 1: /usr{PYTHON}: No such file or directory", None),
        ("", None),
    ],
)
def test_missing_agent_python_is_recognized(output, why):
    assert start_failures.find_program_failure(PYTHON, output) == why


@pytest.mark.parametrize(
    ("output", "node"),
    [
        ("ssh: Could not resolve hostname n10: Name or service not known", 1),
        ("ssh: connect to host n1 port 22: Connection refused", 0),
        ("Warning: n1 and n10\nme@n10: Permission denied (publickey).", 1),
        ("  my node:   head\n  target node:  n1", None),
        ("ssh: Could not resolve hostname n1.example.org: Name or service not known", None),
        ("ORTE was unable to reliably start one or more daemons.", None),
        ("", None),
    ],
)
def test_which_host_was_not_reached(output, node):
    assert start_failures.find_unreached_host(["n1", "me@n10"], output) == node


def diagnosed(text):
    return json.dumps({"event": "diagnostics", "text": text}).encode()


def test_all_hosts_are_named_if_the_failing_one_is_unknown():
    *_, last = start_failures.explain_start_failure(
        iter([diagnosed("ORTE failed.")]), "python3", ["n1", "n2"]
    )
    failure = json.loads(last)["failure"]
    assert (failure["kind"], failure["node"]) == ("lost-node", None)
    assert "on any of the hosts n1, n2: " in failure["message"]
    assert failure["message"].endswith("Last output: ORTE failed.")


def test_messages_of_agents_are_passed_on_unchanged():
    """Whoever has been heard was started."""
    lines = [
        b'{"event": "heartbeat"}',
        diagnosed("ssh: n1: no"),
        stream_events.ended_event("crashed", "it did", 1),
    ]
    assert list(start_failures.explain_start_failure(iter(lines[:2]), "python3", ["n1", "n2"])) == lines[:2]
    assert list(start_failures.explain_start_failure(iter(lines), "python3", ["n1", "n2"])) == lines


def test_a_second_node_without_the_agents_python_is_named():
    lost = stream_events.ended_event(
        "lost-node", f"The command of node 1 ended. sh: 1: {PYTHON}: not found", 1
    )
    (last,) = start_failures.explain_start_failure(iter([lost]), PYTHON)
    failure = json.loads(last)["failure"]
    assert (failure["kind"], failure["node"]) == ("unavailable", 1)
    assert failure["message"].startswith(
        f"{PYTHON}, which runs the agents, cannot be started on node 1: not found."
    )
