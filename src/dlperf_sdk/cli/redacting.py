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
    from dlperf_sdk.cli.lookup import Matches
    from dlperf_sdk.results.result import Result


def make_redactor(folders: Iterable[Path]) -> Callable[[str], str]:
    """Return a function that removes these folders, and this machine's and user's names, from a sentence."""
    from dlperf_sdk.results.redact import redact_text

    prefixes = {
        folder_form for folder in folders for folder_form in (folder, folder.absolute()) if folder_form.name
    }
    longest_first = sorted((re.escape(f"{folder_form}/") for folder_form in prefixes), key=len, reverse=True)
    leading = re.compile(rf"(?<![\w./-])(?:{'|'.join(longest_first)})")

    def redact(text: str) -> str:
        return redact_text(leading.sub("", text) if prefixes else text, (platform.node(),), _users())

    return redact


def redact_local(result: Result) -> Result:
    """Redact the names of this machine and this user from a result that was measured from here."""
    from dlperf_sdk.results.redact import redact_result

    return redact_result(result, (platform.node(),), _users())


def write_redacted(matches: Matches, selection: Iterable[str], output: Path) -> Callable[[str], str]:
    """Redact the results and errors that were found, in place; return a function that redacts a sentence about them.

    The folders that lead to them are left out: others' names may be among them.

    Args:
        matches: The results and errors.
        selection: The paths or names by which they were found.
        output: The directory of runs.
    """
    from dlperf_sdk.results.redact import redact_result

    redact = make_redactor({output, *(Path(name).parent for name in selection)})
    matches.results = [(redact_result(result), None) for result, _ in matches.results]
    matches.errors = [redact(error) for error in matches.errors]
    return redact


def _users() -> tuple[str, ...]:
    with suppress(KeyError, OSError):  # a number without a name has nothing to leave out
        return (getpass.getuser(),)
    return ()
