"""The collections of published figures, and how to ask them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import evolve, frozen

from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.published.figure import PublishedFigure


@frozen
class Published:
    """Figures of one collection, or some of them."""

    name: str
    title: str
    about: str
    """Where the figures come from, and what they can bear."""
    figures: tuple[PublishedFigure, ...]

    def __iter__(self) -> Iterator[PublishedFigure]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def where(self, **wanted: Any) -> Published:
        """The figures that have these values: `where(framework="oneflow", topology=("1n1d", "4n8d"))`.

        A tuple, list or set means any of its members; a topology may be written as text. Options are asked for
        like fields; None asks for those of which the source says nothing.

        Raises:
            UnknownName: a name is neither a field nor an option.
        """
        figures = self.figures
        for name, value in wanted.items():
            members = value if isinstance(value, tuple | list | set | frozenset) else (value,)
            allowed = [str(each) if name in _WRITTEN else each for each in members]
            figures = tuple(each for each in figures if _value(each, name) in allowed)
        return evolve(self, figures=figures)

    def one(self, **wanted: Any) -> PublishedFigure:
        """The one figure that has these values.

        Raises:
            UnknownName: a name is neither a field nor an option.
            UsageError: there is none, or more than one.
        """
        found = self.where(**wanted).figures
        if len(found) == 1:
            return found[0]
        asked = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        if not found:
            raise UsageError(f"{self.name} has no figure with {asked}.")
        differing = [name for name in _describing(found) if len({repr(_value(f, name)) for f in found}) > 1]
        raise UsageError(
            f"{self.name} has {len(found)} figures with {asked}. They differ in {', '.join(differing)}: say which."
        )

    def values(self, name: str) -> tuple[Any, ...]:
        """The different values of a field or an option, in the order in which they occur.

        Raises:
            UnknownName: it is neither.
        """
        return tuple(dict.fromkeys(figure.value(name) for figure in self.figures))


_WRITTEN = ("topology", "source")
"""Fields that are compared as they are written."""


def _value(figure: PublishedFigure, name: str) -> Any:
    value = figure.value(name)
    return str(value) if name in _WRITTEN else value


def _describing(figures: tuple[PublishedFigure, ...]) -> list[str]:
    return list(dict.fromkeys(name for figure in figures for name in figure.roles()))


_ABOUT = {
    "dlperf-v1.0": (
        "DLPerf v1.0, 2020",
        "Oneflow-Inc/DLPerf at c89430b: medians of five to seven runs on four nodes of eight V100-SXM2-16GB, from "
        "the report of each implementation. The release before-v1.0 is OneFlow 0.1.9.",
    ),
    "tf-cnn-2017": (
        "TensorFlow benchmarks, 2017",
        "A spreadsheet of tf_cnn_benchmarks' own figures: NCHW, parameter server on the CPU, no NCCL. Whole numbers "
        "mostly, one run each as far as it says.",
    ),
    "tensorpack": (
        "tensorpack, 2017 and 2019",
        "The README of tensorpack's multi-GPU benchmark: eight P100, and later eight V100, in one machine.",
    ),
}

NAMES = tuple(_ABOUT)
"""The collections."""


@cache
def published(name: str) -> Published:
    """A collection of published figures: `dlperf-v1.0`, `tf-cnn-2017` or `tensorpack`.

    Raises:
        UnknownName: there is no such collection.
    """
    if name not in _ABOUT:
        raise UnknownName("collection of published figures", name, NAMES)
    text = (files("dlperf_sdk.published") / f"{name}.jsonl").read_text(encoding="utf-8")
    figures = tuple(PublishedFigure._of(json.loads(line)) for line in text.splitlines())
    return Published(name, *_ABOUT[name], figures)
