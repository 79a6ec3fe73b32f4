"""The section on the effect of each factor, everything else equal: paired ratios, their medians and intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dlperf_sdk.analysis.case import FRAMEWORK_FACTS, Case, key
from dlperf_sdk.analysis.effects import Effect, Pair, adjust_effects, effect
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html import case_charts
from dlperf_sdk.reports.html.own_batch_sizes import precisions_at_own_batch_sizes
from dlperf_sdk.reports.html.page import Folded, Item, Plot, Section, Sortable
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import NO_STRATEGY, STRATEGIES
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median

_USUAL = {
    "precision": PRECISIONS.default,
    "data": DATA_SOURCES.default,
    "compiler": COMPILERS.default,
    "strategy": STRATEGIES.default,
}
"""Default level of each factor, with which its other levels are compared; without one, the most frequent level."""
_NO_LEVEL = {"strategy": (None, NO_STRATEGY)}
_OF_WORKLOAD = ("batch_size", "clip_norm")
"""Parts of the workload whose effect is nevertheless estimated."""
MAX_EFFECTS = 16
"""Maximum number of effects in the plot."""
_MOST_MODELS = 2
"""Maximum number of models in the name of an effect."""
_MOST_UNITS = 6
"""Maximum number of frameworks of an effect whose own ratios are stated."""
MOST_PAIRS = 1000
"""Maximum number of pairs that are listed. Each takes half a kilobyte of the page."""
MOST_CASES = 2000
"""Maximum number of cases that are paired; more would have millions of combinations."""


def section(cases: Sequence[Case], factors: Sequence[str] = ()) -> Section:
    """Return the section on effects; without items if no two cases differ in a single factor.

    With more than `MOST_CASES` cases it only says that there are too many.

    Args:
        cases: The merged cases.
        factors: Names of the factors; empty: all with at least two levels.
    """
    title = "Effects"
    if len(cases) > MOST_CASES:
        text = f"{len(cases):,} different cases are too many to pair: report on fewer of them to see the effects."
        return Section(title, (Paragraph(text, "quiet"),))
    estimates = adjust_effects([estimate for unit in _units(cases) for estimate in _effects(unit, factors)])
    if not estimates:
        return Section(title, ())
    tested = sum(estimate.low is not None for estimate in estimates)
    lede = (
        "The two cases of a pair differ in this setting, and in what its name has in parentheses, which cannot be "
        "separated from it. Above 1 the first is faster."
    )
    method = Paragraph(
        "Pairs of one framework are alike, so each framework counts once, with its median pair (between frameworks: "
        f"each model), and the ratio is the median of these. {_describe_multiplicity(tested)}",
        "quiet",
    )
    answers, *details = _items(estimates)
    return Section(title, (answers, method, *details, *precisions_at_own_batch_sizes(cases)), lede)


def _describe_multiplicity(tested: int) -> str:
    """Return the sentence on the number of effects that were tested together."""
    if tested == 0:
        return "These are too few frameworks for an interval: the pairs describe these cases only."
    if tested == 1:
        return "One effect here has an interval."
    return (
        f"{tested} effects here have an interval: intervals and p-values are adjusted for this number (Bonferroni), so "
        "all of them hold together at 95 %."
    )


def _units(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Group the cases by the unit of their throughput: different units have no ratio."""
    for unit in dict.fromkeys(case.unit for case in cases):
        yield [case for case in cases if case.unit == unit]


def _effects(cases: Sequence[Case], factors: Sequence[str]) -> Iterator[Effect]:
    fixed = {name for case in cases for name in case.identifying_facts()}
    roles = {name: role for case in cases for name, role in case.roles.items()}
    names = factors or sorted(
        name for name in fixed - {"topology"} if roles[name] != "workload" or name in _OF_WORKLOAD
    )
    for name in names:
        for level, reference in _levels(cases, name):
            try:
                estimate = effect(cases, factor=name, levels=(level, reference))
            except AnalysisError:
                # No two cases differ in this factor only, or several cases are the same side of a pair.
                continue
            # A version or layout that changed with the framework is part of the framework's effect.
            if name not in FRAMEWORK_FACTS or "framework" not in estimate.confounded:
                yield estimate


