"""Write docs/explanation/fault-matrix.md from tests/engines/fault_outcomes.json; `--record` runs the tests first.

`--record` needs what `make test-engines` needs, and takes about four minutes. Arguments after it go to pytest:
`--numprocesses 3 --dist load`, or `-k` to record some outcomes again.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "fault-matrix.md"
sys.path.insert(0, str(ROOT / "tests" / "engines"))

import fault_outcomes  # noqa: E402

HEAD = """\
# Fault matrix

This page shows how a run on a cluster ends when a node, a worker or the controller fails. Use it to decide which
faults a run survives, and how soon it reports them.

Each entry was observed with real ssh, OpenMPI or Slurm; if several tests cause a fault, the slowest counts. The
nodes are network namespaces of one machine. The case is a toy model on two nodes with one device each. Two faults
need three nodes: "node 1 cannot connect to node 2" and "node 1 has another environment". The columns are:

- ssh, mpi: the launchers of these names
- Slurm step: the launcher `slurm` in an existing allocation
- Slurm job: the launcher `slurm` outside of an allocation, which submits a job
- joined: the launcher `joined` in the processes that `srun` has started

An entry has five parts:

- the [kind of the failure](../reference/glossary.md#failures)
- the node that the failure names
- the time from the fault to the end of the run in seconds, rounded to whole seconds. If the fault exists before the
  agents start, the time begins with the launch. If the fault is part of a worker (killed, hangs), it begins with
  the repeat in which the fault occurs. Other programs used the processors, too
- orphans: processes and files of the run that were still on the nodes at the end of the test, after at most 30 s of
  waiting
- the finished repeats that were kept, of those that had finished; 0 of 0 if the fault occurs before the first
  repeat

The times depend on limits. A node is regarded as lost after 15 s without a message. In this Slurm, `SlurmdTimeout`
is 10 s and `KillWait` 15 s. A note gives the deadline of a test that has its own.

`make test-engines` causes each fault again and compares everything except the seconds with this page.
`scripts/fault_matrix.py --record --numprocesses 3 --dist load` records all entries and generates the page.

"""


def record(arguments: list[str]) -> int:
    """Run the tests that cause the faults, store their outcomes, and return pytest's exit code.

    The outcomes are written to `fault_outcomes.FILE`, where those of tests that did not run are kept.

    Args:
        arguments: Further arguments of pytest.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.jsonl"
        path.touch()
        environment = {**os.environ, "DLPERF_TEST_ENGINES": "1", fault_outcomes.RECORD: str(path)}
        pytest = (sys.executable, "-m", "pytest", "-q", "--timeout", "300", "-m", "fault_matrix")
        command = [*pytest, "tests/engines", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        recorded = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    outcomes = fault_outcomes.committed() if fault_outcomes.FILE.exists() else {}
    recorded.sort(key=lambda outcome: outcome["seconds"])  # of several tests of a fault, the slowest counts
    outcomes |= {fault_outcomes.key(outcome["fault"], outcome["launcher"]): outcome for outcome in recorded}
    order = [
        fault_outcomes.key(fault, launcher)
        for fault, description in fault_outcomes.FAULTS.items()
        for launcher in fault_outcomes.LAUNCHERS
        if launcher not in description.not_applicable
    ]
    lines = [json.dumps(outcomes[name]) for name in order if name in outcomes]
    fault_outcomes.FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    return code


def document() -> str:
    """Return the text of the page docs/explanation/fault-matrix.md, from the stored outcomes.

    Raises:
        KeyError: The file of outcomes lacks a fault.
    """
    outcomes, notes = fault_outcomes.committed(), dict[str, int]()
    heads = ("fault", *fault_outcomes.LAUNCHERS.values())
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for fault, description in fault_outcomes.FAULTS.items():
        cells = [f"{fault}{_reference(description.note, notes)}"]
        for launcher in fault_outcomes.LAUNCHERS:
            reason = description.not_applicable.get(launcher, "")
            cells.append(
                f"not applicable{_reference(reason, notes)}"
                if reason
                else _cell(outcomes[fault_outcomes.key(fault, launcher)])
            )
        rows.append("| " + " | ".join(cells) + " |")
    explanations = "".join(f"- ({number}) {note}\n" for note, number in notes.items())
    return HEAD + "\n".join(rows) + f"\n\nNotes:\n\n{explanations}"


def _reference(note: str, notes: dict[str, int]) -> str:
    """Return a reference to a note, and number the note if it is new."""
    return f" ({notes.setdefault(note, len(notes) + 1)})" if note else ""


def _cell(outcome: dict[str, Any]) -> str:
    node = "no node" if outcome["node"] is None else f"node {outcome['node']}"
    orphans = f"{outcome['orphans'] or 'no'} orphans"
    repeats = f"{outcome['kept']} of {outcome['finished']} kept"
    return f"{outcome['kind']}; {node}; {outcome['seconds']} s; {orphans}; {repeats}"


def main(arguments: list[str]) -> int:
    """Write the page, and return the exit code: pytest's after `--record`, else 0.

    Args:
        arguments: Words of the command line without the program's name; if the first is `--record`, the tests run
            before, with the others as arguments of pytest.
    """
    code = record(arguments[1:]) if arguments[:1] == ["--record"] else 0
    PAGE.write_text(document(), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
