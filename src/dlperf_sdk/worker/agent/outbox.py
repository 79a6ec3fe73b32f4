"""Messages to one node, sent by a thread of their own: a slow receiver delays no other node, and no clock."""

import queue
import threading
import time
from typing import Any, Dict, Optional

from dlperf_sdk.worker.agent.link import Link, encode


class Outbox:
    """The messages that wait to be sent over a link, in their order."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def put(self, message: Dict[str, Any]) -> None:
        """Send a message after those before it; return at once. Raises ValueError if JSON does not have a value."""
        self.put_line(encode(message))

    def put_line(self, line: bytes) -> None:
        """Send a message that is encoded already, as `put` does."""
        self._waiting.put(line)

    def is_empty(self) -> bool:
        """Return True if no message waits."""
        return self._waiting.empty()

    def close(self, deadline: float) -> None:
        """Wait until all messages are sent, or until a time on the monotonic clock."""
        self._waiting.put(None)
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _send(self) -> None:
        while True:
            line = self._waiting.get()
            if line is None or not self._link.send_line(line):
                return
