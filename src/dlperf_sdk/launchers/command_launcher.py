"""The base of launchers that start their agents with commands: one for all nodes, or one per node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.agent_command import abbreviate
from dlperf_sdk.launchers.processes import run_commands


class CommandLauncher(Topology):
    """A launcher that subclasses complete with the commands to run."""

    @abstractmethod
    def agent_commands(self, job: Job) -> Sequence[Sequence[str]]:
        """Return the commands that start the agents, each with the bundle on its standard input; pure.

        The first one's standard output carries agent 0's stream.
        """

    def explain_failures(self, job: Job, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of a stream; if it ends early, the last line may explain why the agents did not start."""
        return lines

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the commands that start the agents, with the program's source left out, to be shown to users; pure."""
        return tuple(abbreviate(command) for command in self.agent_commands(job))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        """Run the commands on this machine; the context's value is agent 0's stream, line by line.

        The commands' standard input is the agents' tether: its end stops them.
        """
        with run_commands(self.agent_commands(job), job.bundle) as lines:
            yield self.explain_failures(job, lines)
