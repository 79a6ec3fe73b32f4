"""The stored data of the collections: all figures, and all printed cells of the documents they were taken from."""

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
    """A cell of a table, a footnote or an observation, in the source's own words."""

    table: str
    """Name of the `Grid`, or `footnotes` or `observations`."""
    row: str
    """Name of the row, or the mark of the footnote."""
    column: str
    text: str
    """Text as printed."""
    document: str
    """Path or title of the document."""
    line: int
    """Line in the document, counted from 1."""


@cache
def figures(collection: str) -> Figures:
    """Return all figures of a collection of this distribution, given by its name; later calls return the same object.

    Raises:
        FileNotFoundError: this distribution has no such collection.
    """
    lines = (_DATA / f"{collection}.jsonl").read_text(encoding="utf-8").splitlines()
    return Figures(collection, tuple(PublishedFigure.from_valid(json.loads(line)) for line in lines))


@cache
def load_printed_cells(collection: str) -> tuple[Printed, ...]:
    """Return all printed cells of a collection of this distribution, given by its name, in the order of the documents.

    Later calls return the same tuple.

    Raises:
        FileNotFoundError: this distribution has no such collection.
    """
    lines = (_DATA / f"{collection}.printed.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Printed(**json.loads(line)) for line in lines)
