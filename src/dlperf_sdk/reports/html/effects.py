"""The section on the effect of each factor, everything else equal: paired ratios, their medians and intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from dlperf_sdk.analysis.case import FRAMEWORK_FACTS, LOADER_FACTS, Case, key
from dlperf_sdk.analysis.effects import Effect, adjust_effects, effect
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import case_charts
from dlperf_sdk.reports.html.effect_tables import (
    tabulate_answers,
    tabulate_by_topology,
    tabulate_medians,
    tabulate_pairs,
)
from dlperf_sdk.reports.html.effect_wording import (
    add_only_frameworks,
    describe_effect,
    describe_unpaired,
    name_effects,
)
from dlperf_sdk.reports.html.own_batch_sizes import precisions_at_own_batch_sizes
from dlperf_sdk.reports.html.page import Item, Plot, Section
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import NO_STRATEGY, STRATEGIES

_USUAL = {
    "precision": PRECISIONS.default,
    "data": DATA_SOURCES.default,
    "compiler": COMPILERS.default,
    "strategy": STRATEGIES.default,
    "input_pipeline": "DataLoader",
}
"""Default level of each factor, with which its other levels are compared; without one, the most frequent level."""
_NO_LEVEL = {"strategy": (None, NO_STRATEGY)}
_OF_WORKLOAD = ("batch_size", "clip_norm")
"""Parts of the workload whose effect is nevertheless estimated."""
_FEW = 3
"""Maximum number of effects of batch sizes that stand among the settings, and not in their own table."""
MAX_EFFECTS = 16
"""Maximum number of effects in the plot."""
MOST_CASES = 2000
"""Maximum number of cases that are paired; more would have millions of combinations."""


def estimate_effects(cases: Sequence[Case], factors: Sequence[str] = ()) -> tuple[Effect, ...]:
    """Return the effects of factors, with intervals and p-values adjusted for the number of effects.

    A level of a factor is compared with the factor's default, or with the most frequent level if no case has the
    default. If the levels are numbers, the throughput with the larger one is divided by that with the smaller one.
    Levels without a pair of cases that differ in nothing else have no effect. The effects are ordered by the unit of
    the throughput, then by factor. If there are more than `MOST_CASES` (2000) cases, the result is empty.

    Args:
        cases: The cases of a report, in which the runs of each case are merged into one.
        factors: Names of the factors, in the order of the effects; empty: all facts that identify a case, without the
            topology, and without facts of the workload other than batch size and clipping.
    """
    if len(cases) > MOST_CASES:
        return ()
    return adjust_effects([estimate for unit in _units(cases) for estimate in _effects(unit, factors)])


def section(
    cases: Sequence[Case],
    estimates: Sequence[Effect],
    printed_names: Mapping[str, str] = MappingProxyType({}),
) -> Section:
    """Return the section on effects: answers, ratios by topology, a plot, and every pair.

    It has no items if there is no effect. With more than `MOST_CASES` (2000) cases, it only says that these are too
    many.

    Args:
        cases: The cases of the report, in which the runs of each case are merged into one.
        estimates: Their effects, from `estimate_effects`.
        printed_names: Name of a strategy → the name that the published source has for it.
    """
    title = "Effects"
    if len(cases) > MOST_CASES:
        text = f"{len(cases):,} different cases are too many to pair: report on fewer of them to see the effects."
        return Section(title, (Paragraph(text, "quiet"),))
    if not estimates:
        return Section(title, ())
    tested = sum(estimate.low is not None for estimate in estimates)
    lede = (
        "The cases of a pair differ in this setting only, unless it says what changed as well. "
        f"Above 1 the first is faster. {_describe_multiplicity(tested)}"
    )
    method = Paragraph(
        "Pairs of one framework are alike, so each framework counts once, with its median pair (between frameworks: "
        "each model), and the ratio is the median of these.",
        "quiet",
    )
    own_batch_sizes = precisions_at_own_batch_sizes(cases)
    bare = _name(estimates, printed_names)
    named = add_only_frameworks(bare)
    unpaired = [f"{name}: {text}" for name, effect in bare if (text := describe_unpaired(effect, cases))]
    settings = [entry for entry in named if entry[1].factor != "batch_size"]
    batches = [entry for entry in named if entry[1].factor == "batch_size"]
    if len(batches) <= _FEW:
        settings, batches = [*settings, *batches], []
    hint = " The next table has the ratio of the precisions at these batch sizes." if own_batch_sizes else ""
    items: tuple[Item, ...] = (
        *([tabulate_answers(settings)] if settings else []),
        *(
            [Paragraph(f"No pair at equal batch size and settings: {'; '.join(unpaired)}.{hint}", "quiet")]
            if unpaired
            else []
        ),
        *own_batch_sizes,
        *tabulate_by_topology(bare, printed_names),
        *([tabulate_answers(batches, "Effects of the batch size")] if batches else []),
        method,
        _plot(named),
        tabulate_pairs(bare),
    )
    return Section(title, items, lede)


def _describe_multiplicity(tested: int) -> str:
    """Return the sentence on the number of effects that were tested together."""
    if tested == 0:
        return "Too few frameworks for an interval: the pairs describe these cases only."
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


def _name(estimates: Sequence[Effect], printed_names: Mapping[str, str]) -> list[tuple[str, Effect]]:
    """Return the effects with their names. Data loaders come behind the settings of frameworks.

    Batch sizes, which have sweeps as well, come last.
    """
    last = (*LOADER_FACTS, "batch_size")
    return sorted(
        zip(name_effects(estimates, printed_names), estimates, strict=True),
        key=lambda entry: last.index(entry[1].factor) if entry[1].factor in last else -1,
    )


def _plot(named: Sequence[tuple[str, Effect]]) -> Plot:
    """Return the plot of the effects with most pairs."""
    minimum = sorted((len(estimate.pairs) for _, estimate in named), reverse=True)[:MAX_EFFECTS][-1]
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
    # Effects of different settings rest on different cases, so none is named as the largest.
    caption = f"{format_count(len(drawn), 'effect')} in {format_count(len(rows), 'pair')}."
    if len(drawn) == 1:
        caption = describe_effect(drawn[0][1])
    if len(named) > len(drawn):
        caption += f" {len(named) - len(drawn)} more with fewer pairs are in the table only."
    return Plot(
        "Paired ratios of throughputs: a ring per pair, a diamond for their median",
        caption,
        partial(case_charts.ratios, rows, summaries),
        tabulate_medians(named),
    )
