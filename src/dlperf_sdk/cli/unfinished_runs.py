"""A run that has no result: what of it had finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlperf_sdk.errors import DlperfError, UsageError
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table

if TYPE_CHECKING:
    from dlperf_sdk.results.store import ResultStore


def unfinished(store: ResultStore, run_id: str, told: Callable[[str], str]) -> list[Block]:
    """Return the finished repeats of a run without a result, and a note on each file that cannot be read.

    `told` redacts messages that name files.
    """
    from dlperf_sdk.cli.lookup import unit_of
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.reports.numbers import counted, quantity
    from dlperf_sdk.results import metrics

    try:
        left = store.recover(run_id)
    except DlperfError as error:
        raise UsageError(
            told(f"{store.directory / run_id} has no result.json, and its rest cannot be read: {error}")
        ) from error
    done = [attempt for attempt in left.attempts if attempt.status == "ok"]
    text = (
        "There is no result.json: the run is still going on, or it was ended before it could write one. "
        f"{counted(len(done), 'repeat')} had finished"
    )
    blocks: list[Block] = [
        Heading(run_id, Cell("unfinished", "doubt")),
        Paragraph(text + (":" if done else ".")),
    ]
    unit = "samples/s" if left.spec is None else unit_of(left.spec.model, Registry())
    rows = []
    for attempt in left.attempts:
        ok = attempt.status == "ok"
        rate = quantity(metrics.throughput(attempt.repeat), unit) if ok else ""
        rows.append((str(attempt.attempt), Cell(attempt.status, "good" if ok else "bad"), rate))
    if rows:
        columns = (Column("repeat", right=True), Column("status"), Column("throughput", right=True))
        blocks.append(Table(columns, tuple(rows)))
    blocks += [
        Paragraph(told(f"{each.path} cannot be read: {each.error}"), "doubt") for each in left.unreadable
    ]
    return blocks
