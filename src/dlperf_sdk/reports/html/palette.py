"""Colors, symbols and dashes of series: a framework has one color and one symbol in all plots of a page.

The name of a series begins with its framework, as `reports.series.labels` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from dlperf_sdk.reports.html.embed import text

COLORS = (
    "#3178c6",
    "#c9660a",
    "#2b8a3e",
    "#8e5bd0",
    "#d1383d",
    "#0e8fa3",
    "#c2418f",
    "#8a6d4b",
    "#6b7785",
    "#7a8c12",
)
"""Colors of the series. Each has a contrast of at least 3:1 to the page's light and dark background (WCAG 2.2,
1.4.11)."""
_PATHS = {
    "circle": "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0 -10Z",
    "square": "M1.5 1.5h9v9h-9Z",
    "triangle-up": "M6 1L11 10.5H1Z",
    "diamond": "M6 0.5L10.5 6L6 11.5L1.5 6Z",
    "cross": "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3Z",
    "triangle-down": "M6 11L1 1.5H11Z",
    "triangle-right": "M11 6L1.5 11V1Z",
    "triangle-left": "M1 6L10.5 1V11Z",
}
"""Symbols of the series: name in Vega-Lite → SVG path in a square of 12 units."""
_SHAPES = tuple(_PATHS)
_DASHES = (
    (),
    (8, 4),
    (3, 3),
    (10, 3, 2, 3),
    (16, 4),
    (10, 3, 2, 3, 2, 3),
    (6, 8),
    (2, 6),
    (14, 3, 6, 3),
    (1, 2),
)
"""Dashes of the lines of one framework, in pixels; the first line is solid."""
_SLOTS = 40
"""Number of different pairs of a color and a symbol: the least common multiple of their counts."""

MOST_SERIES = len(COLORS)
"""Maximum number of lines in a plot."""


@frozen
class LegendEntry:
    """A series in the legend of a plot."""

    name: str
    """Name of the series."""
    color: str
    """Color as `#rrggbb`."""
    path: str
    """SVG path of its symbol, in a square of 12 units."""
    dash: str | None
    """Dashes of its line, as SVG writes them; empty for a solid line, None if the plot has no lines."""


@define
class Palette:
    """Assigns colors, symbols and dashes to the series of one page, in the order in which its plots are drawn.

    With several frameworks on the page, each has its color and its symbol in all plots, and the lines of one framework
    differ in their dashes. With a single framework, each series has a color and a symbol of its own.
    """

    _frameworks: dict[str, int]
    """Name of each framework of the page → its slot."""
    _slots: dict[str, int] = field(factory=dict)
    """Name of a series → its dash, or its slot if the page has a single framework."""

    @classmethod
    def of_plots(cls, specs: Iterable[Mapping[str, Any]]) -> Palette:
        """Return the palette of a page whose plots are these Vega-Lite documents, in this order.

        The order in which the frameworks occur determines their colors and symbols. The documents are not changed.
        """
        names = dict.fromkeys(_framework(name) for spec in specs for name in _names(spec))
        return cls({name: slot for slot, name in enumerate(names)})

    def paint(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set the colors, symbols and dashes of the series in a Vega-Lite document, and return the same document.

        The palette remembers the looks of the series for later plots.

        Args:
            spec: The document, as `chart_parts.finished_chart` returns it. It is changed: its scales of series get a
                `range`. The frameworks of its series must be in the documents that `of_plots` was given.
        """
        for layer in spec["layer"]:
            for channel in ("color", "shape", "strokeDash"):
                scale = layer.get("encoding", {}).get(channel, {}).get("scale")
                if scale is not None:
                    looks = self._looks(scale["domain"])
                    scale["range"] = [
                        {
                            "color": COLORS[slot % len(COLORS)],
                            "shape": _SHAPES[slot % len(_SHAPES)],
                            "strokeDash": list(_DASHES[dash]) or [1, 0],
                        }[channel]
                        for slot, dash in looks
                    ]
        return spec

    def legend(self, spec: Mapping[str, Any]) -> tuple[LegendEntry, ...]:
        """Return the entries of a plot's legend, in the order of its rows. The document is not changed.

        The legend is empty for a plot without series, and for a plot with a single series whose rows have labels. The
        palette remembers the looks of the series for later plots.

        Args:
            spec: The Vega-Lite document, one of those that `of_plots` was given.
        """
        names = _names(spec)
        if len(names) < 2 and any("label" in row for row in spec["data"]["values"]):
            return ()
        has_lines = any("strokeDash" in layer.get("encoding", {}) for layer in spec["layer"])
        return tuple(
            LegendEntry(
                name,
                COLORS[slot % len(COLORS)],
                _PATHS[_SHAPES[slot % len(_SHAPES)]],
                " ".join(map(str, _DASHES[dash])) if has_lines else None,
            )
            for name, (slot, dash) in zip(names, self._looks(names), strict=True)
        )

    def _looks(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the slot and the dash of each series of a plot. A series keeps them where the plot allows it."""
        is_alone = len(self._frameworks) < 2
        assigned: dict[str, int] = {}
        # Series of earlier plots first: a new one may not take the look of any of them.
        for name in sorted(names, key=lambda name: name not in self._slots):
            rivals = [
                slot for other, slot in assigned.items() if is_alone or _framework(other) == _framework(name)
            ]
            slot = self._slots.get(name)
            if slot is None or _rank(slot, rivals, len(COLORS))[:2] != (False, False):
                count = _SLOTS if is_alone else len(_DASHES)
                slot = min(range(count), key=lambda slot: (*_rank(slot, rivals, len(COLORS)), slot))
                self._slots.setdefault(name, slot)
            assigned[name] = slot
        if is_alone:
            return [(assigned[name], 0) for name in names]
        return [(self._frameworks[_framework(name)] % _SLOTS, assigned[name]) for name in names]


def _rank(slot: int, rivals: Sequence[int], colors: int) -> tuple[bool, bool]:
    """Return whether the rivals of a series have its slot, and whether they have its color."""
    return slot in rivals, slot % colors in {rival % colors for rival in rivals}


def _framework(name: str) -> str:
    return name.partition(" ")[0]


def _names(spec: Mapping[str, Any]) -> list[str]:
    return series_names([row for row in spec["data"]["values"] if "series" in row])


def series_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the values of the field `series` of the rows, each once, in the order of the rows.

    Control characters in them are replaced, and names of more than 300 characters are cut.
    """
    return list(dict.fromkeys(text(row["series"]) for row in rows))
