"""Report of `dlperf verify`: per model a table with a row per framework, and below it the errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table, Tone
from dlperf_sdk.spec.compiler import NONE

if TYPE_CHECKING:
    from dlperf_sdk.execution.verification import Row, Verification

_TONES: dict[str, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "doubt", "not-run": "doubt"}
NAMED = 12
"""Maximum number of parameters that are listed for a framework that fails."""


def page(verifications: Iterable[Verification], *, tracebacks: bool = False) -> list[Block]:
    """Return the report on verifications: per model a heading, a table with a row per framework, and details.

    Details are given for frameworks that were not run, or did not pass.

    Args:
        verifications: The verifications, one per model.
        tracebacks: True to show the whole output of workers that failed, instead of its last line.
    """
    return [block for verification_ in verifications for block in _model(verification_, tracebacks)]


def _model(verification: Verification, tracebacks: bool) -> Iterator[Block]:
    compiler = "" if verification.compiler == NONE else f", {verification.compiler}"
    settings = f"{verification.topology}, {verification.precision}{compiler}"
    title = f"{verification.model}: case {verification.case}, {settings}"
    yield Heading(title, Cell("relative deviation from float64", "quiet"))
    steps = max((len(losses) for losses in verification.losses), default=0)
    columns = (
        Column("framework", whole=True),
        *(Column(f"step {step}", right=True) for step in range(steps)),
        Column("updates", right=True),
        Column("parity", whole=True),
    )
    right = [_reference(shard, losses) for shard, losses in enumerate(verification.losses)]
    yield Table(columns, (*right, *(_row(row, steps) for row in verification.rows)))
    for row in verification.rows:
        yield from _list_details(row)
        if row.parity is not None and row.parity.traceback:
            traceback = row.parity.traceback.rstrip()
            text = (
                traceback
                if tracebacks
                else f"{traceback.splitlines()[-1]} (--debug shows all that the worker said)"
            )
            yield Paragraph(text, "quiet")


def _reference(shard: int, losses: Sequence[float]) -> tuple[Cell, ...]:
    """Return the reference's own losses, for orientation."""
    texts = (f"float64, shard {shard}", *(f"{loss:.6f}" for loss in losses), "", "")
    return tuple(Cell(text, "quiet") for text in texts)


def _row(row: Row, steps: int) -> tuple[Cell | str, ...]:
    parity = row.parity
    deviations = parity.deviations if parity is not None and parity.deviations else ()
    cells = [f"{deviation:.1e}" for deviation in deviations] + [""] * (steps - len(deviations))
    updates = "" if parity is None or parity.updates is None else f"{parity.updates:.1e}"
    return (row.framework, *cells, updates, Cell(row.outcome, _TONES.get(row.outcome, "quiet")))


def _list_details(row: Row) -> Iterator[Block]:
    """Yield the details of a row that do not fit into the table."""
    if row.parity is None:
        yield Paragraph(f"{row.framework} was not run: {row.reason}", "doubt")
        return
    if row.outcome in ("pass", "not-applicable"):
        return
    yield Paragraph(f"{row.framework}: {row.parity.detail}", _TONES.get(row.outcome, "plain"))
    if row.parity.differing:
        count = len(row.parity.differing)
        remainder = f", and {count - NAMED} more" if count > NAMED else ""
        names = ", ".join(row.parity.differing[:NAMED])
        yield Labels((("differ, in the model's order", f"{names}{remainder}"),))
