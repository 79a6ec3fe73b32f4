"""Connections to several agents in one thread: a slow node delays no other node and no clock."""

import collections
import selectors
import socket
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional

from dlperf_sdk.worker.agent import link

_CHUNK = 256 * 1024
"""Bytes that are read from one node before the others have their turn."""
_LOOK = 1.0
"""Seconds after which an exchange that waits has looked at all nodes again."""
_PAUSE = 0.005
"""Seconds between two looks at nodes that have sent something which may not be read yet."""


class Channel:
    """One node's connection: the incomplete line that was received last, and the messages that wait to be sent."""

    def __init__(self, joined: link.Link, exchange: "Exchange") -> None:
        self.node: Optional[int] = None
        """Number of the node at the other end; None before its first message, or if that was not from a node of
        this case."""
        self.link = joined
        self.pieces: List[bytes] = []
        """Parts of the next line that have been received."""
        self.length = 0
        """Number of bytes in `pieces`."""
        self.waiting: Deque[memoryview] = collections.deque()
        """Lines to be sent, in order; appended to by any thread, and sent by the exchange's."""
        self.is_open = True
        self.is_served = False
        """True once the exchange's thread sends and receives on the link."""
        self._exchange = exchange

    def put(self, message: Dict[str, Any]) -> None:
        """Enqueue a message after those before it; return at once.

        Raises:
            ValueError: The message contains a number that is not finite.
        """
        self.put_line(link.encode(message))

    def put_line(self, line: bytes) -> None:
        """Enqueue a line that `link.encode` returned, after the messages before it; return at once.

        Nothing is sent if the other side is gone.
        """
        self.waiting.append(memoryview(line))
        self._exchange.request_sending(self)

    def is_idle(self) -> bool:
        """Return True if no message waits to be sent, or the other side is gone."""
        return not self.waiting or not self.is_open


class Exchange(threading.Thread):
    """The thread that sends and receives on all channels.

    Args:
        receive: Called in this thread with a channel and each of its messages; if it returns False, the channel is
            closed.
        on_lost: Called in this thread with a channel that has been closed, by whichever side.
        is_full: While it returns True, nothing is read: what has arrived stays with the system, and the nodes wait.
    """

    def __init__(
        self,
        receive: Callable[[Channel, Dict[str, Any]], bool],
        on_lost: Callable[[Channel], None],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(daemon=True)
        self._receive, self._on_lost, self._is_full = receive, on_lost, is_full
        self.complete_until = 0.0
        """A time on the monotonic clock: every message that had arrived by then has been passed on."""
        self._is_woken = False
        self._requests: Deque[Channel] = collections.deque()
        """Channels that are new, or have messages to send, in order."""

    def start(self) -> None:
        """Start the thread, which runs for as long as the process."""
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        super().start()

    def add(self, joined: link.Link) -> Channel:
        """Send and receive on a link from now on; return its channel. Callable from any thread."""
        channel = Channel(joined, self)
        self.request_sending(channel)
        return channel

    def request_sending(self, channel: Channel) -> None:
        """Ask the exchange's thread to send what waits in a channel; return at once. Any thread may call it."""
        self._requests.append(channel)
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._waker.send(b"\0")

    def run(self) -> None:
        """Send and receive the messages of all links, without end, in the thread that `start` starts."""
        while True:
            looked, has_unread = time.monotonic(), False
            for key, events in self._selector.select(_LOOK):
                channel = key.data
                if channel is None:
                    self._take_requests()
                    continue
                if events & selectors.EVENT_READ:
                    if self._is_full():
                        has_unread = True
                    else:
                        self._read(channel)
                if events & selectors.EVENT_WRITE and channel.is_open:
                    self._send(channel)
            if has_unread:
                time.sleep(_PAUSE)
            else:
                self.complete_until = looked

    def _take_requests(self) -> None:
        self._wakeup.recv(64)
        self._is_woken = False  # before the queues are read: a later request wakes the thread again
        while self._requests:
            channel = self._requests.popleft()
            if not channel.is_served:
                channel.is_served = True
                channel.link.socket.setblocking(False)
                self._selector.register(channel.link.socket, selectors.EVENT_READ, channel)
            if channel.waiting:
                self._watch(channel, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _read(self, channel: Channel) -> None:
        """Pass on the messages that have arrived. Close the channel at its end, or at a line that is not a message."""
        try:
            data = channel.link.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(channel)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            message = link.parse(b"".join([*channel.pieces, line, b"\n"]))
            channel.pieces, channel.length = [], 0
            if message is None or not self._receive(channel, message):
                self._close(channel)
                return
        if rest:
            channel.pieces.append(rest)
            channel.length += len(rest)
            if channel.length >= link.LONGEST_LINE:
                self._close(channel)

    def _send(self, channel: Channel) -> None:
        """Send the waiting messages, as far as the connection accepts them now."""
        try:
            while channel.waiting:
                line = channel.waiting[0]
                sent = channel.link.socket.send(line)
                if sent == len(line):
                    channel.waiting.popleft()
                else:
                    channel.waiting[0] = line[sent:]
        except BlockingIOError:
            return
        except OSError:
            self._close(channel)
            return
        self._watch(channel, selectors.EVENT_READ)

    def _watch(self, channel: Channel, events: int) -> None:
        if channel.is_open:
            self._selector.modify(channel.link.socket, events, channel)

    def _close(self, channel: Channel) -> None:
        if channel.is_open:
            channel.is_open = False
            self._selector.unregister(channel.link.socket)
            channel.link.close()
            self._on_lost(channel)


def await_sending(channels: List[Channel], deadline: float) -> None:
    """Wait until no message waits in any of the channels, but at most until `deadline`.

    Args:
        channels: The channels; closed ones are not waited for.
        deadline: A time in seconds of the monotonic clock.
    """
    while not all(channel.is_idle() for channel in channels) and time.monotonic() < deadline:
        time.sleep(0.002)