def _levels(cases: Sequence[Case], name: str) -> Iterator[tuple[Any, Any]]:
    """Return the pairs of each other level with the usual one."""
    # A single device has no strategy, which is not a level.
    stated = [case.facts[name] for case in cases if case.facts.get(name) not in _NO_LEVEL.get(name, (None,))]
    values = {key(value): value for value in stated}
    if len(values) < 2:
        return
    usual = key(_USUAL.get(name))
    reference = usual if usual in values else Counter(map(key, stated)).most_common(1)[0][0]
    for level, value in sorted(values.items(), key=_size_key):
        if level != reference:
            # Of two numbers, the larger is divided by the smaller.
            pair = (value, values[reference])
            are_numbers = all(
                isinstance(number, int | float) and not isinstance(number, bool) for number in pair
            )
            yield (max(pair), min(pair)) if are_numbers else pair


def _size_key(level: tuple[str, Any]) -> tuple[float, str]:
    name, value = level
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (value if is_number else math.inf, "" if is_number else name)


def _names(estimates: Sequence[Effect]) -> list[str]:
    """Return a name for each effect: its levels, its models if there are several, and what changed as well."""
    bare = [" ÷ ".join(_level_names(estimate)) for estimate in estimates]
    models = {pair.a.facts.get("model") for estimate in estimates for pair in estimate.pairs}
    names = []
    for name, estimate in zip(bare, estimates, strict=True):
        is_of_all = {pair.a.facts.get("model") for pair in estimate.pairs} == models
        changed = " and ".join(fact.replace("_", " ") for fact in estimate.confounded)
        names.append(
            name
            + ("" if is_of_all else f", {_models(estimate)}")
            + (f" ({changed} changed as well)" if changed else "")
        )
    return names


def _level_names(estimate: Effect) -> tuple[str, str]:
    first, second = (format_fact(estimate.factor, level) for level in estimate.levels)
    if isinstance(estimate.levels[0], str):
        factor = estimate.factor.replace("_", " ")
        return (f"no {factor}" if first == "none" else first), (
            f"no {factor}" if second == "none" else second
        )
    return first, key(estimate.levels[1])


def _models(estimate: Effect) -> str:
    """Return the models of the pairs, of which effects of other units have none; of many models the unit."""
    models = dict.fromkeys(str(pair.a.facts.get("model")) for pair in estimate.pairs)
    return ", ".join(models) if len(models) <= _MOST_MODELS else estimate.pairs[0].a.unit


def _items(estimates: Sequence[Effect]) -> tuple[Item, ...]:
    # Batch sizes, which have sweeps as well, come last.
    named = sorted(
        zip(_names(estimates), estimates, strict=True), key=lambda entry: entry[1].factor == "batch_size"
    )
    minimum = sorted((len(estimate.pairs) for estimate in estimates), reverse=True)[:MAX_EFFECTS][-1]
    drawn = [(name, estimate) for name, estimate in named if len(estimate.pairs) >= minimum][:MAX_EFFECTS]
    rows: list[dict[str, Any]] = []
    summaries = []
    for name, estimate in drawn:
        summary: dict[str, Any] = {"label": name, "value": estimate.median, "shown": f"{estimate.median:.3f}"}
        if estimate.low is not None and estimate.high is not None:
            summary |= {
                "low": estimate.low,
                "high": estimate.high,
                "interval": f"{estimate.low:.3f} – {estimate.high:.3f}",
            }
        summaries.append(summary)
        for pair in estimate.pairs:
            fixed = ", ".join(
                format_fact(fact, value) for fact, value in pair.shared.items() if value is not None
            )
            rows.append({"label": name, "held": fixed, "ratio": pair.ratio, "shown": f"{pair.ratio:.3f}"})
    _, largest = max(drawn, key=lambda entry: abs(math.log(entry[1].median)))
    caption = _sentence(largest)
    if len(drawn) > 1:
        caption = f"{format_count(len(drawn), 'effect')} in {format_count(len(rows), 'pair')}. The largest: {caption}"
    if len(estimates) > len(drawn):
        caption += f" {len(estimates) - len(drawn)} more with fewer pairs are in the table only."
    plot = Plot(
        "Paired ratios of throughputs: a ring per pair, a diamond for their median",
        caption,
        partial(case_charts.ratios, rows, summaries),
        _table(named),
    )
    return (_answers(named), *_by_topology(named), plot, _pairs(named))


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
"""Facts of pairs with a column of their own, if they differ."""
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


