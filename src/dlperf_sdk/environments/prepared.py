"""The result of preparing an environment."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from attrs import frozen

MANAGED, GIVEN, RUNNING, CONTAINER = "managed", "given", "running", "container"


@frozen
class PreparedEnvironment:
    """An environment that satisfies its plugin, and in which a worker can be started."""

    kind: str
    """`managed`, `given` (an interpreter that the user names), `running` (the controller's) or `container`."""
    framework: str
    """The framework."""
    device: str
    """Kind of the devices."""
    python: str
    """The version of Python, such as `3.11.7`."""
    lock: str
    """Exact versions of everything installed, in requirements format, sorted; without addresses and folders."""
    command: tuple[str, ...]
    """The command that starts a Python in it: program and arguments. For a container, without the container's
    prefix."""
    key: str
    """12 hex digits: for a managed environment, a hash of what it was made from; for others, of what is installed."""
    path: Path
    """The folder of a managed environment; for others, the interpreter's prefix."""


def key_of(framework: str, device: str, minor: str, *contents: str) -> str:
    """Return a hash of all arguments, 12 hex digits.

    Args:
        framework: The framework's name.
        device: The kind of device.
        minor: The minor version of Python, such as `3.11`.
        contents: Further texts, in order, such as the requirements or the lock.
    """
    text = json.dumps([framework, device, minor, *contents])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
