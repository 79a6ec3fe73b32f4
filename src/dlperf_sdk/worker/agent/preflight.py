"""Checks before the clock starts: can every node run the case, and do all nodes have the same environment?"""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from dlperf_sdk.worker.agent import rendezvous

_ROOM = 1024 * 1024
"""Bytes that must fit where the workers write."""
_PROBE_PATIENCE = 60.0
_REACH = 5.0
"""Seconds in which one node must reach another."""
_RETRY = 0.02
"""Seconds before a doorbell accepts again after an error."""
_ALL_PAIRS = 64
"""Nodes of which each tries all others."""
SKEW = 1.0
"""Seconds that a node's clock may differ before this is noted. No window is timed by two nodes' clocks."""

# By the names of their folders: reading what is in them takes ten times as long, and every node does it.
_VERSIONS = """
import json, os, re, sys
found = {}
for folder in reversed(sys.path):
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        stem, kind = os.path.splitext(name)
        if kind in (".dist-info", ".egg-info") and "-" in stem:
            project, version = stem.split("-")[:2]
            found[re.sub("[-_.]+", "-", project).lower()] = version
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "packages": found}))
"""


def check_node(
    command: Sequence[str], scratch: str, programs: Sequence[str], path: Optional[str]
) -> Optional[Dict[str, str]]:
    """Check that this node has the interpreter and the programs, and that 1 MiB can be written to `scratch`.

    The file `room` is written to `scratch` and removed.

    Args:
        command: The command of the workers' interpreter.
        scratch: The directory for this node's temporary files.
        programs: The programs that the case needs in addition to the environment.
        path: The workers' PATH, on which the interpreter and the programs are looked for; None or empty for
            `os.defpath`.

    Returns:
        None if the node can run the case; otherwise `kind` and `message` of the failure. The kind is `environment` if
        the interpreter or a program is missing, `unavailable` if `scratch` cannot be written to. The message continues
        a sentence that starts with the node's name.
    """
    path = path or os.defpath
    if shutil.which(command[0], path=path) is None:
        message = (
            "lacks %s, the environment's interpreter: make the environment at the same path on every node, or name "
            "one that is there with --python"
        )
        return {"kind": "environment", "message": message % command[0]}
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        message = "lacks %s, which the case needs beside its environment: install it there, or add its folder to PATH"
        return {"kind": "environment", "message": message % " and ".join(missing)}
    try:
        with open(os.path.join(scratch, "room"), "wb") as file:
            file.write(bytes(_ROOM))
        os.remove(file.name)
    except OSError as error:
        return {"kind": "unavailable", "message": "cannot write to %s: %s" % (scratch, error.strerror)}
    return None


def versions(command: Sequence[str], variables: Dict[str, str]) -> Dict[str, Any]:
    """Return versions of the environment on this node, to compare with those of other nodes.

    Args:
        command: The command of the interpreter, which is run.
        variables: All environment variables of the interpreter's process.

    Returns:
        `python`, its version, and `packages`, the version of each distribution by name. Empty if the interpreter
        fails or takes longer than a minute: the start of the workers then shows why.
    """
    try:
        output = subprocess.run(
            list(command) + ["-I", "-c", _VERSIONS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            env=variables,
            timeout=_PROBE_PATIENCE,
        ).stdout
        facts = json.loads(output.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return facts if isinstance(facts, dict) else {}


def difference(nodes: Sequence[Tuple[str, Dict[str, Any]]]) -> Optional[str]:
    """Return the first difference between the environment of node 0 and that of another node.

    Args:
        nodes: A pair for each node, in the order of the nodes: its name, and what `versions` returned on it. At least
            node 0 has one. Nodes without versions are not compared.

    Returns:
        A clause without a full stop that names both nodes and their versions; None if no environment differs.
    """
    first, expected = nodes[0]
    for name, node_versions in nodes[1:]:
        if not node_versions or not expected or node_versions == expected:
            continue
        if node_versions.get("python") != expected.get("python"):
            return "%s has Python %s, and %s has %s" % (
                name,
                node_versions.get("python"),
                first,
                expected.get("python"),
            )
        packages, expected_packages = node_versions.get("packages", {}), expected.get("packages", {})
        for package in sorted(set(packages) | set(expected_packages)):
            if packages.get(package) != expected_packages.get(package):
                values = (
                    name,
                    package,
                    packages.get(package, "none"),
                    first,
                    expected_packages.get(package, "none"),
                )
                return "%s has %s %s, and %s has %s" % values
    return None


class Doorbell:
    """A listener to which other nodes connect, to test that they can reach this node.

    A thread closes each connection at once. The attribute `port` is the port on which it listens.

    Args:
        address: The address to listen on.
        candidates: The ports to try, in order; empty for any free port.

    Raises:
        OSError: No port is free.
    """

    def __init__(self, address: str, candidates: Sequence[int] = ()) -> None:
        """Listen, and answer in a thread."""
        self._listener = rendezvous.listen(address, candidates or [0])
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while self._listener.fileno() >= 0:
            try:
                self._listener.accept()[0].close()
            except OSError:
                time.sleep(
                    _RETRY
                )  # no descriptor was left, the peer was gone already, or the listener is being closed

    def close(self) -> None:
        """Stop listening."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._listener.close()


def select_doorbells(node: int, doorbells: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Return the doorbells to which a node connects.

    If there are at most 64 doorbells, these are all of them, the node's own included. Otherwise they are the doorbells
    1, 2, 4, … places after its own, so that of n nodes each tries about log2(n), and is tried by as many.

    Args:
        node: The node's number.
        doorbells: `[node, address, port]` of each node.

    Returns:
        Entries of `doorbells`; empty if it is empty.
    """
    if len(doorbells) <= _ALL_PAIRS:
        return doorbells
    position = next((place for place, doorbell in enumerate(doorbells) if doorbell[0] == node), node)
    return [
        doorbells[(position + (1 << power)) % len(doorbells)]
        for power in range((len(doorbells) - 1).bit_length())
    ]


def unreachable(doorbells: Sequence[Sequence[Any]]) -> List[int]:
    """Return the numbers of the nodes that cannot be connected to, each tried for up to five seconds.

    They have the order of `doorbells`; the list is empty if all can be reached.

    Args:
        doorbells: `[node, address, port]` of each node to try.
    """
    unanswered = []
    for node, address, port in doorbells:
        try:
            socket.create_connection((address, port), _REACH).close()
        except OSError:
            unanswered.append(node)
    return unanswered


def clock_offset(reported: float) -> Optional[float]:
    """Return the seconds by which a node's clock is ahead of this one's (negative: behind).

    Args:
        reported: The node's time, in seconds since the epoch, as a message that has just arrived has it.

    Returns:
        The offset; None if the clocks differ by at most `SKEW` (1) seconds.
    """
    offset = reported - time.time()
    return offset if abs(offset) > SKEW else None
