"""The data of the collections: every figure, and every printed cell of the documents that it was taken from."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from attrs import frozen

from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.interfaces.figure import PublishedFigure

_DATA = files("dlperf_published") / "data"


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
def figures(collection: str) -> Figures:
    """Return all figures of one of our collections."""
    lines = (_DATA / f"{collection}.jsonl").read_text(encoding="utf-8").splitlines()
    return Figures(collection, tuple(PublishedFigure.from_valid(json.loads(line)) for line in lines))


@cache
def load_printed_cells(collection: str) -> tuple[Printed, ...]:
    """Return all printed cells of a collection's documents."""
    lines = (_DATA / f"{collection}.printed.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Printed(**json.loads(line)) for line in lines)
