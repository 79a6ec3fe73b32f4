"""The section with every pair of comparable implementations, so that two frameworks are found side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from dlperf_sdk.analysis.case import LOADER_FACTS, Case, key
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table, Tone
from dlperf_sdk.reports.fastest import describe_shared_facts
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.leads import ESTIMATORS, format_ratio, list_reservations
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.spec.compiler import COMPILERS

TITLE = "Framework pairs"
_PAGE_ROWS = 20
_MOST_PAIRS = 2000
"""Maximum number of pairs that are listed."""


def section(cases: Sequence[Case], rankings: Sequence[Ranking]) -> Section:
    """Return the section; without items if no ranking has more than two frameworks or implementations.

    Args:
        cases: All cases of the report.
        rankings: Their rankings.
    """
    pairs = [(ranking, pair) for ranking in rankings for pair in _pairs(ranking)]
    pairs.sort(key=lambda entry: _order(entry[1]))
    if len(pairs) <= len(rankings):
        return Section(TITLE, ())
    settings = {id(ranking): describe_shared_facts(ranking, rankings) for ranking in rankings}
    rows = [(*_facts(ranking), settings[id(ranking)], *_row(pair)) for ranking, pair in pairs[:_MOST_PAIRS]]
    columns = (
        Column("frameworks", key=True),
        Column("topology", key=True),
        Column("model", key=True),
        Column("batch", right=True, key=True),
        Column("precision", key=True),
        Column("settings", key=True),
        Column("faster"),
        Column("slower"),
        Column("ratio", right=True),
        Column("reservation"),
    )
    rows = [(_frameworks(pair), *row) for (_, pair), row in zip(pairs, rows, strict=False)]
    title = f"{format_count(len(rows), 'pair')} of comparable implementations, the faster one first"
    filters = ("frameworks", "topology", "model", "batch", "precision", "settings")
    items: list[Item] = [Sortable(Table(columns, tuple(rows), title), filters, _PAGE_ROWS)]
    alone = _describe_unpaired(cases, [pair for _, pair in pairs])
    if alone:
        items.append(Paragraph(alone, "quiet"))
    items.append(Paragraph(f"Estimator differs: {ESTIMATORS}.", "quiet"))
    lede = (
        "Each implementation with its fastest case, beside every other one that is comparable. Search for two names or "
        "filter. The highest throughputs come first, and two versions of one framework last. A ratio with ≈ has no "
        "interval."
    )
    return Section(TITLE, tuple(items), lede)


def _pairs(ranking: Ranking) -> Iterator[Comparison]:
    """Yield the comparison of each two implementations of a ranking, the faster one first."""
    fastest: dict[str, Case] = {}
    for case in sorted(ranking.cases, key=lambda case: -case.throughput):
        fastest.setdefault(_name(case), case)
    for first, second in combinations(fastest.values(), 2):
        yield compare(first, second, footnoted=True)


def _order(pair: Comparison) -> tuple[bool, float, float]:
    """Sort key: pairs of one framework last, else the highest throughputs first."""
    is_of_one = key(pair.a.facts.get("framework")) == key(pair.b.facts.get("framework"))
    return is_of_one, -pair.a.throughput, -pair.b.throughput


def _facts(ranking: Ranking) -> tuple[str, ...]:
    return tuple(
        str(ranking.facts.get(name, "")) for name in ("topology", "model", "batch_size", "precision")
    )


def _frameworks(pair: Comparison) -> str:
    return " and ".join(sorted({str(case.facts.get("framework")) for case in (pair.a, pair.b)}))


def _row(pair: Comparison) -> tuple[Cell | str, ...]:
    tone: Tone = "quiet" if pair.low is None else "plain"
    return (
        *(
            f"{_describe(case, other)}: {quantity(case.throughput, case.unit)}"
            for case, other in ((pair.a, pair.b), (pair.b, pair.a))
        ),
        Cell(format_ratio(pair), tone),
        Cell(", ".join(list_reservations(pair)), "doubt"),
    )


def _name(case: Case) -> str:
    """Return framework, version and implementation of a case."""
    version = str(case.facts.get("framework_version", "")).partition("+")[0]
    implementation = case.facts.get("implementation")
    parts = (str(case.facts.get("framework", "")), version, f"({implementation})" if implementation else "")
    return " ".join(filter(None, parts))


def _describe(case: Case, other: Case) -> str:
    """Return the name of a case, its compiler if it has one, and its loader's settings that the other case lacks."""
    settings = [
        format_fact(name, case.facts[name])
        for name in LOADER_FACTS
        if name in case.facts and key(case.facts[name]) != key(other.facts.get(name))
    ]
    compiler = case.facts.get("compiler")
    compiled = "" if compiler in (None, COMPILERS.default) else f" with {compiler}"
    return ", ".join([f"{_name(case)}{compiled}", *settings])


def _describe_unpaired(cases: Sequence[Case], pairs: Sequence[Comparison]) -> str:
    """Return a sentence on the implementations of a model that are in no pair, with the reason."""
    paired = {(_name(case), case.facts.get("model")) for pair in pairs for case in (pair.a, pair.b)}
    models: dict[str, set[str]] = {}
    for case in cases:
        models.setdefault(str(case.facts.get("model")), set()).add(_name(case))
    parts = [
        f"{name} with {model} (no other implementation was measured with this model)"
        if len(names) == 1
        else f"{name} with {model} (no other implementation has the same workload and precision)"
        for model, names in models.items()
        for name in sorted(names)
        if (name, model) not in paired
    ]
    return f"In no pair: {'; '.join(parts)}. Different models are never compared." if parts else ""
