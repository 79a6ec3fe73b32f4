"""A launcher: it starts one agent per node and returns agent 0's event stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.framework import NoOptions


@frozen
class Job:
    """A case to launch."""

    id: str
    bundle: Path
    """The archive that every node needs, and all that it needs: no file system is shared."""
    nodes: int
    devices_per_node: int
    device: str
    options: Any = field(factory=NoOptions)
    """An instance of the launcher's `Options`."""
    prefix: tuple[str, ...] = ()
    """The command in front of each agent's: a container runner, or nothing for the node itself."""
    start_timeout: float = 300.0
    """Seconds from the start of the agents to agent 0's first event."""


@frozen
class AttachedJob:
    """A job in a launcher's queue that an earlier controller submitted."""

    id: str
    """The `Job.id` that it was submitted with."""
    label: str
    """Name for users: `Slurm job 4213`."""
    cancel_command: str
    """The command with which users cancel it."""
    stream: Iterator[bytes]
    """Agent 0's stream from its beginning, as `Topology.launch` gives it; to stop reading does not harm the job."""
    acknowledge: Callable[[], None]
    """Tell the job that its stream is stored, so that it need not be kept for another controller."""


class Topology(ABC):
    """A launcher. Registered in the group `dlperf_sdk.topologies`."""

    name: ClassVar[str]
    """The name behind the '@' of `2n8d@name`; the entry point carries the same."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the launcher's own options, set with `--set NAME=VALUE`.

    The metadata of each option hold its `help`, that of one that names a program or its flags `"executes": True`, and
    that of one that names a file `"reads": True`. Spec files and campaign files may not set these.
    """
    placement_variables: ClassVar[tuple[str, ...]] = ()
    """The variables in which the launcher tells each agent its placement; a container takes them from its node."""

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence that says why the launcher cannot place so many nodes and devices from here, or None."""
        return None

    def validate_options(self, nodes: int, options: Any) -> None:
        """Check an instance of `Options` for so many nodes, as far as that is possible before the launch.

        Raises:
            SpecError: an option has a wrong value.
        """
        return

    def has_queue(self) -> bool:
        """Return True if each launch submits a job that may wait for its turn; the parity run then shares the job."""
        return False

    def attach(self, job: str) -> AttachedJob:
        """Return the job that an earlier controller submitted under this identifier of the queue.

        Raises:
            Unavailable: there is no such job, dlperf did not submit it, it is over, or the queue does not answer.
        """
        raise Unavailable(
            f"The launcher {self.name} has no queue: its agents end with their controller, and nothing of {job!r} is "
            "left to attach to. Run the case again."
        )

    def cancel_orphaned_jobs(self, ids: Set[str], options: Any) -> Mapping[str, str]:
        """Cancel the jobs that earlier controllers left in the queue, and return those that are still there.

        A controller that was killed may not have stored its job's number, so jobs are found by their `Job.id`, among
        the user's own. The method is called repeatedly until it returns nothing: then none is left, and none can
        appear. A launcher without a queue has nothing to cancel.

        Args:
            ids: the values of `Job.id` to look for.
            options: an instance of `Options`.

        Returns:
            Each job's label, the same in every call, and its state. A submission that is under way counts as a job.

        Raises:
            Unavailable: the queue does not answer; the caller tries again for a while.
        """
        return {}

    @abstractmethod
    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the commands that `launch` runs, to be shown to users; pure."""

    def script(self, job: Job) -> str | None:
        """Return the batch script that those commands read in place of the bundle, to be shown to users; pure."""
        return None

    @abstractmethod
    def launch(self, job: Job) -> AbstractContextManager[Iterator[bytes]]:
        """Start the agents; the context's value is agent 0's stream, line by line, and leaving it ends all agents.

        A node that could not start its agent writes an event `ended` of its own; lines that are no events are
        ignored. The iterator ends when agent 0 does. Leaving the context returns when every agent that can be reached
        has ended; the others end themselves.

        Raises:
            Unavailable: the launcher cannot place the job.
        """
