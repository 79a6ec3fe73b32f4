"""The other processes of the job, as rank 0 sees them: who has joined, what they report, and what they are told."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from dlperf_sdk.launchers.joined.job_kinds import Seat, describe_place
from dlperf_sdk.launchers.stream_events import start_failure
from dlperf_sdk.worker.agent import link, tether
from dlperf_sdk.worker.agent.admission import Admission
from dlperf_sdk.worker.agent.exchange import Channel, Exchange, await_sending

Place = tuple[int, int]
"""Number of the node, and local rank on it."""
_MOST_CPUS = 1 << 16
"""Numbers of processors are smaller."""
_DISMISS = 5.0
"""Seconds for the last message to reach the members."""


@define
class Member:
    """A process of the job, as it introduced itself."""

    place: Place
    """Number of its node, and its local rank."""
    host: str
    """Name of its host."""
    cpus: list[int]
    """The processors on which it may run."""
    devices: str | None
    """Its `CUDA_VISIBLE_DEVICES`; None if it has none."""
    channel: Channel | None = None
    """None for rank 0 itself."""
    launched: int = 0
    """Number of the launch whose agent it runs; 0 for none."""

    @property
    def name(self) -> str:
        """The member's name for users, such as `local rank 1 of node 0 (HOST)`."""
        return f"{describe_place(*self.place)} ({self.host})"


@frozen
class Report:
    """A failure of the run, such as a process that left the job or an agent that ended."""

    kind: str
    """Kind of the failure, such as `lost-node`."""
    message: str
    """What happened, as sentences."""
    node: int | None
    """Number of the node at fault; None if none is."""
    errors: str | None = None
    """The end of the standard error of a node's agent that has ended; None for a failure of another kind."""


Receive = Callable[[Report | bytes], None]
"""A function of a report, or of a line that an agent of another node than the first printed. Any thread calls it."""


def _ignore(item: Report | bytes) -> None:
    """Do nothing."""


