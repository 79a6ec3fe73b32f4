"""`--redact`: results and messages about files, without the names of hosts and users."""

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
    """Return a function that takes a message, and returns it redacted.

    It removes the given folders from the beginning of paths. It replaces the names of this machine and this user,
    names of home directories, and credentials in URLs.

    Args:
        folders: The folders, absolute or relative.
    """
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
    """Return a copy of a result without names of hosts and users, including this machine and the current user.

    Raises:
        DocumentError: The result's records cannot be read.
    """
    from dlperf_sdk.results.redact import redact_result

    return redact_result(result, (platform.node(),), _users())


def make_local_redactor(results: Iterable[Result]) -> Callable[[str], str]:
    """Return a function that removes names of hosts and users from texts about results.

    These are the names in the results, and those of this machine and the current user.

    Args:
        results: The results. Their records are not read.
    """
    from dlperf_sdk.results.redact import make_redactor_of

    return make_redactor_of(results, (platform.node(),), _users())


def redact_matches(matches: Matches, selection: Iterable[str], output: Path) -> Callable[[str], str]:
    """Redact the results and error messages of a lookup in place; return a function that redacts further messages.

    Nothing is written to disk. The directory of each result in `matches` becomes None. The folders of the store and of
    the looked-up paths are removed from the messages.

    Args:
        matches: The lookup, which is changed.
        selection: The names and paths that were looked up.
        output: Directory of the store in which the names were looked up.

    Returns:
        A function that takes a message and returns it redacted.

    Raises:
        DocumentError: A result's records cannot be read.
    """
    from dlperf_sdk.results.redact import redact_result

    redact = make_redactor({output, *(Path(name).parent for name in selection)})
    matches.results = [(redact_result(result), None) for result, _ in matches.results]
    matches.errors = [redact(error) for error in matches.errors]
    return redact


def _users() -> tuple[str, ...]:
    with suppress(KeyError, OSError):  # a user id without a name
        return (getpass.getuser(),)
    return ()
