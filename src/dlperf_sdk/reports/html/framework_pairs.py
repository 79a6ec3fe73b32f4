"""The section with every pair of comparable implementations, and of variants of a model in one framework."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from dlperf_sdk.analysis.case import LOADER_FACTS, Case, key
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Paragraph, Table
from dlperf_sdk.reports.fastest import describe_shared_facts, older_releases, release
from dlperf_sdk.reports.html.page import Section, Sortable
from dlperf_sdk.reports.leads import ESTIMATORS, format_ratio, list_reservations
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.reports.wording import describe_strategy
from dlperf_sdk.spec.compiler import COMPILERS

TITLE = "Framework pairs"
_PAGE_ROWS = 12
_MOST_PAIRS = 2000
"""Maximum number of pairs that are listed."""


def section(
    cases: Sequence[Case],
    rankings: Sequence[Ranking],
    printed_names: Mapping[str, str] = MappingProxyType({}),
) -> Section:
    """Return the section with a row for each pair of comparable implementations, or of variants of a model.

    First come the pairs of cases in a ranking. At most 2000 of these are listed: pairs of two frameworks take
    precedence, and among them pairs in which each case is the fastest of its framework. Then come all pairs of variants
    of a model in one framework. A paragraph explains the estimators of throughputs. If there are no more pairs than
    rankings, the section has no items, because it would repeat the rankings.

    Args:
        cases: All cases of the report.
        rankings: Their rankings.
        printed_names: Name of a strategy → the name that the published source has for it.
    """
    pairs = [(ranking, pair) for ranking in rankings for pair in _pairs(ranking)]
    if len(pairs) <= len(rankings):
        return Section(TITLE, ())
    old = older_releases(cases)
    pairs.sort(key=lambda entry: _order(entry[0], entry[1], old))
    listed = sorted(pairs[:_MOST_PAIRS], key=lambda entry: _order_by_case(entry[1].a))
    chosen = _list_chosen(cases)
    settings = {id(ranking): describe_shared_facts(ranking, rankings) for ranking in rankings}
    rows: list[tuple[Cell | str, ...]] = [
        (
            _frameworks(pair),
            *_facts(pair.a),
            ", ".join(filter(None, (settings[id(ranking)], _describe_strategy(pair, chosen, printed_names)))),
            *(_describe(case, pair) for case in (pair.a, pair.b)),
            # In lines the interval makes the column no wider.
            Cell(
                format_ratio(pair).replace(" (", "\n(").replace("– ", "–\n"),
                "quiet" if pair.low is None else "plain",
            ),
            Cell(", ".join(list_reservations(pair, ranking.unstated)), "doubt"),
        )
        for ranking, pair in listed
    ]
    variants = sorted(_variants(cases), key=lambda pair: _order_by_case(pair.a))
    rows += map(_variant_row, variants)
    columns = (
        Column("frameworks", key=True),
        Column("topology", key=True),
        Column("model", key=True),
        Column("batch", right=True, key=True),
        Column("precision", key=True),
        Column("settings"),
        Column("faster"),
        Column("slower"),
        Column("ratio", right=True),
        Column("reservation"),
    )
    title = f"{format_count(len(rows), 'pair')} of implementations, the higher number first"
    filters = ("frameworks", "topology", "model", "batch", "precision", "settings")
    lede = (
        f"{_describe_unpaired(cases, [pair for _, pair in pairs])}Search this table for two names, such as "
        f"{_frameworks(pairs[0][1]).replace(' and ', ' ')}. Sorted by model, precision, batch size "
        "and topology, variants of a model last. A ratio with ≈ has no interval."
    )
    return Section(
        TITLE,
        (
            Sortable(Table(columns, tuple(rows), title), filters, _PAGE_ROWS),
            Paragraph(f"Estimator differs: {ESTIMATORS}.", "quiet"),
        ),
        lede,
    )


def _pairs(ranking: Ranking) -> Iterator[Comparison]:
    """Yield the comparison of each two implementations of a ranking, the faster one first.

    Two that were measured with the same strategy are compared with it, once for each such strategy.
    """
    fastest: dict[str, dict[str, Case]] = {}
    for case in sorted(ranking.cases, key=lambda case: -case.throughput):
        fastest.setdefault(_name(case), {}).setdefault(key(case.facts.get("strategy")), case)
    for first, second in combinations(fastest.values(), 2):
        shared = [(first[strategy], second[strategy]) for strategy in first if strategy in second]
        for sides in shared or [(next(iter(first.values())), next(iter(second.values())))]:
            yield compare(*sorted(sides, key=lambda case: -case.throughput), footnoted=True)


def _list_chosen(cases: Sequence[Case]) -> set[tuple[str, str]]:
    """Return (implementation, topology) for each implementation that was measured with several strategies there."""
    strategies: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        place = (_name(case), str(case.topology))
        strategies.setdefault(place, set()).add(key(case.facts.get("strategy")))
    return {place for place, values in strategies.items() if len(values) > 1}


def _describe_strategy(
    pair: Comparison, chosen: Collection[tuple[str, str]], printed_names: Mapping[str, str]
) -> str:
    """Return the strategy of a pair, if both sides have it and one was measured with several; else nothing."""
    first, second = (str(case.facts.get("strategy")) for case in (pair.a, pair.b))
    is_chosen = any((_name(case), str(case.topology)) in chosen for case in (pair.a, pair.b))
    return describe_strategy(first, printed_names) if is_chosen and first == second else ""


def _order(
    ranking: Ranking, pair: Comparison, old: Collection[tuple[str, ...]]
) -> tuple[bool | int | float, ...]:
    """Sort key: pairs of one framework last, pairs of leading cases first, then newest releases, then the fastest."""
    sides = (pair.a, pair.b)
    is_of_one = key(pair.a.facts.get("framework")) == key(pair.b.facts.get("framework"))
    is_of_leaders = all(any(case is entry for entry in ranking.entries) for case in sides)
    older = sum(release(case) in old for case in sides)
    return is_of_one, not is_of_leaders, older, -pair.a.throughput, -pair.b.throughput


def _order_by_case(case: Case) -> tuple[str | int, ...]:
    """Sort key: model, precision, batch size and topology."""
    names = (str(case.facts.get(name, "")) for name in ("model", "precision"))
    return (*names, case.batch_size, case.topology.devices, case.topology.nodes)


def _facts(case: Case) -> tuple[str, ...]:
    return (
        str(case.topology),
        *(str(case.facts.get(name, "")) for name in ("model", "batch_size", "precision")),
    )


def _frameworks(pair: Comparison) -> str:
    return " and ".join(sorted({str(case.facts.get("framework")) for case in (pair.a, pair.b)}))


def _variants(cases: Sequence[Case]) -> Iterator[Comparison]:
    """Yield the pairs of two implementations of one framework that run variants of a network, such as v1.5 and v1b.

    The variants share the first word of their name. Their other facts agree, so that only the model rules a ratio out.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in sorted(cases, key=lambda case: -case.throughput):
        topology, model, *others = _facts(case)
        network = model.partition("-")[0]
        groups.setdefault((str(case.facts.get("framework")), network, topology, *others), []).append(case)
    for members in groups.values():
        for first, second in combinations(members, 2):
            names = ("model", "implementation")
            if all(key(first.facts.get(name)) != key(second.facts.get(name)) for name in names):
                yield compare(first, second, footnoted=True)


