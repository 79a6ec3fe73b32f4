"""The tables of the spreadsheet of 2017, and the effects behind them, computed from its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import attrs

from dlperf_published.grid import Grid, Square, Value
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.effects import Effect, effect
from dlperf_sdk.analysis.scaling import Scaled, efficiency, speedup
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.worker.estimate import median

DEVICES = (1, 2, 4, 8)
"""The numbers of devices, one per row of each table."""
_FACTORS: dict[str, dict[str, Any]] = {
    "batch_size": {"64": 64, "32": 32},
    "data": {"synth": "synthetic", "real": "images"},
    "model": {"inception3": "inception-v3", "resnet50": "resnet50-v1"},
    "hardware": {"P100": "Tesla P100", "K80": "Tesla K80"},
}
"""Factor of the columns, in the source's order → the source's word for each value, and the value."""


def tables(figures: Figures) -> tuple[Grid, ...]:
    """Return seven tables: throughputs, speedups, efficiencies, and ratios by data, batch size, GPU and model.

    `figures` are all figures of the collection `tf-cnn-2017`.
    """
    return (
        _throughputs(figures),
        _scale_grid(figures, "speedup", speedup, "x", 1),
        _scale_grid(figures, "efficiency", efficiency, "%", 100),
        _ratios(figures, "synthetic-real", "Synthetic over real data", "data", per_row=True),
        _ratios(figures, "batch", "Speedup at batch size 64 over that at 32", "batch_size", per_row=True),
        _ratios(figures, "gpu", "P100 over K80", "hardware", per_row=False),
        _ratios(figures, "model", "ResNet-50 over Inception v3", "model", per_row=False),
    )


def effects(figures: Figures, factor: str) -> dict[int, Effect]:
    """Return a dict from the number of devices (1, 2, 4, 8) to the effect of a factor on the throughput.

    The effect is the throughput at one value of the factor, divided by that at the other: batch size 64 over 32,
    synthetic over real data, ResNet-50 over Inception v3, and P100 over K80. Each combination of the other factors'
    values gives one such ratio. The test of the effect takes these ratios as independent of each other.

    Args:
        figures: All figures of the collection `tf-cnn-2017`.
        factor: `batch_size`, `data`, `model` or `hardware`.

    Raises:
        KeyError: `factor` is something else.
        AnalysisError: On one of the numbers of devices, no two cases differ in the factor only.
    """
    first, second = _levels(factor)
    return {
        count: effect(
            figures.filter(topology=f"1n{count}d"),
            factor=factor,
            levels=(first, second),
            pairs_are_units=True,
        )
        for count in DEVICES
    }


def scaling_effects(figures: Figures, factor: str) -> dict[int, Effect]:
    """Return a dict from the number of devices (1, 2, 4, 8) to the effect of a factor on the speedup over one device.

    The effect is the speedup at one value of the factor, divided by that at the other, as in `effects`: batch size 64
    over 32, synthetic over real data, ResNet-50 over Inception v3, and P100 over K80.

    Args:
        figures: All figures of the collection `tf-cnn-2017`.
        factor: `batch_size`, `data`, `model` or `hardware`.

    Raises:
        KeyError: `factor` is something else.
        AnalysisError: On one of the numbers of devices, no two cases differ in the factor only.
    """
    by_count = {}
    for count in DEVICES:
        scaled = [
            attrs.evolve(Case.from_source(figure), throughput=value, unit="x")
            for figure in figures.filter(topology=f"1n{count}d")
            if (value := speedup(figure, cases(figures)).value) is not None
        ]
        by_count[count] = effect(scaled, factor=factor, levels=_levels(factor), pairs_are_units=True)
    return by_count


def _levels(factor: str) -> tuple[Any, Any]:
    first, second = _FACTORS[factor].values()
    # The source divides ResNet-50 by Inception, though its columns are the other way about.
    return (second, first) if factor == "model" else (first, second)


def columns(excluded_factor: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return (title, conditions) of each column of the spreadsheet's tables, in the spreadsheet's order.

    There is a column for each combination of batch size, data, model and hardware. The title has the source's words,
    such as `64 synth inception3 P100`. The conditions are a dict from the name of each factor to the value that selects
    the figures of the column, such as `{"batch_size": 64, "data": "synthetic", …}`.

    Args:
        excluded_factor: Name of a factor to leave out of the combinations, such as `batch_size`; empty for none.
    """
    factors = {name: values for name, values in _FACTORS.items() if name != excluded_factor}
    return [
        (" ".join(words), {name: factors[name][word] for name, word in zip(factors, words, strict=True)})
        for words in product(*factors.values())
    ]


def _throughputs(figures: Figures) -> Grid:
    rows = {}
    for count in DEVICES:
        row = [Square((Value(count, 0, quantity="number of GPUs"),))]
        for _, conditions in columns():
            figure = figures.get(topology=f"1n{count}d", **conditions)
            is_whole = figure.throughput == int(figure.throughput)
            row.append(Square((Value(figure.throughput, 0 if is_whole else 1, "", (figure,)),)))
        rows[str(count)] = tuple(row)
    return Grid("throughput", "img/s", "GPUs", ("gpus", *(title for title, _ in columns())), rows)


def _scale_grid(
    figures: Figures,
    name: str,
    measure: Callable[[PublishedFigure, Sequence[Case]], Scaled],
    sign: str,
    times: int,
) -> Grid:
    candidates, rows = cases(figures), {}
    for count in DEVICES:
        row_figures = [figures.get(topology=f"1n{count}d", **conditions) for _, conditions in columns()]
        values = [(figure, measure(figure, candidates).value) for figure in row_figures]
        numbers = [(figure, value * times) for figure, value in values if value is not None]
        row = [Square((Value(number, 2, sign, (figure,)),)) for figure, number in numbers]
        row.append(Square((Value(median([number for _, number in numbers]), 2, sign),)))
        rows[str(count)] = tuple(row)
    titles = (*(title for title, _ in columns()), "median")
    return Grid(name, name.capitalize(), "GPUs", titles, rows)


def _ratios(figures: Figures, name: str, title: str, factor: str, *, per_row: bool) -> Grid:
    """Return a table of paired ratios with the median of each row, or that of all rows in the first."""
    by_count = scaling_effects(figures, factor) if factor == "batch_size" else effects(figures, factor)
    all_ratios = [pair.ratio for measured in by_count.values() for pair in measured.pairs]
    rows = {}
    for count, measured in by_count.items():
        row = []
        for _, conditions in columns(factor):
            ratio = next(
                pair.ratio
                for pair in measured.pairs
                if all(pair.a.facts[condition] == value for condition, value in conditions.items())
            )
            row.append(Square((Value(ratio, 2, "x"),)))
        middle = measured.median if per_row else median(all_ratios)
        is_visible = per_row or count == DEVICES[0]
        row.append(Square((Value(middle, 2, "x"),) if is_visible else ()))
        rows[str(count)] = tuple(row)
    return Grid(name, title, "GPUs", (*(heading for heading, _ in columns(factor)), "median"), rows)
