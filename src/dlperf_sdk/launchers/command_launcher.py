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

        Each reads the bundle from its standard input. The first one's standard output is agent 0's stream.

        Args:
            job: The case and its bundle, which need not exist.

        Returns:
            The commands, each as its words: one for all nodes, or one per node in their order.

        Raises:
            Unavailable: The launcher's options do not suffice for the job.
        """

    def explain_failures(self, job: Job, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of agent 0's stream; if it ends early, a last event may explain why the agents did not start.

        The base class returns the lines unchanged.

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
            The commands, each as its words: one for all nodes, or one per node in their order.

        Raises:
            Unavailable: The launcher's options do not suffice for the job.
        """
        return tuple(abbreviate(command) for command in self.agent_commands(job))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        """Run the commands on this machine; the context's value is agent 0's stream, line by line.

        Leaving the context closes the standard input of the commands, which ends the agents.

        Args:
            job: The case, and its bundle, which exists.

        Raises:
            Unavailable: the launcher cannot place the job, or the program of a command cannot be executed.
            OSError: a resource such as descriptors ran out, or the bundle cannot be read.
        """
        with run_commands(self.agent_commands(job), job.bundle) as lines:
            yield self.explain_failures(job, lines)
