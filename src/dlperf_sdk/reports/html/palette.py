"""Colors and symbols of series: a framework, and a series, has the same color in the plots of a page.

The name of a series begins with its framework, as `reports.series.labels` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
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
    path: str
    """SVG path of its symbol, in a square of 12 units."""


@define
class Palette:
    """Assigns colors and symbols to the series of one page, in the order in which its plots are drawn.

    The first series of a framework in a plot has the framework's color. A series keeps its color, unless another
    series of the same plot already has it. After ten series in one plot the colors repeat.
    """

    _slots: dict[str, int] = field(factory=dict)
    _slots_of_frameworks: dict[str, int] = field(factory=dict)

    def paint(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set the colors and symbols of the series in a Vega-Lite document, and return the document.

        Args:
            spec: The document, as `chart_parts.finished_chart` returns it; its scales of series have no `range`.
        """
        for layer in spec["layer"]:
            for channel, values in (("color", COLORS), ("shape", _SHAPES)):
                scale = layer.get("encoding", {}).get(channel, {}).get("scale")
                if scale is not None:
                    scale["range"] = [values[slot % len(values)] for slot in self._assign(scale["domain"])]
        return spec

    def legend(self, spec: Mapping[str, Any]) -> tuple[LegendEntry, ...]:
        """Return the entries of a plot's legend, in the order of its rows.

        The legend is empty without series, and with a single one if the rows have labels.
        """
        rows = spec["data"]["values"]
        names = series_names([row for row in rows if "series" in row])
        if len(names) < 2 and any("label" in row for row in rows):
            return ()
        return tuple(
            LegendEntry(name, COLORS[_color(slot)], _PATHS[_SHAPES[slot % len(_SHAPES)]])
            for name, slot in zip(names, self._assign(names), strict=True)
        )

    def _assign(self, names: Sequence[str]) -> list[int]:
        frameworks = {name: name.partition(" ")[0] for name in names}
        for framework in frameworks.values():
            self._slots_of_frameworks.setdefault(framework, len(self._slots_of_frameworks) % len(COLORS))
        assigned: dict[str, int] = {}
        # Series of earlier plots first: a new one may not take the color of any of them.
        for name in sorted(names, key=lambda name: name not in self._slots):
            slot = self._slots.get(name)
            if slot is None or _color(slot) in map(_color, assigned.values()):
                slot = self._free_slot(frameworks[name], set(frameworks.values()), set(assigned.values()))
                self._slots.setdefault(name, slot)
            assigned[name] = slot
        return [assigned[name] for name in names]

    def _free_slot(self, framework: str, in_plot: Set[str], assigned: Set[int]) -> int:
        home = self._slots_of_frameworks[framework]
        reserved = {slot for name, slot in self._slots_of_frameworks.items() if name in in_plot}
        colors = set(map(_color, assigned))

        def cost(slot: int) -> tuple[bool | int, ...]:
            return (
                slot in assigned,
                _color(slot) in colors,
                slot != home,
                _color(slot) in reserved,
                _color(slot) in self._slots_of_frameworks.values(),
                slot in self._slots.values(),
                slot,
            )

        return min(range(_SLOTS), key=cost)


def _color(slot: int) -> int:
    return slot % len(COLORS)


def series_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the rows' `series`, each once, in the order of the rows."""
    return list(dict.fromkeys(text(row["series"]) for row in rows))
