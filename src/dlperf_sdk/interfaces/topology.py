"""A topology: the launcher that starts one agent per node, and brings back agent 0's stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from dlperf_sdk.interfaces.framework import NoOptions


@frozen
class Job:
    """What a launcher is handed."""

    id: str
    bundle: Path
    """The archive that every node needs, and the only thing: no file system is shared."""
    nodes: int
    devices_per_node: int
    device: str
    options: Any = field(factory=NoOptions)
    """An instance of the topology's `Options`."""
    prefix: tuple[str, ...] = ()
    """What runs the agent on each node, in front of its command: a container runner; nothing for the node itself."""
    patience: float = 300.0
    """Seconds from the start of the agents to agent 0's first word."""


class Topology(ABC):
    """A launcher that places agents on nodes. Registered in the group `dlperf_sdk.topologies`."""

    name: ClassVar[str]
    """The name used for selection, behind the '@' of `2n8d@name`; the entry point carries the same."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the launcher's own options, set with `--set NAME=VALUE`.

    The metadata of an option that names a program or its flags has `"executes": True`, that of one that names a file
    has `"reads": True`. Spec files and campaign files may not set these.
    """
    place_variables: ClassVar[tuple[str, ...]] = ()
    """The variables in which the launcher tells each agent its place: a container gets them from its node."""

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Why the launcher cannot place so many nodes and devices, in a sentence; None if it can, or may."""
        return None

    def mistake(self, nodes: int, options: Any) -> str | None:
        """What is wrong with the launcher's options for so many nodes, in a sentence: a mistake in what was asked.

        `options` is an instance of `Options`. None if nothing is, or nobody can know yet.
        """
        return None

    def queues(self) -> bool:
        """Whether each launch is a job that may have to wait: then what belongs together is launched together."""
        return False

    def end_left(self, ids: Set[str], options: Any) -> Mapping[str, str]:
        """Ask for the end of what earlier controllers left in this launcher's queue, and say what of it is still there.

        What a killed controller had submitted waits or runs on, and its number may never have been written down: it is
        found by its `Job.id`, which is one of `ids`, and it is the user's own. `options` is an instance of `Options`.
        The answer is what people call each such job, in the same words every time → the state that it is in; a
        submission that is still under way counts. This is asked again and again until the answer is empty: then
        nothing is left, and nothing can appear. A launcher without a queue has nothing to do here.

        Raises:
            Unavailable: the launcher does not answer now; it is asked again for a while.
        """
        return {}

    @abstractmethod
    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """The commands that `launch` will run, for people to read; pure."""

    def script(self, job: Job) -> str | None:
        """What those commands are fed in place of the bundle, for people to read: a batch script; pure."""
        return None

    @abstractmethod
    def launch(self, job: Job) -> AbstractContextManager[Iterator[bytes]]:
        """Start the agents; the value is agent 0's stream, line by line, and leaving the context ends them all.

        A node that could not even become an agent says so in a line of its own, an event `ended`; lines that are no
        events do no harm. The iterator ends when agent 0 does. Leaving the context returns only when every agent
        that can be reached has gone; one that cannot ends itself.

        Raises:
            Unavailable: the launcher cannot place the job.
        """
