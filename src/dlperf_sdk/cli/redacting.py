"""`--redact`: what is handed on without the names of hosts and people, results and what is said of files here."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlperf_sdk.cli.lookup import Found
    from dlperf_sdk.results.result import Result


def without(folders: Iterable[Path]) -> Callable[[str], str]:
    """Makes of a sentence one without these folders in front of paths, and without this machine's and user's names."""
    from dlperf_sdk.results.redact import redacted_text

    named = {each for folder in folders for each in (folder, folder.absolute()) if each.name}
    longest_first = sorted((re.escape(f"{each}/") for each in named), key=len, reverse=True)
    leading = re.compile(rf"(?<![\w./-])(?:{'|'.join(longest_first)})")

    def tell(text: str) -> str:
        return redacted_text(leading.sub("", text) if named else text, (platform.node(),), _users())

    return tell


def of_this_machine(result: Result) -> Result:
    """A result that was measured from here, without the names of this machine and this user either."""
    from dlperf_sdk.results.redact import redacted

    return redacted(result, (platform.node(),), _users())


def hand_on(found: Found, named: Iterable[str], output: Path) -> Callable[[str], str]:
    """Redact what was found by `named`, paths or names in `output`; the value does so with a sentence about it.

    It leaves out the folders that lead there: others' names may be among them.
    """
    from dlperf_sdk.results.redact import redacted

    tell = without({output, *(Path(name).parent for name in named)})
    found.results = [(redacted(result), None) for result, _ in found.results]
    found.errors = [tell(error) for error in found.errors]
    return tell


def _users() -> tuple[str, ...]:
    with suppress(KeyError, OSError):  # a number without a name has nothing to leave out
        return (getpass.getuser(),)
    return ()
