"""The footnotes of DLPerf's summaries, checked against DLPerf's own figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlperf_published.observations import DOES_NOT, HOLDS, PARTLY, Observation
from dlperf_published.source_data import load_printed_cells
from dlperf_sdk.analysis.effects import effect
from dlperf_sdk.analysis.rank_test import LEVEL
from dlperf_sdk.analysis.significance import sign_test
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.interfaces.figure import PublishedFigure

_NGC = "NVIDIADeepLearningExamples"


def footnotes(figures: Figures) -> tuple[Observation, ...]:
    """Return an observation per footnote of a collection's summaries: its text, and whether the figures confirm it.

    Only DLPerf's summaries have footnotes; for other collections the result is empty. `figures` are all figures of the
    collection.

    Raises:
        FileNotFoundError: The collection is not one of this distribution.
    """
    result = []
    for cell in load_printed_cells(figures.collection):
        if cell.table == "footnotes":
            outcome, derived = _DERIVED[cell.row](figures)
            result.append(Observation(cell.text, cell.line, outcome, derived))
    return tuple(result)


def _tensorflow_resnet(figures: Figures) -> tuple[str, str]:
    runs = figures.filter(framework="tensorflow", implementation=_NGC, model="resnet50", precision="amp-fp16")
    largest = {
        name: max(figure.batch_size for figure in runs.filter(compiler=name))
        for name in runs.values("compiler")
    }
    sizes = " and ".join(f"{size} with compiler {name}" for name, size in largest.items())
    outcome = PARTLY if set(largest.values()) == {224} and set(largest) == {"none", "xla"} else DOES_NOT
    return outcome, f"The largest batch sizes are {sizes}. No figure has batch size 256."


def _pytorch(figures: Figures) -> tuple[str, str]:
    precisions = figures.filter(implementation="PyTorch-examples").values("precision")
    return (
        HOLDS if precisions == ("fp32",) else DOES_NOT,
        f"Its figures are of {', '.join(precisions)} only.",
    )


def _paddle(figures: Figures) -> tuple[str, str]:
    runs = figures.filter(framework="paddle", model="resnet50", precision="amp-fp16", topology="4n8d")
    plain, dali = (
        max(runs.filter(input_pipeline=pipeline), key=lambda figure: figure.throughput)
        for pipeline in (None, "dali")
    )
    right = [(figure.throughput, figure.batch_size) for figure in (plain, dali)] == [
        (10633.22, 224),
        (11617.57, 196),
    ]
    return PARTLY if right else DOES_NOT, (
        f"{_describe(plain)} without DALI, {_describe(dali)} with it: {dali.throughput / plain.throughput:.3f} times "
        "as much, at another batch size. No figure has a larger batch size, and the collection does not have 28594."
    )


def _tensorflow_bert(figures: Figures) -> tuple[str, str]:
    runs = figures.filter(
        framework="tensorflow", implementation=_NGC, model="bert-base", precision="amp-fp16", batch_size=64
    )
    xla = effect(runs, factor="compiler", levels=("xla", "none"))
    largest = {figure.compiler: figure for figure in runs.filter(topology="4n8d")}
    return HOLDS if set(largest) == {"xla", "none"} else DOES_NOT, (
        f"On 32 GPUs {largest['xla'].throughput:.2f} with XLA, {largest['none'].throughput:.2f} without. XLA is worth "
        f"{xla.median:.3f} (median of {len(xla.pairs)} topologies)."
    )


def _clip(figures: Figures) -> tuple[str, str]:
    mxnet = figures.filter(implementation="gluon-nlp").values("clip_norm")
    oneflow = figures.filter(framework="oneflow", model="bert-base", release="v1.0")
    clipping = effect(oneflow, factor="clip_norm", levels=(0.0, 1.0))
    ratios = [pair.ratio for pair in clipping.pairs]
    test = sign_test(ratios)
    larger = mxnet == (0.0,) and test.p <= LEVEL and clipping.median > 1
    return PARTLY if larger else DOES_NOT, (
        f"OneFlow without clipping over OneFlow with it: {clipping.median:.3f} (median of {len(ratios)} pairs, from "
        f"{min(ratios):.3f} to {max(ratios):.3f}; {test.above} above 1, {test.below} below; p "
        f"{test.p:.2g} for OneFlow alone, its cases taken as independent). No figure is of an accuracy."
    )


def _describe(figure: PublishedFigure) -> str:
    return f"{figure.throughput:.2f} at batch size {figure.batch_size}"


_DERIVED: Mapping[str, Callable[[Figures], tuple[str, str]]] = {
    "[1]": _tensorflow_resnet,
    "[2]": _pytorch,
    "[3]": _paddle,
    "[4]": _tensorflow_bert,
    "[5]": _clip,
}
"""A footnote's mark → its derivation."""
