"""The tests that an interrupted or failed check has passed, so that `dlperf check --resume` need not repeat them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from dlperf_sdk import folders
from dlperf_sdk.data import cache


class PassedChecks:
    """Names of passed tests of one plugin, under the same arguments; in the user's cache."""

    def __init__(self, group: str, name: str, arguments: dict[str, Any]) -> None:
        self._path = folders.cache() / "checks" / f"{group}-{name}.json"
        self._arguments = json.loads(json.dumps(arguments, default=str))
        self.names: list[str] = []

    def read(self) -> bool:
        """Read the names that the last check stored; return False if it was not of this plugin and these arguments."""
        try:
            document = json.loads(self._path.read_bytes())
            if document["arguments"] != self._arguments:
                return False
            self.names = [str(name) for name in document["passed"]]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def record(self, name: str, *, passed: bool) -> None:
        """Record whether the test of this name passed. A cache that cannot be written only costs the repetition."""
        self.names = [other for other in self.names if other != name] + [name] * passed
        document = {"arguments": self._arguments, "passed": self.names}
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            cache.write(self._path, json.dumps(document).encode())
