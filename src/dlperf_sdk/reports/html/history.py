"""The page of a case's history: its plot, its levels and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

import dlperf_sdk
from dlperf_sdk.analysis.history import TIME, History, Run
from dlperf_sdk.reports.blocks import Cell, Labels, Paragraph
from dlperf_sdk.reports.history import (
    METHOD,
    describe_order,
    format_change,
    format_last_change,
    format_newest,
    format_time,
    levels_table,
    list_summary,
    runs_table,
)
from dlperf_sdk.reports.html import history_chart
from dlperf_sdk.reports.html.page import Item, Page, Plot, Section, Sortable, Tile
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.reports.run_context import format_labels

_NO_LINKS: Mapping[str, str] = {}


def page(history: History, links: Mapping[str, str] = _NO_LINKS, parent: Cell | None = None) -> Page:
    """Return the page of a case: a plot, its levels, and all its runs, the newest first.

    Args:
        history: The case's history, with at least one run. Without a valid run there is no plot and no level.
        links: Name of a run → relative address of the report on it. A run that is not in the mapping has no link.
        parent: Cell with the link to the page that lists the cases; None if there is no such page.

    Raises:
        ValueError: The history has no run.
    """
    levels = (attrs.evolve(levels_table(history), title=""),) if history.valid else ()
    plots: tuple[Item, ...] = (_plot(history),) if history.valid else ()
    runs = runs_table(history, history.runs[::-1])
    runs = attrs.evolve(
        runs, rows=tuple((*row[:-1], _link(row[-1], links)) for row in runs.rows), title="Runs, newest first"
    )
    return Page(
        title=history.name,
        lede=f"Hardware: {history.hardware or 'unknown'}. Runs in the order of {describe_order(history)}.",
        tiles=_tiles(history),
        sections=(
            Section("History", plots),
            Section("Levels", (*levels, Paragraph(METHOD, "quiet"))),
            Section("Runs", (Sortable(runs, ("versions",), 25),)),
            Section("Case", (Labels(list_summary(history)),)),
        ),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from {format_count(len(history.runs), 'run')}.",
        parent=parent,
    )


def _link(cell: Cell, links: Mapping[str, str]) -> Cell:
    """Return the cell of a run's name with the link to its report, if there is one."""
    return attrs.evolve(cell, link=links.get(cell.text, ""))


def _tiles(history: History) -> tuple[Tile, ...]:
    newest, best = history.newest, max((run.throughput or 0.0 for run in history.valid), default=None)
    tiles = [
        Tile("Newest run", format_newest(history).text, newest.day, "bad" if newest.problem else "plain")
    ]
    if best is not None:
        tiles.append(Tile("Fastest run", quantity(best, history.unit)))
    last = format_last_change(history)
    if history.changes:
        tiles.append(
            Tile("Last change", history.changes[-1].percent, history.changes[-1].after.day, last.tone)
        )
    else:
        tiles.append(Tile("Last change", "none", last.text if history.has_too_few_runs else ""))
    failed = len(history.runs) - len(history.valid)
    tiles.append(Tile("Runs", str(len(history.runs)), f"{failed} failed" if failed else ""))
    return tuple(tiles)


def _plot(history: History) -> Plot:
    rows = _chart_rows(history)
    changes = ", ".join(format_change(change).text for change in history.changes)
    changes = changes or format_last_change(history).text
    order = describe_order(history)
    description = (
        f"Throughput of the {len(history.valid)} valid runs over {order}; each point is the median of a run, each line "
        f"the median of a level, and a dashed line marks a change. The axis does not begin at zero. Changes: {changes}."
    )
    return Plot(
        f"Throughput over {order}",
        description,
        lambda: history_chart.history(
            rows, f"throughput, {history.unit}", order, over_time=history.order == TIME
        ),
        levels_table(history),
    )


def _chart_rows(history: History) -> list[dict[str, Any]]:
    """Return a row per valid run for the chart; `level` is the median of its level."""
    rows: list[dict[str, Any]] = []
    for number, level in enumerate(history.levels):
        for run in level.runs:
            rows.append(
                {
                    "at": run.started_at if history.order == TIME else len(rows) + 1,
                    "value": run.throughput,
                    "level": level.throughput,
                    "segment": number,
                    "size": quantity(run.throughput or 0.0, history.unit),
                    "place": format_time(run) if history.order == TIME else str(run.value(history.order)),
                    "run": run.id,
                    "differs": _format_context(run),
                }
            )
    return rows


def _format_context(run: Run) -> str:
    return ", ".join(filter(None, (*run.versions.values(), format_labels(run.labels))))
