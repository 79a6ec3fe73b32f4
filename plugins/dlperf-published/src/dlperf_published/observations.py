"""The observations in the spreadsheet of 2017, checked against the spreadsheet's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from dlperf_published.source_data import load_printed_cells
from dlperf_published.spreadsheet import DEVICES, effects, scaling_effects
from dlperf_sdk.analysis.case import cases
from dlperf_sdk.analysis.effects import Effect
from dlperf_sdk.analysis.rank_test import LEVEL
from dlperf_sdk.analysis.scaling import efficiency
from dlperf_sdk.analysis.significance import holm_adjusted, sign_test
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.estimate import median

HOLDS, PARTLY, DOES_NOT = "holds", "in part", "does not hold"
"""Values of `Observation.outcome`."""
MINIMUM_EFFECT = 0.05
"""Smallest relative effect of a setting that counts as one; a smaller one would not mislead a choice of hardware."""


@frozen
class Observation:
    """A statement of a source document about its figures, and what the figures show."""

    printed: str
    """The statement as printed."""
    line: int
    """Line in the document, counted from 1."""
    outcome: str
    """`holds`, `in part` or `does not hold`."""
    derived: str
    """What the figures show, in sentences."""


def observations(figures: Figures) -> tuple[Observation, ...]:
    """Return an observation per statement of the spreadsheet, in its order, with whether the figures confirm it.

    The result is empty for collections other than the spreadsheet `tf-cnn-2017`. `figures` are all figures of the
    collection.

    Raises:
        FileNotFoundError: The collection is not one of this distribution.
    """
    result = []
    for cell in load_printed_cells(figures.collection):
        if cell.table == "observations":
            outcome, derived = _derivation(cell.text)(figures)
            result.append(Observation(cell.text, cell.line, outcome, derived))
    return tuple(result)


def _derivation(text: str) -> Callable[[Figures], tuple[str, str]]:
    return next(derive for start, derive in _DERIVED.items() if start in text)


def _efficiencies(figures: Figures) -> dict[int, list[float]]:
    """Return the efficiencies by the number of devices."""
    candidates = cases(figures)
    by_count: dict[int, list[float]] = {}
    for figure in figures:
        value = efficiency(figure, candidates).value
        if value is not None:
            by_count.setdefault(figure.devices, []).append(value)
    return by_count


def _scaling(figures: Figures) -> tuple[str, str]:
    efficiencies = _efficiencies(figures)[DEVICES[-1]]
    outcome = HOLDS if min(efficiencies) > 0.9 else PARTLY
    return outcome, (
        f"On {DEVICES[-1]} GPUs the median efficiency is {median(efficiencies):.1%}, the lowest "
        f"{min(efficiencies):.1%}, the highest {max(efficiencies):.1%}."
    )


def _decline(figures: Figures) -> tuple[str, str]:
    by_count = _efficiencies(figures)
    medians = {count: median(values) for count, values in by_count.items()}
    lowest = min(min(values) for values in by_count.values())
    falls = all(medians[b] < medians[a] for a, b in pairwise(DEVICES))
    outcome = HOLDS if falls and lowest > 0.9 else PARTLY if lowest > 0.9 else DOES_NOT
    summary = ", ".join(f"{medians[count]:.1%} on {count}" for count in DEVICES)
    steadily = "falls with each step" if falls else "does not fall with each step"
    return outcome, f"The median {steadily}: {summary}. The lowest of all is {lowest:.1%}."


def _superlinear(figures: Figures) -> tuple[str, str]:
    candidates = cases(figures)
    superlinear = [
        figure for figure in figures if figure.devices > 1 and (efficiency(figure, candidates).value or 0) > 1
    ]
    summary = ", ".join(
        f"{figure.printed_model} at batch size {figure.batch_size} on {figure.devices} {figure.hardware}"
        f" ({'synthetic' if figure.data == 'synthetic' else 'real'})"
        for figure in superlinear
    )
    return (
        PARTLY if superlinear else DOES_NOT,
        f"{len(superlinear)} of {sum(figure.devices > 1 for figure in figures)} cells are above 100 %: {summary}. "
        "Whether that is noise cannot be told: no cell was repeated, or the repeats are not published.",
    )


def _effect_by_count(by_count: Mapping[int, Effect], subject: str) -> tuple[str, str]:
    """Test for an effect at each number of GPUs; "no effect" holds only where the intervals exclude a larger one."""
    p_values = dict(zip(by_count, holm_adjusted([effect.p for effect in by_count.values()]), strict=True))
    significant = [count for count, p in p_values.items() if p <= LEVEL]
    possible = [count for count, effect in by_count.items() if not _is_equivalent(effect)]
    if any(by_count[count].median > 1 + MINIMUM_EFFECT for count in significant):
        outcome = DOES_NOT
    else:
        outcome = PARTLY if significant or possible else HOLDS
    parts = [
        f"{count}: {effect.median:.3f} ({_interval(effect)}, p {p_values[count]:.3g})"
        for count, effect in by_count.items()
    ]
    text = (
        f"{subject}, median by number of GPUs (95 % interval, p adjusted for {len(parts)} tests; settings taken as "
        "independent): "
        f"{'; '.join(parts)}."
    )
    text += f" Significant on {_join(significant)} GPUs." if significant else " Nowhere significant."
    if possible:
        text += f" An effect of {MINIMUM_EFFECT:.0%} or more is not excluded on {_join(possible)} GPUs."
    return outcome, text


def _is_equivalent(effect: Effect) -> bool:
    return (
        effect.low is not None
        and effect.high is not None
        and effect.low > 1 / (1 + MINIMUM_EFFECT)
        and effect.high < 1 + MINIMUM_EFFECT
    )


def _interval(effect: Effect) -> str:
    return "no interval" if effect.low is None else f"{effect.low:.3f} to {effect.high:.3f}"


def _join(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def _data(figures: Figures) -> tuple[str, str]:
    return _effect_by_count(effects(figures, "data"), "Synthetic over real data")


def _batch(figures: Figures) -> tuple[str, str]:
    by_count = effects(figures, "batch_size").values()
    throughput = [pair.ratio for effect in by_count for pair in effect.pairs]
    # Pairs on different numbers of GPUs share a setting, so no test takes all of them as independent.
    p_values, test = holm_adjusted([effect.p for effect in by_count]), sign_test(throughput)
    outcome, summary = _effect_by_count(
        scaling_effects(figures, "batch_size"), "Speedup at batch size 64 over that at 32"
    )
    if min(p_values) <= LEVEL:
        outcome = DOES_NOT
    return outcome, (
        f"The source compares speedups only. The throughput at 64 is {median(throughput):.3f} times that at 32 "
        f"(median of {len(throughput)} pairs, {test.above} above 1, {test.below} below; p at most "
        f"{max(p_values):.3g} on each number of GPUs). {summary}"
    )


def _factor(factor: str, printed_ratio: str) -> Callable[[Figures], tuple[str, str]]:
    def derive(figures: Figures) -> tuple[str, str]:
        by_count = effects(figures, factor)
        ratios = [pair.ratio for effect in by_count.values() for pair in effect.pairs]
        decimals = len(printed_ratio.partition(".")[2])
        middle = median(ratios)
        outcome = HOLDS if abs(middle - float(printed_ratio)) <= 0.5 * 10**-decimals + 1e-9 else DOES_NOT
        confounded = {name for effect in by_count.values() for name in effect.confounded}
        text = f"Median of {len(ratios)} pairs: {middle:.3f}, from {min(ratios):.2f} to {max(ratios):.2f}."
        if confounded:
            text += f" The {', '.join(sorted(confounded))} changed along with it: the effects cannot be told apart."
        return outcome, text

    return derive


def _parameters(_: Figures) -> tuple[str, str]:
    model = Registry().model("resnet50")
    count = model.parameter_count(model.Options())
    is_within = round(count / 1e6) in range(24, 27)
    return PARTLY if is_within else DOES_NOT, (
        f"ResNet-50's manifest has {count:,} parameters with 1000 classes; v1 and v1.5 differ in strides only. "
        "Inception v3 was not counted here; its manifest is that of another distribution."
    )


def _baseline(figures: Figures) -> tuple[str, str]:
    single_device = figures.filter(topology="1n1d", hardware="Tesla K80")
    middles: dict[str, Any] = {
        name: median([figure.throughput for figure in single_device.filter(printed_model=name)])
        for name in single_device.values("printed_model")
    }
    rounded = [round(value / 10) * 10 for value in middles.values()]
    summary = ", ".join(f"{value:.2f} img/s on {name}" for name, value in middles.items())
    return (HOLDS if rounded == [30, 50] else DOES_NOT), f"The medians of one K80 are {summary}."


_DERIVED: dict[str, Callable[[Figures], tuple[str, str]]] = {
    "scaling is really good": _scaling,
    "efficiency goes down": _decline,
    "superlinear": _superlinear,
    "real or synth dataset": _data,
    "using batch size": _batch,
    "P100 than K80": _factor("hardware", "4.4"),
    "faster (median) than inception3": _factor("model", "1.61"),
    "million parameters": _parameters,
    "baseline performance": _baseline,
}
"""Derivation of each statement of the source, by a few of its words."""
