"""The outcome of each fault with each launcher: recorded by the engines' tests, committed, shown in the docs.

`scripts/fault_matrix.py --record` records the outcomes. Otherwise each test compares its outcome with the committed
one, except for the seconds: these have limits in the test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

FILE = Path(__file__).with_name("fault_outcomes.json")
RECORD = "DLPERF_RECORD_FAULTS"
"""Variable with the file to which outcomes are appended instead of being compared."""
LAUNCHERS = {
    "ssh": "ssh",
    "mpi": "mpi",
    "slurm-step": "Slurm step",
    "slurm-job": "Slurm job",
    "joined": "joined, in an `srun`",
}


@frozen
class Fault:
    """A fault: a mapping launcher → reason for the launchers to which it does not apply, and a note on its outcomes."""

    not_applicable: Mapping[str, str] = field(factory=dict)
    note: str = ""
    """Explanation of outcomes that name no single node, or leave something behind for a while."""


_NO_SCHEDULER = dict.fromkeys(("ssh", "mpi"), "This launcher has no scheduler.")
_NO_SSH = dict.fromkeys(
    ("slurm-step", "slurm-job", "joined"), "Slurm's own daemons start the agents; no ssh connection is made."
)
_SILENT_SSH = (
    "The deadline `start` is 30 s in this test, and the time limit of each ssh connection is half of it. With mpi, the "
    "test names the hosts by their addresses, because messages of mpirun's ssh contain only these."
)
_OWN_NAMES = dict.fromkeys(
    ("slurm-step", "slurm-job", "joined"),
    "Slurm chooses the hosts among the nodes that it knows, and rejects other names.",
)
_FROM_OUTSIDE = "The whole run is ended from outside, so no node is at fault."

FAULTS = {
    "a worker is killed": Fault(),
    "a worker hangs in a collective": Fault(
        note="All ranks of a collective stop in the same step. The failure names the rank whose deadline passes first. "
        "The deadline `step` is 2 s in this test."
    ),
    "an agent is killed": Fault(
        note="A killed agent cannot remove its folder in `/tmp`. The next agent on that node removes it; the test "
        "starts one before it looks for orphans."
    ),
    "node 0, with the coordinator, is cut off the network": Fault(
        note="The controller of `joined` is on node 0, and loses all other nodes. The failure names the first of them."
    ),
    "node 1 is cut off the network": Fault(),
    "node 1 cannot connect to node 2": Fault(),
    "node 1 cannot connect to node 0": Fault(
        note="The `srun` of a Slurm job runs on node 0 and cannot start the agent of node 1. With the other launchers, "
        "that agent starts, but cannot join before the deadline `start`, which is 20 s in this test."
    ),
    "node 1 lacks the environment": Fault(),
    "node 1 has another environment": Fault(),
    "the disk of node 1 is full": Fault(),
    "node 0 lacks the agents' Python": Fault(),
    "node 1 lacks the agents' Python": Fault(),
    "the agents' Python exits on node 0": Fault(),
    "the agents' Python exits on node 1": Fault(),
    "node 0 drops ssh connections": Fault(_NO_SSH, _SILENT_SSH),
    "node 1 drops ssh connections": Fault(_NO_SSH, _SILENT_SSH),
    "the name of host 0 is unknown": Fault(_OWN_NAMES),
    "the name of host 1 is unknown": Fault(
        _OWN_NAMES,
        "With ssh, the agent of node 0 first looks for a route to host 1. So the failure names node 0, and its message "
        "names host 1.",
    ),
    "the scheduler's time limit passes": Fault(
        _NO_SCHEDULER,
        f"{_FROM_OUTSIDE} The test sets the end of the job to 1 s ahead, and the seconds count from then. Slurm checks "
        "time limits only every 30 s.",
    ),
    "the job or allocation is canceled": Fault(_NO_SCHEDULER, _FROM_OUTSIDE),
    "Ctrl-C": Fault(note=_FROM_OUTSIDE),
    "the controller is killed": Fault(
        note="No process is left that could store a failure, and no node is at fault. The finished repeats are in the "
        "directory of the run. The seconds end when nothing of the run is left on the nodes. With `joined`, they "
        "include a second run, whose agents remove the folder of the first. A submitted Slurm job continues, and "
        "`dlperf attach` stores its result; the seconds end there."
    ),
}


def key(fault: str, launcher: str) -> str:
    """Return the name of an outcome."""
    assert launcher not in FAULTS[fault].not_applicable, (fault, launcher)
    return f"{fault} / {launcher}"


def record_or_compare(outcome: dict[str, Any]) -> None:
    """Record an outcome, or compare it with the committed one."""
    name = key(outcome["fault"], outcome["launcher"])
    if RECORD in os.environ:
        with Path(os.environ[RECORD]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")
        return
    expected = committed()[name]
    assert {**outcome, "seconds": expected["seconds"]} == expected, "scripts/fault_matrix.py --record"


def committed() -> dict[str, dict[str, Any]]:
    """Return the committed outcomes by `key`."""
    outcomes = json.loads(FILE.read_text(encoding="utf-8"))
    return {key(outcome["fault"], outcome["launcher"]): outcome for outcome in outcomes}
