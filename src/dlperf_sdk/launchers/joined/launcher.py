"""The launcher behind `2n4d@joined`: the processes of a job that somebody else started become the nodes."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from dlperf_sdk.errors import LostNode, Unavailable, UsageError
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.agent_command import PlacementArguments, abbreviate, agent_command
from dlperf_sdk.launchers.joined.crew import Crew, Member, merge_devices
from dlperf_sdk.launchers.joined.hello import introduce
from dlperf_sdk.launchers.joined.job_kinds import (
    JOB_KINDS,
    Seat,
    find_job_kind,
    list_job_variables,
    read_seat,
)
from dlperf_sdk.launchers.joined.launch import run_agents
from dlperf_sdk.launchers.joined.meeting import (
    JOIN_VARIABLE,
    address_of_controller,
    close_meeting,
    listening_address,
    meeting_file,
    open_meeting,
)
from dlperf_sdk.launchers.joined.member import find_controller, serve
from dlperf_sdk.launchers.options import AgentOptions, option
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent import rendezvous
from dlperf_sdk.worker.network import port_range

_START = 300.0
"""Seconds for the other processes to find rank 0, unless the cases have the deadline `start`."""


@frozen
class JoinedOptions(AgentOptions):
    """Options of the launcher `joined`."""

    agent_python: str = option(
        "Python 3.7 or later that runs the agent on every node; empty: the Python that runs dlperf.",
        executes=True,
    )
    meeting: str = option(
        "Folder that all nodes share, for the file with the job's secret; empty: the working directory.",
        reads=True,
    )
    # The other processes start what comes from there.
    address: str = option(
        "Address of rank 0's node, as other nodes reach it; empty: from the job's variables.", executes=True
    )


_crews: list[Crew] = []
"""The crew of this process, if it is rank 0 of a job that was joined."""


class Joined(Topology):
    """The launcher behind `2n4d@joined`, inside of a job that torchrun, mpirun, srun or a user started."""

    name = "joined"
    Options = JoinedOptions

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence if this process belongs to no job that can be joined, or one that is too small; else None.

        Args:
            nodes: Number of nodes.
            devices_per_node: Number of devices on each node.
            device: Kind of the devices, which does not matter here.
        """
        if _crews:
            return _crews[0].seat.describe_shortage(nodes, devices_per_node)
        kind = find_job_kind(os.environ)
        if kind is None:
            kinds = ", ".join(f"{kind.name} ({kind.marker[0]})" for kind in JOB_KINDS)
            return (
                "This process belongs to no job that could be joined: none of the variables that identify "
                f"one is set. Start the command in a job: {kinds}."
            )
        try:
            read_seat(kind, os.environ, nodes, devices_per_node)
        except ValueError as error:
            return str(error)
        return None

    def join_job(self, cases: Sequence[RunSpec], options: JoinedOptions) -> None:
        """Connect this process with its job: in rank 0, return; in others, execute rank 0's requests until it ends.

        From now on, rank 0 listens for the other processes, and it dismisses them when it ends. In a process without a
        job, and after the first call, the method does nothing.

        Args:
            cases: The cases that are to be run.
            options: The launcher's options.

        Raises:
            SystemExit: This process is not rank 0, and rank 0 has ended; the exit code is that of rank 0.
            LostNode: This process is not rank 0, and rank 0 was not found in time, or was lost. The time is the
                longest deadline `start` of the cases.
            UsageError: The variables of the job are malformed or contradict each other, the job is too small for the
                cases, rank 0 cannot listen on its address, or the job's file or secret cannot be used.
        """
        kind = find_job_kind(os.environ)
        if kind is None or _crews:
            return
        topologies = [case.topology for case in cases]
        nodes = max(topology.nodes for topology in topologies)
        devices = max(topology.devices_per_node for topology in topologies)
        try:
            seat = read_seat(kind, os.environ, nodes, devices)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if seat.is_controller:
            _begin_crew(seat, options, cases)
            return
        timeout = max(case.deadlines.get("start", _START) for case in cases)
        path = meeting_file(options.meeting, seat, os.environ)
        address = address_of_controller(seat, options.address, os.environ)
        ports = port_range(options.ports)
        connection, meeting = find_controller(path, address, os.environ, seat, ports, timeout)
        code = serve(connection, introduce(seat, cases, meeting.secret))
        if code is None:
            raise LostNode(
                f"{seat.describe().capitalize()} ({socket.gethostname()}) has lost rank 0 of its job, on "
                f"{meeting.address}: it was ended, or its node cannot be reached."
            )
        raise SystemExit(code)

    def set_exit_code(self, code: int) -> None:
        """Set the exit code, `code`, with which the other processes of the job end after this one."""
        for crew in _crews:
            crew.exit_code = code

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return the command of each node's agent, as its words, in the order of the nodes, for display.

        `HOSTS` replaces the addresses, and `BOOTSTRAP` the agent's program. `job` is the case and its bundle, which
        need not exist.
        """
        return tuple(abbreviate(self._command(job, node, "HOSTS", ())) for node in range(job.nodes))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        """Return a context manager that has the first process of each node start an agent.

        The value of the context manager yields agent 0's stream by lines, as bytes without their line feeds. After
        entering the context, the agents are started as soon as all processes have joined. On exit, all agents are
        ended. `job` is the case and its bundle, which exists.

        Raises:
            Unavailable: This process is not rank 0 of a job that was joined.
        """
        if not _crews:
            reason = self.unavailable_reason(job.nodes, job.devices_per_node, job.device)
            raise Unavailable(
                reason or "This process has not joined its job as rank 0: see `Topology.join_job`."
            )
        crew = _crews[0]

        def commands() -> list[tuple[str, ...]]:
            hosts = ",".join(crew.address_of(node) for node in range(min(2, job.nodes)))
            return [
                self._command(job, node, hosts, _devices(crew.members_of(node))) for node in range(job.nodes)
            ]

        with run_agents(crew, job, _python(job), commands) as lines:
            yield lines

    def _command(self, job: Job, node: int, hosts: str, devices: Sequence[str]) -> tuple[str, ...]:
        """Return the command of a node's agent: in an environment without the job's variables."""
        options: JoinedOptions = job.options
        removed = [word for name in (*list_job_variables(), JOIN_VARIABLE) for word in ("-u", name)]
        placement = PlacementArguments(str(node), hosts, options.interface, options.ports)
        return ("env", *removed, *devices, *agent_command(job, _python(job), placement))


def _python(job: Job) -> str:
    return str(job.options.agent_python) or ("python3" if job.prefix else sys.executable)


def _devices(members: Sequence[Member]) -> tuple[str, ...]:
    """Return arguments of `env` that make all devices visible which any process of a node sees."""
    devices = merge_devices(members)
    return ("-u", "CUDA_VISIBLE_DEVICES") if devices is None else (f"CUDA_VISIBLE_DEVICES={devices}",)


def _begin_crew(seat: Seat, options: JoinedOptions, cases: Sequence[RunSpec]) -> None:
    """Listen for the other processes of the job, and dismiss them when this process ends."""
    path = meeting_file(options.meeting, seat, os.environ)
    address = listening_address(seat, options.address, os.environ)
    meeting = open_meeting(path, address, os.environ)
    try:
        listener = rendezvous.listen(
            address, rendezvous.candidate_ports(meeting.secret, port_range(options.ports))
        )
    except OSError as error:
        close_meeting(path, meeting)
        raise UsageError(
            f"Rank 0 of the job cannot listen on {address}: {error}. Give an address of this node with "
            "--set address=HOST."
        ) from error
    crew = Crew(seat, introduce(seat, cases, meeting.secret), address)
    crew.listen(listener, meeting.secret)
    _crews.append(crew)

    def end() -> None:
        listener.close()
        close_meeting(path, meeting)
        crew.dismiss()

    atexit.register(end)
