"""Names of effects, and what the report says about one: its sentence, its evidence, what its pairs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.effects import Effect
from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.numbers import format_count, format_ends
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.reports.wording import describe_strategy, format_value
from dlperf_sdk.spec.data_source import DATA_SOURCES

_MOST_MODELS = 2
"""Maximum number of models in the name of an effect."""
_MOST_UNITS = 6
"""Maximum number of frameworks of an effect whose own ratios are stated."""
_REAL = tuple(source.name for source in DATA_SOURCES if source.takes_folder)
"""Names of the sources of real data."""
_SHOWN = ("precision", "batch_size", "clip_norm", "hardware", "topology", "data")


def name_effects(estimates: Sequence[Effect], printed_names: Mapping[str, str]) -> list[str]:
    """Return a name for each effect, in their order: its two levels, its models, and other facts that changed as well.

    The models are left out if the effect has all models that occur in any of the effects. An effect of more than two
    models has the unit of its throughputs, such as `img/s`, in place of the models.

    Args:
        estimates: The effects.
        printed_names: Name of a strategy → the name that the published source has for it.
    """
    bare = [" ÷ ".join(_level_names(estimate, printed_names)) for estimate in estimates]
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


def add_only_frameworks(named: Sequence[tuple[str, Effect]]) -> list[tuple[str, Effect]]:
    """Return the effects with their names, and append the framework to the name of an effect of a single framework.

    The appended text is such as `, tensorflow only`. Nothing is appended if all effects together have a single
    framework.

    Args:
        named: All effects of a report, each with its name in front.
    """
    frameworks = {name for _, estimate in named if estimate.unit == "framework" for name in estimate.units}
    return [
        (f"{name}, {next(iter(estimate.units))} only", estimate)
        if estimate.unit == "framework" and len(estimate.units) == 1 < len(frameworks)
        else (name, estimate)
        for name, estimate in named
    ]


def _level_names(estimate: Effect, printed_names: Mapping[str, str]) -> tuple[str, str]:
    first, second = (format_fact(estimate.factor, level) for level in estimate.levels)
    if estimate.factor == "strategy":
        first, second = (describe_strategy(level, printed_names) for level in estimate.levels)
        return f"strategy {first}", second
    if estimate.factor == "data":
        first, second = (f"real ({level})" if level in _REAL else level for level in (first, second))
    if isinstance(estimate.levels[0], str):
        factor = estimate.factor.replace("_", " ")
        return (f"no {factor}" if first == "none" else first), (
            f"no {factor}" if second == "none" else second
        )
    return first, format_value(estimate.factor, key(estimate.levels[1]))


def _models(estimate: Effect) -> str:
    """Return the names of the models of the pairs; for more than `_MOST_MODELS`, return the unit of the cases."""
    models = dict.fromkeys(str(pair.a.facts.get("model")) for pair in estimate.pairs)
    return ", ".join(models) if len(models) <= _MOST_MODELS else estimate.pairs[0].a.unit


def describe_ratio(estimate: Effect) -> str:
    """Return the median ratio of an effect and, of several pairs, the extremes: `1.29×; pairs 1.10× to 1.41×`."""
    ratios = [pair.ratio for pair in estimate.pairs]
    low, high = format_ends(min(ratios), max(ratios))
    extent = f"; pairs {low}× to {high}×" if len(ratios) > 1 else ""
    return f"{estimate.median:.2f}×{extent}"


def describe_certainty(estimate: Effect) -> Cell:
    """Return a cell with the significance of an effect and the number of repeats of its cases.

    Without an interval, the number of frameworks, models or pairs replaces the significance. The text is such as
    `significant, p = 0.031; 7 repeats` or `no interval: 1 framework; repeats not stated`.
    """
    cases = [case for pair in estimate.pairs for case in (pair.a, pair.b)]
    counts = {case.protocol.repeats or len(case.repeats) for case in cases}
    stated = " or ".join(str(count) for count in sorted(counts) if count)
    repeats = "run once" if stated == "1" else f"{stated} repeats" if stated else "repeats not stated"
    if stated and 0 in counts:
        repeats += ", or not stated"
    if estimate.significant is not None:
        significance = describe_significance(estimate)
        return Cell(f"{significance.text}; {repeats}", significance.tone)
    units = "1 pair" if len(estimate.pairs) == 1 else format_count(len(estimate.units), estimate.unit)
    return Cell(f"no interval: {units}; {repeats}", "doubt")


def describe_evidence(estimate: Effect) -> Cell:
    """Return a cell with the evidence of an effect: the number of its pairs, their direction, and their frameworks.

    The text is such as `6 pairs, all faster, of 2 frameworks (torch 1.20×, jax 1.31×)`. For an effect of
    the framework, it has models in place of frameworks.
    """
    ratios = [pair.ratio for pair in estimate.pairs]
    count, side = max((sum(r > 1 for r in ratios), "faster"), (sum(r < 1 for r in ratios), "slower"))
    agreement = f"{'all' if count == len(ratios) else f'{count} of them'} {side}"
    if f"{estimate.median:.2f}" == "1.00":
        agreement = "without a common direction"
    text = f"{len(ratios)} pairs, {agreement}, {_describe_units(estimate)}"
    if len(estimate.units) == 1:
        version = _find_shared(estimate).get("framework_version")
        name = " ".join(filter(None, (next(iter(estimate.units)), version)))
        pairs = _count_pairs(estimate)
        text = f"{name}: " + (f"{pairs}, {agreement}" if len(ratios) > 1 else pairs)
    return Cell(text, "quiet")


def _count_pairs(estimate: Effect) -> str:
    """Return the number of pairs, and of the cases and topologies that they are of."""
    count, topologies = len(estimate.pairs), {pair.a.topology for pair in estimate.pairs}
    cases = {
        tuple(
            (name, key(pair.a.facts.get(name)), key(pair.b.facts.get(name)))
            for name in sorted(pair.a.identifying_facts() | pair.b.identifying_facts())
            if name != "topology"
        )
        for pair in estimate.pairs
    }
    if count == 1:
        return "a single pair"
    if len(cases) == 1:
        return f"{count} topologies of one case"
    if len(topologies) == 1:
        return f"{count} pairs on {next(iter(topologies))}"
    return f"{count} pairs ({len(cases)} cases on {len(topologies)} topologies)"


def describe_unpaired(estimate: Effect, cases: Sequence[Case]) -> str:
    """Return the frameworks that were measured with both levels of an effect, but are in none of its pairs, as text.

    The frameworks are separated by commas. Each has the reason why it is in no pair, as in `torch (batch 32 ÷ 64)`. The
    text is empty without such a framework, and for effects of batch sizes or frameworks.

    Args:
        estimate: The effect.
        cases: All cases of the report.
    """
    if estimate.factor in ("batch_size", "framework"):
        return ""
    models = {key(pair.a.facts.get("model")) for pair in estimate.pairs}
    batches: dict[str, tuple[set[int], ...]] = {}
    for case in cases:
        framework = str(case.facts.get("framework"))
        if framework not in estimate.units and key(case.facts.get("model")) in models:
            for sizes, level in zip(
                batches.setdefault(framework, (set(), set())), estimate.levels, strict=True
            ):
                if key(case.facts.get(estimate.factor)) == key(level):
                    sizes.add(case.batch_size)
    texts = [
        f"{framework} ({'other settings' if first & second else _describe_batches(first, second)})"
        for framework, (first, second) in batches.items()
        if first and second
    ]
    return ", ".join(texts)


def _describe_batches(*sides: set[int]) -> str:
    return f"batch {' ÷ '.join(', '.join(map(str, sorted(sizes))) for sizes in sides)}"


def describe_shared_facts(estimate: Effect) -> str:
    """Return the facts with one value in all pairs of an effect, but not in all cases with its two levels, as text.

    The facts are separated by commas, such as `amp-bf16, batch size 64`; the text is empty without any. Only precision,
    batch size, clipping, hardware, topology and data source are considered.
    """
    shared = _find_shared(estimate)
    return ", ".join(format_fact(name, shared[name]) for name in _SHOWN if shared.get(name) is not None)


def _find_shared(estimate: Effect) -> dict[str, Any]:
    shared = {}
    for name in ("framework_version", *_SHOWN):
        values = {key(pair.shared.get(name)): pair.shared.get(name) for pair in estimate.pairs}
        if name in estimate.holding and len(values) == 1:
            (shared[name],) = values.values()
    return shared


def describe_effect(estimate: Effect) -> str:
    """Return a sentence with the ratio of an effect, its interval and its test.

    Without an interval, the sentence says that the frameworks, models, pairs or repeats are too few for one.
    """
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


def describe_significance(estimate: Effect) -> Cell:
    """Return a cell that says whether an effect is significant, or that there is too little evidence for an interval.

    The text is such as `significant, p = 0.031` or `too few frameworks for an interval`. The tone is `good` if the
    effect is significant, else `quiet`.
    """
    if estimate.significant is None:
        return Cell(f"too few {_units_of(estimate)} for an interval", "quiet")
    p_value = f"p = {estimate.p:.2g}"
    return Cell(
        f"significant, {p_value}" if estimate.significant else f"not significant, {p_value}",
        "good" if estimate.significant else "quiet",
    )
