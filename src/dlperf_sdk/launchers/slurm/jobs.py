"""Query Slurm about jobs, by its own commands and without accounting: a job's state, and why it ended."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.worker.agent.placement import expand_hosts

FINAL_STATES = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    *("PREEMPTED", "REVOKED"),
}
"""The states of a job that is over."""
COMPLETING = "COMPLETING"
"""The state of a job that Slurm is ending."""
NAME_PREFIX = "dlperf-"
"""The beginning of the names of our jobs; the rest is `Job.id`."""
_NOT_CONFIGURED = (
    ". Slurm's commands are installed here, but no cluster is configured: run this on one of its login nodes, or name "
    "its slurm.conf in the variable SLURM_CONF, or put it at /etc/slurm/slurm.conf."
)
"""Advice for an error of Slurm that only reads `Could not establish a configuration source`."""
_BUSY = "Unable to contact slurm controller|[Tt]imed out"
"""Messages of scontrol while Slurm's controller is busy or restarting."""
_RETRY = 2.0
"""Seconds before a busy controller is queried again."""
_TIMEOUT = 60.0
"""Seconds for a command to answer."""


def job_label(number: str) -> str:
    """Return a job's name for users, such as `Slurm job 4711` for the number `4711`."""
    return f"Slurm job {number}"


def run_slurm(command: Sequence[str], text: str = "") -> str:
    """Run one of Slurm's commands, and return its standard output.

    The user's own defaults for squeue (`SQUEUE_…`) are left out: they could hide jobs.

    Args:
        command: The command, as its words.
        text: The command's standard input.

    Raises:
        Unavailable: The command cannot be run, takes more than a minute, or fails; the message has its error.
    """
    # The user's own defaults for squeue, such as SQUEUE_PARTITION, could hide jobs.
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SQUEUE_")}
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            env=variables,
            start_new_session=True,  # the caller handles Ctrl-C
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} does not work here: {error}.") from error
    if done.returncode:
        output = done.stderr.strip() or done.stdout.strip()
        hint = _NOT_CONFIGURED if "configuration source" in output else ""
        raise Unavailable(f"{command[0]} failed: {output}{hint}")
    return done.stdout


def is_busy(error: Unavailable) -> bool:
    """Return True if an error of `run_slurm` says that Slurm's controller is busy or restarting: try again later."""
    return re.search(_BUSY, str(error)) is not None


def query_job(number: str) -> dict[str, str]:
    """Return the fields that `scontrol` prints about a job: field name (`JobState`, `BatchHost`, …) → text.

    If Slurm's controller is busy, it is asked a second time after two seconds.

    Args:
        number: The job's number, or `NUMBER_TASK` for a task of an array.

    Raises:
        Unavailable: There is no such job, it ended too long ago, or Slurm does not answer.
    """
    if not re.fullmatch("[0-9]+(_[0-9]+)?", number):
        raise Unavailable(f"{number[:50]!r} is not the number of a Slurm job.")
    command = ["scontrol", "--oneliner", "show", "job", number]
    try:
        output = run_slurm(command)
    except Unavailable as error:
        if not is_busy(error):
            raise
        time.sleep(_RETRY)
        output = run_slurm(command)
    return dict(re.findall(r"(\S+?)=(\S*)", output))


def query_job_or(previous: dict[str, str], number: str) -> dict[str, str]:
    """Return the fields that `scontrol` prints about a job, or `previous` if that fails.

    It fails if Slurm does not answer, or no longer knows the job.

    Args:
        previous: The fields of an earlier answer: field name (`JobState`, `BatchHost`, …) → text.
        number: The job's number.
    """
    try:
        return query_job(number)
    except Unavailable:
        return previous


def explain_end(state: str, output: str, hosts: str = "") -> tuple[str, str, int | None] | None:
    """Return the failure that a job's state or srun's output shows.

    Args:
        state: Slurm's state of the job, such as `TIMEOUT`; empty if unknown.
        output: The end of srun's output; empty if unknown.
        hosts: Slurm's list of the nodes, such as `n[1-4]`, in the order of the case's nodes; empty if unknown.

    Returns:
        The failure's kind (such as `timeout`), its message, and the number of the node at fault or None; None in place
        of all three if neither state nor output shows a failure.
    """
    launch_failure = re.search(r"Task launch for .* failed on node (\S+): ([^\n\\]*)", output)
    end = _explain_state(state, output)
    if launch_failure and state != "CANCELLED" and (end is None or end[0] == "interrupted"):
        return _explain_failed_launch(launch_failure[1], launch_failure[2].strip(), hosts)
    return None if end is None else (*end, None)


def _explain_state(state: str, output: str) -> tuple[str, str] | None:
    """Return the kind of failure that a job's state or srun's last message shows, and a sentence."""
    if state == "TIMEOUT" or "DUE TO TIME LIMIT" in output:
        return (
            "timeout",
            "Slurm ended the job at its time limit. Ask for more with --set time_limit=…, or measure less.",
        )
    if state == "CANCELLED" or re.search("CANCELLED AT", output):
        return "interrupted", "The job was cancelled from outside; the repeats that had finished are kept."
    if state == "NODE_FAIL" or "NODE FAILURE" in output:
        node = re.search(r"ON (\S+) CANCELLED|[Nn]ode failure on (\S+)", output)
        return (
            "lost-node",
            f"Slurm lost a node of the job{f', {node[1] or node[2]}' if node else ''}. {output[-500:]}".strip(),
        )
    if state == "PREEMPTED":
        return (
            "interrupted",
            "Slurm preempted the job for one of higher priority; the repeats that had finished are kept.",
        )
    if state == "OUT_OF_MEMORY":
        return "out-of-memory", "Slurm ended the job because it used more memory than it had asked for."
    return None


def _explain_failed_launch(name: str, reason: str, hosts: str) -> tuple[str, str, int | None]:
    """Return the failure of an srun that could not start the agent of a node, after which it ends the others."""
    try:
        node: int | None = expand_hosts(hosts).index(name)
    except ValueError:
        node = None
    label = name if node is None else f"node {node} ({name})"
    message = (
        f"Slurm could not start the agent of {label}: {reason}. Check that the node is up, and that the nodes can "
        "connect to each other: srun runs on the first."
    )
    return "lost-node", message, node
