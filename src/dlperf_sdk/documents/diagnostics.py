"""All that is wrong with a file that somebody wrote, each mistake with its line: they are mended in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlperf_sdk.documents import schema, source_positions
from dlperf_sdk.errors import CampaignError

MOST = 10
"""Mistakes that are told; of the others, how many there are."""


def in_file(path: Path, name: str, document: Any, places: Mapping[source_positions.Place, int]) -> list[str]:
    """What the schema `name` finds wrong with what was read from a file, by line: `FILE:LINE: …` each.

    `places` are its lines, as `lines.lines_of` finds them.

    Raises:
        DocumentError: it is of another version, or no plain data.
    """
    found = [
        (source_positions.line_of(places, error.place), str(error)) for error in schema.faults(name, document)
    ]
    return [f"{path}:{line}: {said}" for line, said in sorted(found)]


@contextmanager
def gathered(found: list[str]) -> Iterator[None]:
    """What a campaign's file is refused for inside is added to a list, and what comes after it goes on."""
    try:
        yield
    except CampaignError as error:
        found += str(error).splitlines()


def told(found: Iterable[str]) -> str:
    """The mistakes, a line each, none twice: at most ten, and how many more there are."""
    each = list(dict.fromkeys(found))
    if len(each) <= MOST:
        return "\n".join(each)
    return "\n".join([*each[:MOST], f"And {len(each) - MOST} more."])
