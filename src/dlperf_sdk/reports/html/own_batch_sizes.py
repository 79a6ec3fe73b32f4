"""The speedup of each precision of a framework whose batch size differs between precisions."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.blocks import ABSENT, Column, Table
from dlperf_sdk.reports.html.page import Sortable
from dlperf_sdk.reports.measurement_summary import sort_topologies
from dlperf_sdk.reports.series import format_fact, format_stated
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.values import TopologySpec

_VARYING = {"batch_size", "loss_scale", "precision"}
"""Facts that change with the precision."""
_SETTINGS = ("implementation", "clip_norm", "input_pipeline", "loader_workers")
_PAGE_ROWS = 20


def precisions_at_own_batch_sizes(cases: Sequence[Case]) -> tuple[Sortable, ...]:
    """Return a table of ratios of throughputs: the fastest case of a precision over that of the default precision.

    The two cases of a ratio differ in precision and batch size, perhaps in loss scaling, and in nothing else. So a
    ratio is the effect of precision and batch size together. There is a column per topology. The tuple has that
    one table; it is empty if there is no such pair.
    """
    rows: dict[tuple[str, ...], dict[TopologySpec, float]] = {}
    for case, base in _pairs(cases):
        rows.setdefault(_describe(case, base), {})[case.topology] = case.throughput / base.throughput
    if not rows:
        return ()
    topologies = sort_topologies(topology for ratios in rows.values() for topology in ratios)
    models = list(dict.fromkeys(str(case.facts.get("model")) for case in cases))
    columns = (
        *(Column(title, key=True) for title in ("effect", "framework", "model", "batch size")),
        Column("settings"),
        *(Column(str(topology), right=True) for topology in topologies),
    )
    cells = tuple(
        (
            *names,
            *(f"{ratios[topology]:.2f}×" if topology in ratios else ABSENT for topology in topologies),
        )
        for names, ratios in sorted(rows.items(), key=lambda row: (models.index(row[0][2]), row[0]))
    )
    title = (
        "The precision and its batch size together: each side at its fastest batch size, with equal settings"
    )
    return (Sortable(Table(columns, cells, title), ("effect", "framework", "model"), _PAGE_ROWS),)


def _pairs(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Return the fastest case of each precision with that of the default precision, if their batch sizes differ."""
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
    return pairs


def _describe(case: Case, base: Case) -> tuple[str, ...]:
    """Return the effect, the framework, the model, the two batch sizes, and the settings of a pair."""
    settings = [
        format_stated(name, case.facts[name]) for name in _SETTINGS if case.facts.get(name) is not None
    ]
    compiler = case.facts.get("compiler", COMPILERS.default)
    settings.append("no compiler" if compiler == COMPILERS.default else str(compiler))
    if case.facts.get("loss_scale"):
        settings.append(format_fact("loss_scale", case.facts["loss_scale"]))
    return (
        f"{case.facts.get('precision')} ÷ {base.facts.get('precision')}",
        case.framework,
        str(case.facts.get("model")),
        f"{case.batch_size} ÷ {base.batch_size}",
        ", ".join(settings),
    )
