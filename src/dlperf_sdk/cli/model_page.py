"""Description of a model for authors of trainers: its computation and its parameters."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from dlperf_sdk.interfaces.model import Model, Parameter, entry_to_dict
from dlperf_sdk.reports.blocks import Block, Column, Heading, Paragraph, Table
from dlperf_sdk.reports.numbers import format_count

LAYOUT = "Convolutions are OIHW, linear layers (out, in); all in float32, C order, in this order."
_ITEM = re.compile(r"\s*[-*•] ")


def page_of(model: Model) -> str:
    """Return the docstring that describes a model.

    It is the module's docstring if the module has one and defines no other model, else that of the class. The result
    is empty if there is none.
    """
    cls = type(model)
    module = sys.modules[cls.__module__]
    references = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Model)
        and member.__module__ == module.__name__
        and member is not cls
    ]
    description = None if references else inspect.getdoc(module)
    return description or inspect.cleandoc(cls.__doc__ or "")


def manifest_of(parameters: Iterable[Parameter]) -> list[dict[str, Any]]:
    """Return a dictionary for each parameter of a model, in order, with the keys `name`, `shape`, `init` and `decay`.

    The values are JSON values, as in the worker's request. `init` is an object that describes the initial values: their
    `kind`, and the numbers of this kind. `decay` is true if weight decay applies to the parameter.
    """
    return [entry_to_dict(parameter) for parameter in parameters]


def blocks(page: str, manifest: list[dict[str, Any]]) -> Iterator[Block]:
    """Yield the description of a model as blocks.

    Args:
        page: The model's docstring; may be empty.
        manifest: The parameters, as `manifest_of` returns them.
    """
    if page:
        yield Heading("What is computed")
        yield from map(Paragraph, paragraphs(page))
    rows = (
        (
            entry["name"],
            "×".join(map(str, entry["shape"])) or "scalar",
            _describe_initialization(entry["init"]),
            "yes" if entry["decay"] else "no",
        )
        for entry in manifest
    )
    columns = (
        Column("parameter", whole=True),
        Column("shape", whole=True),
        Column("filled with"),
        Column("decay"),
    )
    yield Table(columns, tuple(rows), f"The manifest: {format_count(len(manifest), 'tensor')}")
    yield Paragraph(LAYOUT, "quiet")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a docstring, and the items of its lists, each as a text without line breaks.

    They are in the order of the docstring. The list is empty for an empty text.
    """
    rows: list[list[str]] = []
    fresh = True
    for line in text.splitlines():
        if not line.strip():
            fresh = True
        elif fresh or _ITEM.match(line):
            rows.append([line.strip()])
            fresh = False
        else:
            rows[-1].append(line.strip())
    return [" ".join(lines) for lines in rows]


def _describe_initialization(init: dict[str, Any]) -> str:
    """Return a short description of how a tensor of the canonical weights is initialized: the kind and its numbers."""
    numbers = ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {json.dumps(value)}"
        for name, value in init.items()
        if name != "kind"
    )
    return f"{init['kind']} {numbers}".strip()
