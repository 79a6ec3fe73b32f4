"""The value that preparing an environment leads to."""

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
    """`managed`, `given` (somebody's own interpreter), `running` (the controller's) or `container`."""
    framework: str
    device: str
    python: str
    """The version of Python: `3.11.7`."""
    lock: str
    """Exact versions of everything installed, in requirements format, sorted; no addresses, no folders."""
    command: tuple[str, ...]
    """Command that starts a Python in it."""
    key: str
    """For a managed one, the hash of what it was made from; else that of what is installed."""
    path: Path
    """Its folder: a managed one's own, else the interpreter's prefix."""


def key_of(framework: str, device: str, minor: str, *contents: str) -> str:
    """Return a hash of framework, kind of device, minor version of Python, and contents: 12 hex digits."""
    text = json.dumps([framework, device, minor, *contents])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
