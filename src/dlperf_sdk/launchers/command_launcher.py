"""The base of launchers that start their agents with commands: one for all nodes, or one per node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.agent_command import abbreviate
from dlperf_sdk.launchers.processes import run_commands


class CommandLauncher(Topology):
    """A launcher that runs commands on this machine.

    Subclasses provide the commands: one for all nodes, or one per node.
    """

    @abstractmethod
    def agent_commands(self, job: Job) -> Sequence[Sequence[str]]:
        """Return the commands that start the agents. Nothing is started.

        Each command reads the bundle from its standard input. The first command writes agent 0's event stream to its
        standard output.

        Args:
            job: The case and its bundle, which need not exist.

        Returns:
            The commands, each as its words: one for all nodes, or one per node in the order of the nodes.

        Raises:
            Unavailable: The launcher's options do not suffice for the job, such as too few hosts.
        """

    def explain_failures(self, job: Job, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of agent 0's stream, and an event `ended` if they show why the agents did not start.

        The base class returns the lines unchanged. Each line is given and yielded without its line feed.

        Args:
            job: The case and its bundle.
            lines: The lines of the stream, most of them JSON events.
        """
        return lines

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the commands that start the agents, for display, with `BOOTSTRAP` in place of the agents' program.

        Args:
            job: The case and its bundle, which need not exist.

        Returns:
            The commands, each as its words: one for all nodes, or one per node in the order of the nodes.

        Raises:
            Unavailable: The launcher's options do not suffice for the job, such as too few hosts.
        """
        return tuple(abbreviate(command) for command in self.agent_commands(job))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        """Return a context manager that runs the commands on this machine; its value yields agent 0's stream by lines.

        Each line is bytes without its line feed. The commands are started on entering the context. On exit, their
        standard input is closed, which ends the agents.

        Args:
            job: The case, and its bundle, which exists.

        Raises:
            Unavailable: The launcher cannot place the job, or the program of a command cannot be executed.
            OSError: A resource such as descriptors ran out, or the bundle cannot be read.
        """
        with run_commands(self.agent_commands(job), job.bundle) as lines:
            yield self.explain_failures(job, lines)