def _variant_row(pair: Comparison) -> tuple[Cell | str, ...]:
    topology, _, *others = _facts(pair.a)
    models = [str(case.facts.get("model")) for case in (pair.a, pair.b)]
    return (
        _frameworks(pair),
        topology,
        " and ".join(models),
        *others,
        "",
        *(f"{model}: {_describe(case, pair)}" for model, case in zip(models, (pair.a, pair.b), strict=True)),
        ABSENT,
        Cell("not comparable: variants of the model are other work", "bad"),
    )


def _name(case: Case) -> str:
    """Return framework, version and implementation of a case."""
    implementation = case.facts.get("implementation")
    framework, _, version = release(case)
    return " ".join(filter(None, (framework, version, f"({implementation})" if implementation else "")))


def _describe(case: Case, pair: Comparison) -> str:
    """Return the whole case with its throughput: name, compiler if a side has one, and the settings that it states."""
    compilers = {side.facts.get("compiler") for side in (pair.a, pair.b)} - {None, COMPILERS.default}
    compiler = case.facts.get("compiler")
    parts = [
        _name(case),
        *([f"with {compiler}"] if compiler in compilers else [f"without {name}" for name in compilers]),
        *(
            format_fact(name, case.facts[name])
            for name in (*LOADER_FACTS, "loss_scale", "layout")
            if name in case.facts
        ),
    ]
    return f"{', '.join(parts)}: {quantity(case.throughput, case.unit)}"


def _describe_unpaired(cases: Sequence[Case], pairs: Sequence[Comparison]) -> str:
    """Return sentences on the implementations of a model that are in no pair, with the reason; empty without any."""
    paired = {(_name(case), case.facts.get("model")) for pair in pairs for case in (pair.a, pair.b)}
    models: dict[str, set[str]] = {}
    for case in cases:
        models.setdefault(str(case.facts.get("model")), set()).add(_name(case))
    single = [f"{model}: {name}" for model, (name, *others) in models.items() if not others]
    unequal = [
        f"{model}: {name}"
        for model, names in models.items()
        if len(names) > 1
        for name in sorted(names)
        if (name, model) not in paired
    ]
    only = f"The only implementation of {'; '.join(single)}. " if single else ""
    others = f"In no pair, because no other is comparable: {'; '.join(unequal)}. "
    return only + (others if unequal else "")
