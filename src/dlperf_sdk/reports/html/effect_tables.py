"""Tables of effects: the answers, the medians by topology, every pair, and the numbers behind the plot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dlperf_sdk.analysis.case import key
from dlperf_sdk.analysis.effects import Effect, Pair
from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Table, interval_cell
from dlperf_sdk.reports.html.effect_wording import (
    describe_certainty,
    describe_evidence,
    describe_ratio,
    describe_shared_facts,
    describe_significance,
)
from dlperf_sdk.reports.html.page import Folded, Sortable
from dlperf_sdk.reports.numbers import format_ends
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.reports.wording import describe_strategy, format_name
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median

MOST_PAIRS = 1000
"""Maximum number of pairs that are listed. Each takes half a kilobyte of the page."""
_OF_PAIRS = (
    "framework",
    "framework_version",
    "model",
    "topology",
    "batch_size",
    "precision",
    "hardware",
    "data",
)
"""Facts of pairs with their own column, if they differ."""
_SETTINGS = (
    "clip_norm",
    "compiler",
    "implementation",
    "input_pipeline",
    "layout",
    "loader_workers",
    "loss_scale",
)
"""Facts of pairs that share a column."""
_OF_GROUPS = ("framework", "model", "hardware", "batch_size")
"""Facts with their own column in the table of ratios by topology."""
_PAGE_ROWS = 20
_GROUP_ROWS = 10


def tabulate_answers(named: Sequence[tuple[str, Effect]], title: str = "") -> Table:
    """Return a table with a row per effect, in the given order, which says whether the setting makes cases faster.

    A row has the name, the ratio, its interval if any effect has one, the significance, the evidence, and the facts
    that all pairs share. Columns without content are left out.

    Args:
        named: The effects, each with its name in front.
        title: Title of the table; empty for none.
    """
    has_intervals = any(estimate.low is not None for _, estimate in named)
    rows: list[tuple[Cell | str, ...]] = []
    for name, estimate in named:
        interval = ""
        if estimate.low is not None and estimate.high is not None:
            interval = " – ".join(format_ends(estimate.low, estimate.high))
        rows.append(
            (
                name,
                describe_ratio(estimate),
                *([interval] if has_intervals else []),
                describe_certainty(estimate),
                describe_evidence(estimate),
                describe_shared_facts(estimate),
            )
        )
    columns = (
        Column("effect", key=True),
        Column("ratio", whole=True),
        *([Column("95 % interval", right=True)] if has_intervals else []),
        Column("certainty"),
        Column("rests on"),
        Column("all pairs are of"),
    )
    return Table(columns, tuple(rows), title).without_empty_columns()


def tabulate_by_topology(
    named: Sequence[tuple[str, Effect]], printed_names: Mapping[str, str]
) -> tuple[Sortable, ...]:
    """Return a sortable table of the ratios of effects, with a column per topology.

    A row has the pairs of one effect that are equal in all facts but the topology. If several pairs have the same
    topology, their median ratio is shown. A row names those settings that are not the same in all pairs of the table.
    Pairs across two topologies, effects with a single pair, and effects of the batch size are left out. The tuple has
    that one table; it is empty if nothing is left.

    Args:
        named: The effects, each with its name in front.
        printed_names: Name of a strategy → the name that the published source has for it.
    """
    selected = [
        (name, estimate)
        for name, estimate in named
        if estimate.factor != "batch_size" and len(estimate.pairs) > 1
    ]
    pairs = [pair for _, estimate in selected for pair in estimate.pairs]
    settings = {
        fact for fact in ("precision", *_SETTINGS) if len({_values(pair, fact) for pair in pairs}) > 1
    }
    parts = [
        (name, group, places)
        for name, estimate in selected
        for group, places in _ratios_by_topology(estimate, settings, printed_names).items()
    ]
    if not parts:
        return ()
    topologies = sorted(
        {topology for *_, places in parts for topology in places},
        key=lambda topology: (topology.devices, topology.nodes),
    )
    rows = [
        (
            name,
            *(text or ABSENT for text in group),
            *(f"{places[topology]:.2f}×" if topology in places else ABSENT for topology in topologies),
        )
        for name, group, places in parts
    ]
    columns = (
        Column("effect", key=True),
        *(Column(format_name(fact), right=fact == "batch_size", key=True) for fact in _OF_GROUPS),
        Column("settings"),
        *(Column(str(topology), right=True) for topology in topologies),
    )
    # A fact that no effect has, such as the framework of pairs between frameworks, has no column.
    absent = {
        index
        for index, fact in enumerate((*_OF_GROUPS, "settings"), 1)
        if fact != "framework" and len({row[index] for row in rows}) == 1
    }
    title = "The same effects by framework, case and topology; both sides have the same batch size"
    table = Table(columns, tuple(rows), title).select([i for i in range(len(columns)) if i not in absent])
    filters = ("effect", *(format_name(fact) for fact in _OF_GROUPS), "settings")
    return (Sortable(table, filters, _GROUP_ROWS),)


def _ratios_by_topology(
    estimate: Effect, settings: Collection[str], printed_names: Mapping[str, str]
) -> dict[tuple[str, ...], dict[TopologySpec, float]]:
    """Return the ratios by case and topology; the median of pairs that no stated fact tells apart.

    A case is the values of `_OF_GROUPS`, and its settings: those of `settings`, and those that distinguish it from
    others with the same values.
    """
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in estimate.pairs:
        if pair.a.topology == pair.b.topology:
            group = tuple(_describe_shared(pair, fact) for fact in _OF_GROUPS)
            groups.setdefault(group, []).append(pair)
    ratios: dict[tuple[str, ...], dict[TopologySpec, list[float]]] = {}
    for group, pairs in groups.items():
        names = {name for pair in pairs for case in (pair.a, pair.b) for name in case.identifying_facts()}
        names -= {"topology", estimate.factor, *_OF_GROUPS}
        stated = [
            name
            for name in sorted(names)
            if name in settings or len({_values(pair, name) for pair in pairs}) > 1
        ]
        for pair in pairs:
            text = ", ".join(filter(None, (_describe_setting(pair, name, printed_names) for name in stated)))
            ratios.setdefault((*group, text), {}).setdefault(pair.a.topology, []).append(pair.ratio)
    return {
        group: {topology: median(values) for topology, values in places.items()}
        for group, places in ratios.items()
    }


def _values(pair: Pair, name: str) -> tuple[str, str]:
    return key(pair.a.facts.get(name)), key(pair.b.facts.get(name))


def _describe_setting(pair: Pair, name: str, printed_names: Mapping[str, str]) -> str:
    """Return the value of a fact of a pair, or both values if they differ; empty if neither side states it."""
    stated = {key(case.facts[name]): case.facts[name] for case in (pair.a, pair.b) if name in case.facts}
    return " ÷ ".join(
        describe_strategy(value, printed_names) if name == "strategy" else format_fact(name, value)
        for value in stated.values()
    )


def _describe_shared(pair: Pair, name: str) -> str:
    """Return the value of a fact of a pair, or both values if they differ."""
    values = dict.fromkeys(str(case.facts.get(name, "–")) for case in (pair.a, pair.b))
    return " ÷ ".join(values)


def tabulate_pairs(named: Sequence[tuple[str, Effect]]) -> Folded:
    """Return a folded, sortable table with a row for each pair of cases: the effect, the shared settings and the ratio.

    It has the first `MOST_PAIRS` (1000) pairs; its title states the number of all. Columns in which the pairs do not
    differ are left out, except those of the effect, the framework and the ratio.

    Args:
        named: The effects, at least one, each with its name in front.
    """
    rows = []
    for name, estimate in named:
        for pair in estimate.pairs:
            settings = (_shared_value(pair, fact) for fact in _SETTINGS)
            texts = [
                format_fact(*setting)
                for setting in zip(_SETTINGS, settings, strict=True)
                if setting[1] is not None
            ]
            shared = [_shared_value(pair, fact) for fact in _OF_PAIRS]
            if estimate.factor == "framework":
                shared[0] = f"{pair.a.framework} ÷ {pair.b.framework}"
            cells = ["–" if value is None else str(value) for value in shared]
            rows.append((name, *cells, ", ".join(texts), f"{pair.ratio:.3f}"))
    titles = ("effect", *map(format_name, _OF_PAIRS), "settings", "ratio")
    # A fact that all pairs share tells none of them apart.
    indexes = [
        index
        for index, title in enumerate(titles)
        if title in ("effect", "framework", "ratio") or len({row[index] for row in rows}) > 1
    ]
    columns = tuple(Column(title, right=title == "ratio") for title in titles)
    title = "Every pair" if len(rows) <= MOST_PAIRS else f"The first {MOST_PAIRS:,} of {len(rows):,} pairs"
    table = Table(columns, tuple(rows[:MOST_PAIRS])).select(indexes)
    filters = ("effect", "framework", "model", "topology", "hardware")
    return Folded(title, (Sortable(table, filters, _PAGE_ROWS),))


def _shared_value(pair: Pair, name: str) -> Any:
    """Return the value of a fact that both cases of a pair have; None if they differ in it or do not state it."""
    value = pair.a.facts.get(name)
    return value if key(value) == key(pair.b.facts.get(name)) else None


def tabulate_medians(named: Sequence[tuple[str, Effect]]) -> Table:
    """Return a table of the numbers behind the plot of effects, with a row per effect in the given order.

    A row has the factor, the numbers of pairs and of unpaired cases, the median ratio, its interval, the lowest and
    the highest ratio, and the significance.

    Args:
        named: The effects, each with its name in front.
    """
    rows = [
        (
            format_name(estimate.factor),
            name,
            str(len(estimate.pairs)),
            str(estimate.unpaired),
            f"{estimate.median:.3f}",
            interval_cell(estimate.low, estimate.high, lambda low, high: f"{low:.3f} – {high:.3f}"),
            f"{min(pair.ratio for pair in estimate.pairs):.3f} – {max(pair.ratio for pair in estimate.pairs):.3f}",
            describe_significance(estimate),
        )
        for name, estimate in named
    ]
    columns = (
        Column("factor"),
        Column("ratio"),
        Column("pairs", right=True),
        Column("unpaired", right=True),
        Column("median", right=True),
        Column("95 % interval", right=True),
        Column("lowest – highest pair", right=True),
        Column("how certain"),
    )
    return Table(columns, tuple(rows))
