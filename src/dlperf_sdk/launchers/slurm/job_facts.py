"""What Slurm's own commands tell of a job, without accounting: its facts, and why it ended."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence

from dlperf_sdk.errors import Unavailable

OVER = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    *("PREEMPTED", "REVOKED"),
}
"""The states of a job that is over."""
TAKEN_DOWN = "COMPLETING"
"""The state of a job that Slurm is ending."""
OURS = "dlperf-"
"""What the names of our jobs begin with."""
_UNCONFIGURED = (
    ". Slurm's commands are installed here, but not told of a cluster: run this on one of its login nodes, or name its "
    "slurm.conf in the variable SLURM_CONF, or put it at /etc/slurm/slurm.conf."
)
"""The next step where `Could not establish a configuration source` is all that Slurm says."""
_BUSY = "Unable to contact slurm controller|[Tt]imed out"
"""What scontrol says where Slurm's controller has much to do, or is being restarted."""
_PAUSE = 2.0
"""Seconds before it is asked once more."""
_PATIENCE = 60.0
"""Seconds that a command is waited for."""


def answer(command: Sequence[str], text: str = "") -> str:
    """Run one of Slurm's commands; what it printed. Raises Unavailable, with what it complained of."""
    # A user's own defaults for squeue, as SQUEUE_PARTITION is one, would hide jobs from us.
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SQUEUE_")}
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            env=variables,
            start_new_session=True,  # a Ctrl-C is for whoever waits for the answer
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} does not work here: {error}.") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise Unavailable(
            f"{command[0]} refused: {said}{_UNCONFIGURED if 'configuration source' in said else ''}"
        )
    return done.stdout


def facts(number: str) -> dict[str, str]:
    """What `scontrol` knows of a job: `JobState`, `JobName`, `BatchHost`, …

    Raises:
        Unavailable: there is no such job, or it ended too long ago, or Slurm does not answer.
    """
    if not re.fullmatch("[0-9]+(_[0-9]+)?", number):
        raise Unavailable(f"{number[:50]!r} is no number of a Slurm job.")
    command = ["scontrol", "--oneliner", "show", "job", number]
    try:
        told = answer(command)
    except Unavailable as error:
        if not re.search(_BUSY, str(error)):
            raise
        time.sleep(_PAUSE)
        told = answer(command)
    return dict(re.findall(r"(\S+?)=(\S*)", told))


def facts_or(before: dict[str, str], number: str) -> dict[str, str]:
    """The facts of a job, or those from before: Slurm may be busy, or its controller be restarted."""
    try:
        return facts(number)
    except Unavailable:
        return before


def why(state: str, said: str) -> tuple[str, str] | None:
    """The kind of failure that a job's state, or srun's words, tell of, and a sentence; None if they tell of none."""
    if state == "TIMEOUT" or "DUE TO TIME LIMIT" in said:
        return (
            "timeout",
            "Slurm ended the job at its time limit. Ask for more with --set time_limit=…, or measure less.",
        )
    if state == "CANCELLED" or re.search("CANCELLED AT", said):
        return "interrupted", "The job was cancelled from outside; the repeats that had finished are kept."
    if state == "NODE_FAIL" or "NODE FAILURE" in said:
        node = re.search(r"ON (\S+) CANCELLED|[Nn]ode failure on (\S+)", said)
        return (
            "lost-node",
            f"Slurm lost a node of the job{f', {node[1] or node[2]}' if node else ''}. {said[-500:]}".strip(),
        )
    if state == "PREEMPTED":
        return (
            "interrupted",
            "Slurm took the nodes away for a job that comes first; the repeats that had finished are kept.",
        )
    if state == "OUT_OF_MEMORY":
        return "out-of-memory", "Slurm ended the job because it took more memory than it had asked for."
    return None
