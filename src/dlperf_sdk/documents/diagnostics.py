"""Messages about all mistakes in a file, each with its line, so that they can be corrected at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dlperf_sdk.documents import schema, source_positions
from dlperf_sdk.errors import CampaignError

MAX_LISTED = 10
"""Maximum number of mistakes in a message; the others are counted."""


def list_file_errors(
    path: Path,
    name: str,
    document: Any,
    places: Mapping[source_positions.Place, int],
    explained: Mapping[source_positions.Place, str] = MappingProxyType({}),
) -> list[str]:
    """Return the errors that a schema finds in the content of a file, as `FILE:LINE: …`, sorted by line.

    Args:
        path: The file, for the messages; it is not read.
        name: Name of the schema, one of `schema.NAMES`.
        document: The file's content, as plain data.
        places: Lines of the file's keys, as `source_positions.lines_of` returns them.
        explained: Place of a mistake → a better message than that of the schema.

    Returns:
        One message per error; empty if the document is valid.

    Raises:
        DocumentError: The document states another major version than that of the schema.
    """
    messages = [
        (source_positions.line_of(places, error.place), explained.get(error.place) or str(error))
        for error in schema.list_errors(name, document)
    ]
    return [f"{path}:{line}: {message}" for line, message in sorted(messages)]


@contextmanager
def gather_errors(errors: list[str]) -> Iterator[None]:
    """Return a context manager that suppresses a `CampaignError`, and appends the lines of its message to `errors`.

    So the caller can continue and collect all mistakes of a file. Other exceptions are not suppressed.
    """
    try:
        yield
    except CampaignError as error:
        errors += str(error).splitlines()


def join_errors(errors: Iterable[str]) -> str:
    """Return messages as one text, a line each, without duplicates, in the order in which they first occur.

    The text has at most the first `MAX_LISTED` (10) messages. If there are more, one further line says so. It has
    their number if there are fewer than 100 messages; otherwise the schema may not have reported all errors. The text
    is empty without messages.
    """
    lines = list(dict.fromkeys(errors))
    if len(lines) <= MAX_LISTED:
        return "\n".join(lines)
    number = f"{len(lines) - MAX_LISTED} " if len(lines) < schema.MOST_ERRORS else ""
    return "\n".join([*lines[:MAX_LISTED], f"And {number}more."])
