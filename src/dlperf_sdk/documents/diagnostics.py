"""All that is wrong with a file that somebody wrote, each mistake with its line: they are mended in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlperf_sdk.documents import schema, source_positions
from dlperf_sdk.errors import CampaignError

MAX_LISTED = 10
"""Mistakes that are told; of the others, how many there are."""


def list_file_errors(
    path: Path, name: str, document: Any, places: Mapping[source_positions.Place, int]
) -> list[str]:
    """Return the errors that the schema `name` finds in the content of a file, sorted by line: `FILE:LINE: …` each.

    `places` are the file's lines, as `source_positions.lines_of` returns them.

    Raises:
        DocumentError: the document has another version.
    """
    messages = [
        (source_positions.line_of(places, error.place), str(error))
        for error in schema.list_errors(name, document)
    ]
    return [f"{path}:{line}: {message}" for line, message in sorted(messages)]


@contextmanager
def gather_errors(errors: list[str]) -> Iterator[None]:
    """Append the lines of a `CampaignError` raised inside to `errors`, and suppress it so that more are found."""
    try:
        yield
    except CampaignError as error:
        errors += str(error).splitlines()


def join_errors(errors: Iterable[str]) -> str:
    """Return errors as one message, a line each, without duplicates: at most ten, and the number of the others."""
    lines = list(dict.fromkeys(errors))
    if len(lines) <= MAX_LISTED:
        return "\n".join(lines)
    return "\n".join([*lines[:MAX_LISTED], f"And {len(lines) - MAX_LISTED} more."])
