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
    """The text of a table cell, a footnote, an observation or a statement about memory in a source document."""

    table: str
    """Name of the `Grid`, or `footnotes`, `observations` or `memory`."""
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
    """Return all figures of the collection of this distribution whose name is `collection`, such as `tensorpack`.

    Later calls return the same object.

    Raises:
        FileNotFoundError: This distribution has no such collection.
    """
    lines = (_DATA / f"{collection}.jsonl").read_text(encoding="utf-8").splitlines()
    return Figures(collection, tuple(PublishedFigure.from_valid(json.loads(line)) for line in lines))


@cache
def load_printed_cells(collection: str) -> tuple[Printed, ...]:
    """Return the cells, footnotes, observations and statements about memory in the source documents of a collection.

    `collection` is the name of a collection of this distribution, such as `tf-cnn-2017`. The order is that of the
    documents. Later calls return the same tuple.

    Raises:
        FileNotFoundError: This distribution has no such collection.
    """
    lines = (_DATA / f"{collection}.printed.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Printed(**json.loads(line)) for line in lines)