def _pairs(named: Sequence[tuple[str, Effect]]) -> Folded:
    """Return a row for each pair of cases: where the setting helps, and where no pair shows it."""
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
    titles = ("effect", *(fact.replace("_", " ") for fact in _OF_PAIRS), "settings", "ratio")
    # A fact that all pairs share tells none of them apart.
    indexes = [
        index
        for index, title in enumerate(titles)
        if title in ("effect", "framework", "ratio") or len({row[index] for row in rows}) > 1
    ]
    columns = tuple(Column(titles[index], right=titles[index] == "ratio") for index in indexes)
    title = "Every pair" if len(rows) <= MOST_PAIRS else f"The first {MOST_PAIRS:,} of {len(rows):,} pairs"
    table = Table(columns, tuple(tuple(row[index] for index in indexes) for row in rows[:MOST_PAIRS]))
    filters = ("effect", "framework", "model", "topology", "hardware")
    return Folded(title, (Sortable(table, filters, _PAGE_ROWS),))


_PAGE_ROWS = 20


def _shared_value(pair: Pair, name: str) -> Any:
    """Return the value of a fact that both cases of a pair have; None if they differ in it or do not state it."""
    value = pair.a.facts.get(name)
    return value if key(value) == key(pair.b.facts.get(name)) else None


def _answers(named: Sequence[tuple[str, Effect]]) -> Table:
    """Return the answer for each effect in a row."""
    has_intervals = any(estimate.low is not None for _, estimate in named)
    rows: list[tuple[Cell | str, ...]] = []
    for name, estimate in named:
        interval = ""
        if estimate.low is not None and estimate.high is not None:
            interval = f"{estimate.low:.2f} – {estimate.high:.2f}"
        rows.append(
            (
                name,
                f"{estimate.median:.2f}×",
                *([interval] if has_intervals else []),
                _certainty(estimate, has_intervals),
                _describe_shared(estimate),
            )
        )
    columns = (
        Column("effect", key=True),
        Column("ratio", right=True),
        *([Column("95 % interval", right=True)] if has_intervals else []),
        Column("how certain"),
        Column("all pairs are of"),
    )
    used = [index for index in range(len(columns)) if any(row[index] not in ("", Cell("")) for row in rows)]
    return Table(
        tuple(columns[index] for index in used), tuple(tuple(row[index] for index in used) for row in rows)
    )


def _certainty(estimate: Effect, has_intervals: bool) -> Cell:
    """Return how many pairs of an effect agree and, if any effect has an interval, the significance."""
    significance = _significance(estimate)
    ratios = [pair.ratio for pair in estimate.pairs]
    if len(ratios) == 1:
        return significance if has_intervals else Cell("a single pair", "quiet")
    spread = f"({min(ratios):.2f} – {max(ratios):.2f})"
    count, side = max((sum(r > 1 for r in ratios), "faster"), (sum(r < 1 for r in ratios), "slower"))
    agreement = f"{count} of {len(ratios)} pairs {side} {spread}"
    if f"{estimate.median:.2f}" == "1.00":
        agreement = f"{len(ratios)} pairs without a common direction {spread}"
    # A single framework is named among what all pairs share.
    is_shared = len(estimate.units) == 1 and estimate.unit in estimate.holding
    text = agreement if is_shared else f"{agreement}, {_describe_units(estimate)}"
    return Cell(f"{text}; {significance.text}" if has_intervals else text, significance.tone)


def _describe_shared(estimate: Effect) -> str:
    """Return the facts that are equal in all pairs and differ among the cases, as text."""
    shared = {}
    for name in ("framework", "framework_version", *_SHOWN):
        values = {key(pair.shared.get(name)): pair.shared.get(name) for pair in estimate.pairs}
        if name in estimate.holding and len(values) == 1:
            (shared[name],) = values.values()
    version = shared.pop("framework_version", None)
    if "framework" in shared and version:
        shared["framework"] = f"{shared['framework']} {version}"
    return ", ".join(format_fact(name, value) for name, value in shared.items() if value is not None)


_SHOWN = ("precision", "batch_size", "clip_norm", "hardware", "topology", "data")
_SPREAD = 1.02
"""Ratio of the largest to the smallest median from which the topologies are listed."""


