"""The actor of one node. Ray sends the class to the nodes by value, so it refers to nothing else of the driver."""

import contextlib
import os
import subprocess
import tempfile

PART = 1 << 16
"""Bytes per call; Ray sends arguments of this size without storing them."""


class Agent:
    """The actor of one node: it starts the node's agent, and forwards the agent's input and output."""

    def describe(self):
        """Return the IP address of the node as text, as Ray knows it."""
        import ray

        return ray.util.get_node_ip_address()

    def start(self, command, variables):
        """Start the agent; call this before the methods `feed`, `read` and `close`.

        The agent inherits the variables of this process, except those whose names begin with `RAY_`.

        Args:
            command: List of the program and the arguments of the agent.
            variables: Dict of environment variables (name → text) to add to those that the agent inherits.

        Returns:
            None, or a text with the reason why the agent could not be started.
        """
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open until the actor ends
        # Ray starts its workers with a lower priority. Only root may raise it.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**environment, **variables},
                start_new_session=True,
            )
        except OSError as error:
            return error.strerror or str(error)
        return None

    def feed(self, data):
        """Write `data`, bytes, to the agent's standard input. Do nothing if the agent has ended."""
        with contextlib.suppress(OSError, ValueError):  # the agent has ended: `read` reports that
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def read(self):
        """Wait until the agent prints something or ends.

        Returns:
            A tuple (output, exit code, errors). While the agent runs, its items are the bytes that the agent printed,
            at most 64 KiB (`PART`); None; and an empty text. After the end of the agent, they are empty bytes; the exit
            code, negative for a signal; and the last 4000 bytes of the agent's standard error as text.
        """
        data = os.read(self._process.stdout.fileno(), PART)
        if data:
            return data, None, ""
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
        return b"", code, self._errors.read().decode("utf-8", "replace").strip()

    def close(self):
        """Close the agent's standard input, which ends the agent; ignore an OSError. Call this once."""
        with contextlib.suppress(OSError):
            os.close(self._process.stdin.detach().detach().fileno())
