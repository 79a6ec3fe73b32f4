"""Read the lock of a plugin: a requirements file, as pip and uv read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlperf_sdk.errors import PluginError
from dlperf_sdk.interfaces.framework import EnvironmentSpec

_COMMENT = re.compile(r"(^|\s)#.*")
_OPTION = re.compile(r"(^|\s)-.*")


def read_lock(framework: str, spec: EnvironmentSpec) -> str | None:
    """Return the text of a plugin's lock; None if it has none.

    Args:
        framework: The framework's name, for messages.
        spec: The plugin's specification of its environment, whose `lock` is the path of the file.

    Raises:
        PluginError: The file cannot be read, or is not UTF-8.
    """
    try:
        return None if spec.lock is None else spec.lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"The lock file that {framework}'s plugin names cannot be read: {error}") from error


def join_lines(lock_text: str) -> tuple[str, ...]:
    """Return the entries of a lock, each as one line with its options, such as `--hash`.

    Lines that end in a backslash are joined with the next one. Comments and empty lines are left out.

    Args:
        lock_text: The text of a requirements file.
    """
    return tuple(filter(None, (_COMMENT.sub("", line).strip() for line in _logical_lines(lock_text))))


def list_requirements(lock_text: str) -> tuple[str, ...]:
    """Return the requirements in a lock, such as `numpy==1.26.4`, without options such as `--hash`.

    Their syntax is not checked.

    Args:
        lock_text: The text of a requirements file.
    """
    return tuple(filter(None, (_OPTION.sub("", entry).strip() for entry in join_lines(lock_text))))


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines, each joined with the next one if it ends in a backslash. A comment ends a joined line."""
    joined = ""
    for line in text.splitlines():
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            joined += line[:-1]
        else:
            yield joined + (f" {line}" if joined else line)
            joined = ""
    yield joined