@define(eq=False)
class Crew:
    """The processes of the job that have joined, and the messages to and from them. This process is rank 0.

    Args:
        seat: The place of rank 0 in the job.
        hello: The message of `introduce` for rank 0, with which the messages of the other processes are compared.
        address: The address on which rank 0 listens.
    """

    seat: Seat
    hello: Mapping[str, Any]
    address: str
    exit_code: int = 0
    """Exit code for the other processes of the job."""
    failure: Report | None = None
    """The first failure of the job itself, after which no case can be run."""
    _receiver: Receive = _ignore
    """Receiver of the current launch; see `launch`."""
    _members: dict[Place, Member] = field(factory=dict)
    _condition: threading.Condition = field(factory=threading.Condition)
    _launches: int = 0
    _is_closed: bool = False
    _exchange: Exchange = field(init=False)

    def __attrs_post_init__(self) -> None:
        place = (self.seat.node, self.seat.local_rank)
        self._members[place] = Member(place, self.hello["host"], self.hello["cpus"], self.hello["devices"])
        self._exchange = Exchange(self._receive, self._lose)

    def listen(self, listener: socket.socket, secret: str) -> None:
        """Start threads that admit the other processes of the job, and return.

        Args:
            listener: A socket that listens on the address of rank 0.
            secret: The secret of the job, which a process must prove to know.
        """
        self._exchange.start()
        Admission(listener, secret, self.seat.nodes * self.seat.local_size, self._exchange.add).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def list_missing(self) -> list[Place]:
        """Return the places, (node, local rank), of processes that have not joined, in ascending order."""
        places = [(node, rank) for node in range(self.seat.nodes) for rank in range(self.seat.local_size)]
        with self._condition:
            return [place for place in places if place not in self._members]

    def members_of(self, node: int) -> list[Member]:
        """Return the processes of the node with number `node` that have joined, sorted by local rank.

        The first one is the node's leader, which starts the agent.
        """
        with self._condition:
            return [self._members[place] for place in sorted(self._members) if place[0] == node]

    def address_of(self, node: int) -> str:
        """Return the address of a node: the one from which its leader connected.

        Args:
            node: Number of the node.

        Raises:
            OSError: The node's leader has left the job.
        """
        leader = next(iter(self.members_of(node)), None)
        if leader is None:
            raise ConnectionResetError(f"node {node} has left the job")
        return self.address if leader.channel is None else str(leader.channel.link.socket.getpeername()[0])

    def launch(
        self,
        bundle: Path,
        commands: Mapping[int, Sequence[str]],
        cpus: Mapping[int, list[int]],
        receiver: Receive,
    ) -> None:
        """Tell the first process of each node in `commands` to start an agent, and return at once.

        Nothing is sent for node 0, whose first process is this one.

        Args:
            bundle: The bundle's file, which is sent to the processes.
            commands: Number of a node → the words of its agent's command.
            cpus: Number of a node → the numbers of the processors on which its agent may run.
            receiver: Called from now on, in other threads, with a `Report` of each failure of the job or of an agent,
                and with each line of an agent as bytes. If the job has failed before, it is called at once.

        Raises:
            OSError: The bundle cannot be read.
        """
        line = link.encode({"do": "bundle", "content": base64.b64encode(bundle.read_bytes()).decode()})
        with self._condition:
            self._receiver = receiver
            self._launches += 1
            for node, command in commands.items():
                leader = self._members.get((node, 0))
                if leader is not None and leader.channel is not None:
                    leader.launched = self._launches
                    leader.channel.put_line(line)
                    order = {"launch": self._launches, "command": list(command), "cpus": cpus[node]}
                    leader.channel.put({"do": "launch", **order})
            if self.failure is not None:
                receiver(self.failure)

    def end(self) -> None:
        """Tell all processes that run an agent to end it, and return at once.

        The receiver that `launch` was given is no longer called.
        """
        with self._condition:
            self._receiver = _ignore
            for member in self._members.values():
                if member.launched and member.channel is not None:
                    member.channel.put({"do": "end"})

    def await_end(self, timeout: float) -> None:
        """Wait until all agents that were launched have ended; return after `timeout` seconds in any case."""
        with self._condition:
            self._condition.wait_for(
                lambda: not any(member.launched for member in self._members.values()), timeout
            )

    def dismiss(self) -> None:
        """Tell all other processes of the job to end with the exit code in the attribute `exit_code`.

        The method waits at most five seconds until these messages are sent.
        """
        with self._condition:
            self._is_closed = True
            channels = [member.channel for member in self._members.values() if member.channel is not None]
        for channel in channels:
            channel.put({"do": "dismiss", "code": self.exit_code})
        await_sending(channels, time.monotonic() + _DISMISS)

    def _beat(self) -> None:
        while True:
            time.sleep(tether.INTERVAL)
            with self._condition:
                channels = [member.channel for member in self._members.values() if member.channel is not None]
            for channel in channels:
                channel.put({"do": "beat"})

    def _receive(self, channel: Channel, message: dict[str, Any]) -> bool:
        member = self._member_of(channel)
        event = message.get("event")
        if member is None:
            return event == "hello" and self._admit(channel, message)
        node = member.place[0]
        if event == "signal":
            text = (
                f"The process with {member.name} has received {message.get('name')}: its job is being ended."
            )
            self._report(Report("interrupted", f"{text} Finished repeats are kept.", None))
        elif event == "line" and message.get("launch") == member.launched:
            failure = start_failure(str(message.get("line")).encode(), [node])
            if failure is not None:
                self._receiver(failure)
        elif event == "ended" and message.get("launch") == member.launched:
            with self._condition:
                member.launched = 0
                self._condition.notify_all()
            if message.get("code") != 0:
                text = f"The agent of node {node} ({member.host}) ended with exit code {message.get('code')}."
                self._receiver(Report("lost-node", text, node, str(message.get("errors"))))
        return True

    def _member_of(self, channel: Channel) -> Member | None:
        with self._condition:
            return next((member for member in self._members.values() if member.channel is channel), None)

    def _admit(self, channel: Channel, hello: Mapping[str, Any]) -> bool:
        """Take a process into the crew; False if the message is malformed, or its place is taken or not of this job."""
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            node, local_rank = map(int, hello["seat"])
            if not (0 <= node < self.seat.nodes and 0 <= local_rank < self.seat.local_size):
                return False
            member = Member(
                (node, local_rank),
                str(hello["host"]),
                list(map(int, hello["cpus"])),
                hello["devices"],
                channel,
            )
            if not all(0 <= cpu < _MOST_CPUS for cpu in member.cpus):
                return False
            with self._condition:
                if hello["job"] != self.hello["job"] or member.place in self._members or self._is_closed:
                    return False
                self._members[member.place] = member
            digests = dict(hello["digests"])
            differing = [name for name, value in self.hello["digests"].items() if digests.get(name) != value]
            if differing:
                self._report(
                    Report(
                        "unavailable",
                        f"The process with {member.name} was started with other arguments than rank 0: its cases "
                        f"differ in {', '.join(differing)}. Run the same command in all processes of the job.",
                        node,
                    )
                )
            return True
        return False

    def _lose(self, channel: Channel) -> None:
        member = self._member_of(channel)
        if member is None:
            return
        with self._condition:
            del self._members[member.place]
            member.launched = 0
            self._condition.notify_all()
            if self._is_closed:
                return
        self._report(
            Report(
                "lost-node",
                f"The process with {member.name} has left its job: it was ended, or its node cannot be reached. "
                "Finished repeats are kept.",
                member.place[0],
            )
        )

    def _report(self, report: Report) -> None:
        with self._condition:
            self.failure = self.failure or report
            self._receiver(report)


def merge_cpus(members: Iterable[Member]) -> list[int]:
    """Return the numbers of the processors that any of a node's processes may use, sorted.

    The processes of a node may be bound to different processors.

    Args:
        members: The processes of one node.
    """
    return sorted({cpu for member in members for cpu in member.cpus})


def merge_devices(members: Iterable[Member]) -> str | None:
    """Return a value of `CUDA_VISIBLE_DEVICES` with the devices that any of a node's processes sees.

    The devices are in the order of the processes, each once. The result is None if a process does not have the
    variable, and so sees all devices.

    Args:
        members: The processes of one node.
    """
    values = [member.devices for member in members]
    if any(value is None for value in values):
        return None
    return ",".join(dict.fromkeys(name for value in values for name in str(value).split(",") if name))
