"""Runs without a result: what had finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlperf_sdk.errors import DlperfError, UsageError
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table

if TYPE_CHECKING:
    from dlperf_sdk.results.store import ResultStore


def read_unfinished(store: ResultStore, run_id: str, redact_text: Callable[[str], str]) -> list[Block]:
    """Return the attempts of a run without a result as blocks, and a note on each file that cannot be read.

    Args:
        store: The store that has the run.
        run_id: The run's name.
        redact_text: Function that redacts messages that name files; `str` keeps them.

    Raises:
        UsageError: The run cannot be found.
    """
    from dlperf_sdk.cli.lookup import unit_of
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.reports.numbers import format_count, quantity
    from dlperf_sdk.results import metrics

    try:
        recovered = store.recover(run_id)
    except DlperfError as error:
        raise UsageError(
            redact_text(
                f"{store.directory / run_id} has no result.json, and its rest cannot be read: {error}"
            )
        ) from error
    done = [attempt for attempt in recovered.attempts if attempt.status == "ok"]
    text = (
        "There is no result.json: the run is still going on, or it was ended before it could write one. "
        f"{format_count(len(done), 'repeat')} had finished"
    )
    blocks: list[Block] = [
        Heading(run_id, Cell("unfinished", "doubt")),
        Paragraph(text + (":" if done else ".")),
    ]
    unit = "samples/s" if recovered.spec is None else unit_of(recovered.spec.model, Registry())
    rows = []
    for attempt in recovered.attempts:
        ok = attempt.status == "ok"
        rate = quantity(metrics.throughput(attempt.repeat), unit) if ok else ""
        rows.append((str(attempt.attempt), Cell(attempt.status, "good" if ok else "bad"), rate))
    if rows:
        columns = (Column("repeat", right=True), Column("status"), Column("throughput", right=True))
        blocks.append(Table(columns, tuple(rows)))
    blocks += [
        Paragraph(redact_text(f"{unreadable.path} cannot be read: {unreadable.error}"), "doubt")
        for unreadable in recovered.unreadable
    ]
    return blocks
