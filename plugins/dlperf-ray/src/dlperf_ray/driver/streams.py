"""The driver's standard input and output."""

import contextlib
import json
import os
import threading

from actor import PART


class Input:
    """Standard input of the driver, read by a thread that the constructor starts.

    If the input ends while `is_connected` is False, the thread ends this process with exit code 1.

    Attributes:
        data: The bytes read so far, a bytearray.
        is_closed: `threading.Event` that is set when the input has ended.
        is_connected: True if Ray is connected; set by the caller.
    """

    def __init__(self):
        self.data, self.is_closed, self.is_connected = bytearray(), threading.Event(), False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while part := os.read(0, PART):
            self.data += part
        self.is_closed.set()
        if not self.is_connected:  # Ray cannot be interrupted while it connects; nothing has been started
            os._exit(1)


class Output:
    """The launcher's stream of lines, which is this process's standard output.

    The constructor redirects all other output of this process to standard error.
    """

    def __init__(self):
        self._stream = os.fdopen(os.dup(1), "wb", 0)
        os.dup2(2, 1)
        self._rest = {}

    def add(self, node, data):
        """Add bytes to the output of a node's agent; if the node is 0, write each line that is now complete.

        Of the lines of other agents, only the event `ended` is used: its message is written as a failure of that node,
        of the kind `unavailable`. `node` is the node's number, and `data` the bytes, which may end within a line.
        """
        *lines, self._rest[node] = (self._rest.get(node, b"") + data).split(b"\n")
        for line in lines:
            if node == 0:
                self._write(line)
            else:
                self._report(node, line)

    def _report(self, node, line):
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            event = json.loads(line)
            if event["event"] == "ended":
                self.fail("unavailable", str(event["failure"]["message"]), node)

    def event(self, **fields):
        """Write one event, a JSON object with `fields`, as one line; the fields must be JSON values."""
        self._write(json.dumps(fields).encode())

    def fail(self, kind, message, node=None):
        """Write the event `ended` with a failure: the last event of a run whose agents could not start, or have died.

        Args:
            kind: The kind of failure, such as `unavailable`.
            message: Text that says what happened, and what to do next.
            node: Number of the node on which it happened; None if unknown.
        """
        failure = {"kind": kind, "message": message, "phase": None, "node": node, "rank": None}
        self.event(event="ended", status=kind, failure=failure)

    def _write(self, line):
        line += b"\n"
        while line:
            line = line[self._stream.write(line) :]
