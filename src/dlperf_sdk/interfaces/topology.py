"""The interface of launchers: each starts one agent per node and returns the event stream of agent 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.framework import NoOptions
from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class Job:
    """A case to launch, as its launcher sees it."""

    id: str
    """Name of the launch, unique among the jobs of a user."""
    bundle: Path
    """Archive with everything that a node needs from the controller. No shared file system is assumed."""
    nodes: int
    """Number of nodes."""
    devices_per_node: int
    """Number of devices on each node."""
    device: str
    """Kind of the devices: `cpu`, `cuda`, …"""
    options: Any = field(factory=NoOptions)
    """An instance of the launcher's `Options`."""
    prefix: tuple[str, ...] = ()
    """Words in front of each agent's command, such as a container runner; empty: the agent runs on the node itself."""
    start_timeout: float = 300.0
    """Maximum seconds from the start of the agents to agent 0's first event."""


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
    """Agent 0's stream from its beginning, as `Topology.launch` gives it. The job continues if the reader stops."""
    acknowledge: Callable[[], None]
    """Function that tells the job that its stream is stored. After that, the job no longer keeps its stream for
    another controller."""


@frozen
class Submission:
    """A file with which users submit a job themselves, and the commands for it."""

    content: bytes
    """Content of the file."""
    commands: tuple[str, ...]
    """Commands to show to users, from the submission of the file to `dlperf ingest`."""


class Topology(ABC):
    """A launcher. Registered in the group `dlperf_sdk.topologies`."""

    name: ClassVar[str]
    """The name after the '@' of `2n8d@name`; it equals the entry point's name."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the launcher's own options, set with `--set NAME=VALUE`.

    The metadata of each option hold its `help`. An option that names a program or its flags has `"executes":
    True`, one that names a file `"reads": True`. Spec files and campaign files may not set an option with either
    mark.
    """
    placement_variables: ClassVar[tuple[str, ...]] = ()
    """Variables through which the launcher tells each agent its placement. A container receives them from its node."""

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence that says why the launcher cannot place a case from this machine; None if none is known.

        The base class returns None.

        Args:
            nodes: Number of nodes.
            devices_per_node: Number of devices on each node.
            device: Kind of the devices, such as `cpu` or `cuda`.
        """
        return None

    def validate_options(self, nodes: int, options: Any) -> None:
        """Check the launcher's options for a number of nodes, as far as that is possible before the launch.

        The base class accepts everything.

        Args:
            nodes: Number of nodes.
            options: The launcher's options, an instance of its class attribute `Options`.

        Raises:
            SpecError: An option has a wrong value.
        """
        return

    def join_job(self, cases: Sequence[RunSpec], options: Any) -> None:
        """Connect this process with the other processes of its job, before anything else is done for the cases.

        If the launcher runs inside of a job, each process of the job calls this method with the same cases. In the one
        process that is the controller, the method returns. In every other process, it executes the controller's
        requests until the controller ends, and then raises `SystemExit`. The base class, for launchers whose controller
        is the only process, returns at once.

        Args:
            cases: The cases that are to be run, all on this launcher.
            options: The launcher's options of the first case, an instance of its class attribute `Options`.

        Raises:
            SystemExit: This process is not the controller, and the controller has ended; the exit code is that of the
                controller.
            UsageError: The job does not fit the cases, or its processes cannot find each other.
            LostNode: This process is not the controller, and the controller was not found, or was lost.
        """
        return

    def set_exit_code(self, code: int) -> None:
        """Set the exit code that the other processes of the job get when this one, the controller, ends.

        The base class does nothing.

        Args:
            code: The exit code, from 0 to 255.
        """
        return

    def place_on(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the options of a case with one node, changed so that this node is `host`.

        The base class, for launchers that cannot choose the node, always raises.

        Args:
            host: Name or address of the node.
            options: The options that the user set, name → value.

        Raises:
            Unavailable: The launcher cannot choose the node.
        """
        raise Unavailable(
            f"The launcher {self.name} cannot place a case on a node of your choice. Choose another one with "
            "--topology, for example 1n1d@ssh."
        )

    def has_queue(self) -> bool:
        """Return True if each launch submits a job that may wait in a queue.

        If so, the parity run shares the job of the run. The base class returns False.
        """
        return False

    def attach(self, job: str) -> AttachedJob:
        """Return a job that an earlier controller submitted, so that its event stream can be read.

        The base class, for launchers without a queue, always raises.

        Args:
            job: The queue's own identifier of the job.

        Raises:
            Unavailable: There is no such job, dlperf did not submit it, it is over, the queue does not answer, or
                the launcher has no queue.
        """
        raise Unavailable(
            f"The launcher {self.name} has no queue: its agents end with their controller, and nothing of {job!r} is "
            "left to attach to. Run the case again."
        )

    def cancel_orphaned_jobs(self, ids: Set[str], options: Any) -> Mapping[str, str]:
        """Cancel the jobs that earlier controllers left in the queue, and return those that still exist.

        A controller that was killed may not have stored the queue's identifier of its job. Therefore jobs are
        found by their `Job.id`, among those of the same user. An empty result means that no such job exists or can
        appear; the caller repeats the call until the result is empty. The base class, for launchers without a
        queue, returns an empty mapping.

        Args:
            ids: Values of `Job.id` to look for.
            options: The launcher's options, an instance of its class attribute `Options`.

        Returns:
            Label of each job → its state, both as text for users. A job has the same label in every call. A
            submission under way counts as a job.

        Raises:
            Unavailable: The queue does not answer; the caller tries again for a while.
        """
        return {}

    @abstractmethod
    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the commands that `launch` runs, each as its words, to be shown to users.

        Nothing is started or written.

        Args:
            job: The case and its bundle, which need not exist.

        Raises:
            Unavailable: The launcher's options do not suffice for the job, such as too few hosts.
        """

    def script(self, job: Job) -> str | None:
        """Return the batch script that the launcher's `commands` submit, for display; None if they submit none.

        The text leaves out the bundle that the submitted script contains. Nothing is started or written. The base class
        returns None.

        Args:
            job: The case and its bundle, which need not exist.
        """
        return None

    def submission(self, job: Job, file: str) -> Submission | None:
        """Return the file that `dlperf bundle` writes for users to submit to a scheduler; None without a scheduler.

        The file contains the bundle, which is complete except for the values of secret variables. If the result is
        None, as in the base class, `dlperf bundle` writes the bundle itself.

        Args:
            job: The case and its bundle.
            file: The path that the file will have, for the commands.

        Raises:
            Unavailable: The scheduler does not accept the job, for example because the file is too large.
        """
        return None

    @abstractmethod
    def launch(self, job: Job) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that runs the agents; its value yields the lines of agent 0's stream.

        The agents are started on entering the context. The iterator yields each line as bytes, with or without its line
        feed, and ends when agent 0 ends. Leaving the context ends all agents: it returns when every reachable agent has
        ended, and the others end themselves. If a node cannot start its agent, the stream has an event `ended`. The
        stream may contain lines that are not events; readers ignore these.

        Args:
            job: The case, and its bundle, which exists.

        Raises:
            Unavailable: The launcher cannot place the job; on calling the method or on entering the context.
        """
