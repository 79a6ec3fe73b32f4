"""The tests that an interrupted or failed check has passed, so that `dlperf check --resume` need not repeat them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from dlperf_sdk import folders, private_files


class PassedChecks:
    """The names of the tests that one plugin has passed, in a file of the user's cache.

    The file also holds the arguments of the check, because it is not used for a check with other arguments.

    Args:
        group: The plugin's group.
        name: The plugin's name.
        arguments: Arguments of the check; values that JSON lacks are represented by their `str`.

    Raises:
        Unavailable: The cache is in the user's home directory, and the system knows no such directory.
    """

    def __init__(self, group: str, name: str, arguments: dict[str, Any]) -> None:
        self._path = folders.cache() / "checks" / f"{group}-{name}.json"
        self._arguments = json.loads(json.dumps(arguments, default=str))
        self.names: list[str] = []
        """Names of the passed tests in the order of their last record; empty until `read` or `record` is called."""

    def read(self) -> bool:
        """Set `names` to the names of the tests that the plugin passed in its last check, as the file has them.

        Returns:
            True if `names` was set; False, with `names` unchanged, if the file is missing or unreadable, or if a check
            with other arguments wrote it.
        """
        try:
            document = json.loads(self._path.read_bytes())
            if document["arguments"] != self._arguments:
                return False
            self.names = [str(name) for name in document["passed"]]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def record(self, name: str, *, passed: bool) -> None:
        """Add a test to `names` if it passed, else remove it, and write the file.

        An error of the file system is ignored. Its only consequence is that the next check repeats the test.

        Args:
            name: Name of the test, with its parameter in brackets.
            passed: True if the test passed.
        """
        self.names = [other for other in self.names if other != name] + [name] * passed
        document = {"arguments": self._arguments, "passed": self.names}
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write(self._path, json.dumps(document).encode())
