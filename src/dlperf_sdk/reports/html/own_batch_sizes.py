"""The speedup of each precision of a framework whose batch size differs between precisions."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Sortable
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.reports.series import format_stated
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.precision import PRECISIONS

_VARYING = {"batch_size", "loss_scale", "precision"}
"""Facts that change with the precision."""
_PAGE_ROWS = 14


def precisions_at_own_batch_sizes(cases: Sequence[Case]) -> tuple[Folded, ...]:
    """Return a folded table that compares the fastest case of each precision with the fastest of the default precision.

    The two cases of a row differ in precision and batch size, perhaps in loss scaling, and in nothing else. So their
    ratio is the effect of the precision and of the batch size together. The tuple has that one table; it is empty if
    there is no such pair.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        names = sorted(case.identifying_facts() - _VARYING)
        groups.setdefault((case.unit, *(f"{name}={key(case.facts.get(name))}" for name in names)), []).append(
            case
        )
    pairs = []
    for members in groups.values():
        fastest: dict[str, Case] = {}
        for case in sorted(members, key=lambda case: -case.throughput):
            fastest.setdefault(str(case.facts.get("precision")), case)
        base = fastest.pop(PRECISIONS.default, None)
        if base is not None:
            pairs += [(case, base) for case in fastest.values() if case.batch_size != base.batch_size]
    pairs.sort(
        key=lambda pair: (pair[0].topology.devices, str(pair[0].facts.get("model")), pair[0].framework)
    )
    rows = [_row(case, base) for case, base in pairs]
    if not rows:
        return ()
    columns = (
        Column("framework", key=True),
        Column("model", key=True),
        Column("topology", key=True),
        Column("settings", key=True),
        Column("the precision at its fastest batch size"),
        Column(f"{PRECISIONS.default} at its fastest batch size"),
        Column("ratio", right=True),
    )
    precisions = join_names(sorted({str(case.facts.get("precision")) for case, _ in pairs}))
    title = f"{precisions} against {PRECISIONS.default} at other batch sizes: the effect of both together"
    table = Sortable(Table(columns, tuple(rows)), ("framework", "model", "topology"), _PAGE_ROWS)
    compiled = Paragraph(
        "Both sides of a row have the same settings, the compiler included. With another compiler a precision may be "
        "faster than here.",
        "quiet",
    )
    return (Folded(title, (table, compiled)),)


def _row(case: Case, base: Case) -> tuple[str, ...]:
    names = ("implementation", "clip_norm", "input_pipeline", "loader_workers")
    settings = [format_stated(name, case.facts[name]) for name in names if case.facts.get(name) is not None]
    compiler = case.facts.get("compiler", COMPILERS.default)
    settings.append("no compiler" if compiler == COMPILERS.default else str(compiler))
    return (
        case.framework,
        str(case.facts.get("model")),
        str(case.topology),
        ", ".join(settings),
        _describe(case),
        _describe(base),
        f"{case.throughput / base.throughput:.2f}×",
    )


def _describe(case: Case) -> str:
    scale = case.facts.get("loss_scale")
    parts = [
        str(case.facts.get("precision")),
        f"batch {case.batch_size}",
        *([f"loss scale {scale}"] if scale else []),
    ]
    return f"{quantity(case.throughput, case.unit)} ({', '.join(parts)})"
