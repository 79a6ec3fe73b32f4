"""Flags and arguments that several commands have, and that are not made from `RunSpec` (`dlperf_sdk.cli.flags`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

INTEGER = re.compile(r"[+-]?[0-9]{1,400}")


def switch(help: str, **details: Any) -> Parameter:
    """Return the parameter of a flag without a value, which is off if it is not given.

    Args:
        help: The flag's help text.
        details: Further arguments of cyclopts' `Parameter`.
    """
    return Parameter(negative=(), show_default=False, help=help, **details)


ALLOW = Annotated[
    tuple[str, ...],
    Parameter(
        metavar="NAME",
        negative=(),
        show_default=False,
        help="Accept a setting from the file that affects executed code: python, container, lock, a variable, an "
        "option of a launcher. May be repeated.",
    ),
]
"""Flag of the commands that execute a document from the disk."""


RUNS = Annotated[
    str,
    Parameter(
        help="Names of runs in DIR, or paths of result.json files, runs, stores or campaigns. Default: all runs in DIR."
    ),
]
LOOKUP_STORE = Annotated[
    Path, Parameter(metavar="DIR", help="Directory in which names of runs are looked up.")
]
"""Arguments and flag of the commands that read results; see `lookup.find`."""
OUTPUT_FILE = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        metavar="FILE",
        show_default=False,
        help="File to write instead of standard output; its permissions follow your umask.",
    ),
]
REDACT = Annotated[bool, switch("Leave out the names of hosts and users.")]
"""Flags of the commands that write results in another form."""
STORE = Annotated[
    str,
    Parameter(
        metavar="DIR|URL",
        help="Directory with the runs, or URL of a database with uploaded results: postgresql://HOST/DATABASE.",
    ),
]
"""Flag of the commands that query a store."""
QUIET = Annotated[bool, switch("No progress: only the table.", name=["--quiet", "-q"])]
UPLOAD = Annotated[
    str | None,
    Parameter(
        metavar="URL",
        show_default=False,
        help="Database that results are uploaded to as well: postgresql://HOST/DATABASE. A failed upload is a warning; "
        "the next run or `dlperf upload` sends the result.",
    ),
]
"""Flags of the commands that measure."""


def convert_whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Return the whole number that is the value of a flag. It is a converter for cyclopts, which would round 2.5 to 2.

    `tokens` are the words that cyclopts has parsed for the flag; the first one has the value. The other argument, the
    type of the flag, is not used.

    Raises:
        ValueError: The value is not digits with an optional sign.
    """
    if not INTEGER.fullmatch(tokens[0].value):
        raise ValueError(f"{tokens[0].value!r} is not a whole number")
    return int(tokens[0].value)
