"""What the source documents print in their tables, cell by cell: what is regenerated is held against it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from attrs import frozen

from dlperf_sdk.errors import UnknownName
from dlperf_sdk.published.collection import NAMES


@frozen
class Printed:
    """A cell of a table, or an observation, in a source's own words."""

    table: str
    row: str
    column: str
    text: str
    document: str
    line: int


@cache
def printed(name: str) -> tuple[Printed, ...]:
    """All printed cells of a collection's documents.

    Raises:
        UnknownName: there is no such collection.
    """
    if name not in NAMES:
        raise UnknownName("collection of published figures", name, NAMES)
    text = (files("dlperf_sdk.published") / f"{name}.printed.jsonl").read_text(encoding="utf-8")
    return tuple(Printed(**json.loads(line)) for line in text.splitlines())
