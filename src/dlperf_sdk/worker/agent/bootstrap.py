"""The program that a launcher runs on a node: `python3 -I -S -c SOURCE BYTES agent …`, the bundle on standard input.

So the secret is on no command line, and no shared file system is needed. What follows the bundle on standard input
is the agent's tether. A node that cannot take the bundle reports it in the form of the stream's last event.
"""

import fcntl
import io
import json
import os
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:  # this source travels on a command line, and typing costs milliseconds
    from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _read_bundle(missing: int) -> "Iterator[bytes]":
    while missing:
        part = os.read(0, min(missing, 1 << 20))
        if not part:
            raise ConnectionError("standard input ended %d bytes before the bundle did" % missing)
        missing -= len(part)
        yield part


def _lock(path: str) -> None:
    """Hold a lock, as `scratch.py` does, until this process ends: a folder without its owner is removed."""
    fcntl.flock(os.open(path + ".new", os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    os.rename(path + ".new", path)


def _node(arguments: "list[str]") -> "int | None":
    node = arguments[arguments.index("--node") + 1] if "--node" in arguments else ""
    node = os.environ.get(node[1:], "") if node.startswith("$") else node
    return int(node) if node.isascii() and node.isdigit() else None


def _report_failure(arguments: "list[str]", error: Exception) -> int:
    node = _node(arguments)
    remedy = "Its TMPDIR must be a folder that is writable and has room"
    if isinstance(error, ConnectionError):
        remedy = "The transfer was cut off: check the connection to this host, and start the run again"
    message = "Node %s (%s) cannot take the bundle: %s. %s." % (node, socket.gethostname(), error, remedy)
    failure = {"kind": "unavailable", "message": message, "phase": "start", "node": node, "rank": None}
    print(json.dumps({"event": "ended", "status": "unavailable", "failure": failure}))
    return 1


def main(arguments: "list[str]") -> int:
    """Read the bundle from standard input, unpack it into a temporary folder, and run the agent in it.

    This sets the umask, `sys.argv`, and handlers of SIGTERM and SIGHUP that raise SystemExit. The folder is removed
    at the end.

    Args:
        arguments: The bundle's size in bytes, then the arguments of the bundle's command line.

    Returns:
        The exit code: 1 if the bundle cannot be unpacked, after an event `ended` was printed; 0 if the agent returns
        without an exit code.

    Raises:
        SystemExit: The agent exits with its own exit code, or a SIGTERM or SIGHUP arrives.
    """
    os.umask(0o077)
    signals = []

    def exit_once(*received: object) -> None:
        signals.append(received)
        if len(signals) == 1:  # another one must not interrupt the removal of the folder
            sys.exit(1)

    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until the folder exists, so that `finally` removes it
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, exit_once)
    folder = None
    try:
        try:
            # Without `dir`, `tempfile` would take another folder if this one is full, such as the working directory.
            folder = tempfile.mkdtemp(prefix="dlperf-", dir=os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            _lock(os.path.join(folder, "lock"))
            path = os.path.join(folder, "bundle")
            # Unpacked, for agent and workers: modules in an archive would be compiled in every process.
            with zipfile.ZipFile(io.BytesIO(b"".join(_read_bundle(int(arguments[0]))))) as archive:
                archive.extractall(path)
        except Exception as error:  # `zipfile` raises a dozen types for a damaged archive
            return _report_failure(arguments, error)
        sys.argv = [path] + arguments[1:] + ["--scratch", folder]
        runpy.run_path(path, run_name="__main__")
        return 0
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