def _by_topology(named: Sequence[tuple[str, Effect]]) -> tuple[Table, ...]:
    """Return a table of the median ratios on each topology, for each framework, model and hardware of an effect.

    It has the effects whose ratios differ between these; without any the result is empty. Batch sizes, which have
    sweeps, are left out.
    """
    parts = [
        (name, group, places)
        for name, estimate in named
        if estimate.factor != "batch_size"
        for group, places in _medians_by_topology(estimate).items()
    ]
    if not parts:
        return ()
    topologies = sorted(
        {topology for *_, places in parts for topology in places},
        key=lambda topology: (topology.devices, topology.nodes),
    )
    columns = (
        Column("effect", key=True),
        Column("of", key=True),
        *(Column(str(topology), right=True) for topology in topologies),
    )
    none = Cell("–", "quiet")
    rows = [
        (
            name,
            group,
            *(f"{places[topology]:.2f}×" if topology in places else none for topology in topologies),
        )
        for name, group, places in parts
    ]
    return (Table(columns, tuple(rows), "The same effects by topology, framework, model and hardware"),)


def _medians_by_topology(estimate: Effect) -> dict[str, dict[TopologySpec, float]]:
    """Return the median ratio by group and topology; empty if they are alike, or if there is only one."""
    split = [
        name
        for name in ("framework", "model", "hardware")
        if name != estimate.factor and len({key(_shared_value(pair, name)) for pair in estimate.pairs}) > 1
    ]
    groups: dict[str, dict[TopologySpec, list[float]]] = {}
    for pair in estimate.pairs:
        name = " ".join(str(_shared_value(pair, fact)) for fact in split)
        if pair.a.topology == pair.b.topology:
            groups.setdefault(name, {}).setdefault(pair.a.topology, []).append(pair.ratio)
    medians = {
        name: {topology: median(ratios) for topology, ratios in places.items()}
        for name, places in groups.items()
    }
    values = [value for places in medians.values() for value in places.values()]
    return medians if len(values) > 1 and max(values) / min(values) >= _SPREAD else {}


def _sentence(estimate: Effect) -> str:
    """Return the ratio, its interval and its test in one sentence."""
    levels = [format_fact(estimate.factor, level) for level in estimate.levels]
    if len(estimate.pairs) > 1:
        units_text = f" over {_units_of(estimate)}" if len(estimate.units) > 1 else ""
        pairs = f"{len(estimate.pairs)} pairs, {_describe_units(estimate)}"
        ratio = f"{estimate.median:.3f} times (median{units_text}; {pairs})"
    else:
        (pair,) = estimate.pairs
        if estimate.factor == "framework":
            levels = [pair.a.framework, pair.b.framework]
        ratio = f"{estimate.median:.3f} times"
    text = f"{levels[0]} reaches {ratio} the throughput of {levels[1]}"
    if estimate.low is None:
        return f"{text}; there are too few {_units_of(estimate)} for an interval."
    conclusion = "significant" if estimate.significant else "not significant"
    interval = f"95 % interval {estimate.low:.3f} to {estimate.high:.3f}"
    return f"{text}: {interval}, {conclusion} (p = {estimate.p:.2g})."


def _units_of(estimate: Effect) -> str:
    return "repeats" if len(estimate.pairs) == 1 else f"{estimate.unit}s"


def _describe_units(estimate: Effect) -> str:
    """Return the frameworks or models of the pairs: `all of torch`, `of 2 frameworks`."""
    names = list(estimate.units)
    if len(names) == 1:
        return f"all of {names[0]}"
    ratios = ", ".join(f"{name} {ratio:.2f}×" for name, ratio in list(estimate.units.items())[:_MOST_UNITS])
    remainder = f" and {len(names) - _MOST_UNITS} more" if len(names) > _MOST_UNITS else ""
    return f"of {len(names)} {estimate.unit}s ({ratios}{remainder})"


def _table(named: Sequence[tuple[str, Effect]]) -> Table:
    rows = [
        (
            estimate.factor.replace("_", " "),
            name,
            str(len(estimate.pairs)),
            str(estimate.unpaired),
            f"{estimate.median:.3f}",
            Cell("–", "quiet")
            if estimate.low is None or estimate.high is None
            else f"{estimate.low:.3f} – {estimate.high:.3f}",
            f"{min(pair.ratio for pair in estimate.pairs):.3f} – {max(pair.ratio for pair in estimate.pairs):.3f}",
            _significance(estimate),
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
        Column("lowest – highest", right=True),
        Column("how certain"),
    )
    return Table(columns, tuple(rows))


def _significance(estimate: Effect) -> Cell:
    if estimate.significant is None:
        return Cell(f"too few {_units_of(estimate)} for an interval", "quiet")
    p_value = f"p = {estimate.p:.2g}"
    return Cell(
        f"significant, {p_value}" if estimate.significant else f"not significant, {p_value}",
        "good" if estimate.significant else "quiet",
    )
