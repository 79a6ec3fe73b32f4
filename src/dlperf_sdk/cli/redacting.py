"""`--redact`: what is handed on without the names of hosts and people, results and what is said of files here."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlperf_sdk.cli.finding import Found
    from dlperf_sdk.results.result import Result


def of_this_machine(result: Result) -> Result:
    """A result that was measured from here, without the names of this machine and this user either."""
    from dlperf_sdk.results.redact import redacted

    return redacted(result, (platform.node(),), _users())


def hand_on(found: Found, named: Iterable[str]) -> Callable[[str], str]:
    """Redact what was found by the paths `named`; the value does so with a sentence about their files.

    It leaves out the folders that lead to these paths: others' names may be among them.
    """
    from dlperf_sdk.results.redact import redacted, redacted_text

    above = {each for name in named for each in (Path(name).parent, Path(name).absolute().parent)}
    folders = sorted((f"{each}/" for each in above if each.name), key=len, reverse=True)

    def tell(text: str) -> str:
        for folder in folders:
            text = text.replace(folder, "")
        return redacted_text(text, (platform.node(),), _users())

    found.results = [(redacted(result), None) for result, _ in found.results]
    found.errors = [tell(error) for error in found.errors]
    return tell


def _users() -> tuple[str, ...]:
    with suppress(KeyError, OSError):  # a number without a name has nothing to leave out
        return (getpass.getuser(),)
    return ()
