"""The collections that this distribution registers: DLPerf v1.0, tf_cnn_benchmarks of 2017, and tensorpack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dlperf_published import disagreements, out_of_memory, source_data, tables_page, tensorpack
from dlperf_published.protocol_deviations import protocol_deviations
from dlperf_sdk.interfaces.collection import Collection, Disagreement, Figures, OutOfMemory
from dlperf_sdk.reports.blocks import Block
from dlperf_sdk.spec.protocol import PROTOCOLS

_ALIASES = {
    "mixed": "amp-fp16",
    "ngc": "nvidiadeeplearningexamples",
    "paddlepaddle": "paddle",
    "pytorch": "torch",
    "real": "images",
    "resnet-50": "resnet50",
    "rn50": "resnet50",
    "tf": "tensorflow",
}
"""Other word → the word of the figures."""


class _Stored(Collection):
    """A collection whose figures are data of this distribution."""

    aliases = _ALIASES

    @property
    def figures(self) -> Figures:
        """All figures of the collection."""
        return source_data.figures(self.name)

    def tables(self) -> list[Block]:
        """Return the tables of the source, computed from the figures, its footnotes and its observations."""
        return tables_page.blocks(self.figures)

    def disagreements(self) -> tuple[Disagreement, ...]:
        """Return the figures measured by another protocol, then the printed cells that the figures contradict.

        The cells are in the order of the tables.
        """
        cells = tuple(mismatch.to_disagreement() for mismatch in disagreements.mismatches(self.figures))
        return (*protocol_deviations(self.figures, self.prescribed), *cells)

    def out_of_memory(self) -> tuple[OutOfMemory, ...]:
        """Return the cases that ran out of memory, as the documents of the source state."""
        return out_of_memory.out_of_memory(self.name)

    def count_printed_cells(self) -> int:
        """Return the number of printed cells of all tables, and of printed speedups."""
        return len(disagreements.cells(self.figures))


class DlperfV1(_Stored):
    """The collection DLPerf v1.0: OneFlow, TensorFlow, PyTorch, MXNet and PaddlePaddle on up to 32 V100."""

    name = "dlperf-v1.0"
    title = "DLPerf v1.0, 2020"
    description = (
        "Oneflow-Inc/DLPerf at commit c89430b: medians on up to four nodes with eight V100-SXM2-16GB each. The figures "
        "of OneFlow 0.1.9 are from the release before-v1.0 of DLPerf."
    )
    prescribed = PROTOCOLS["dlperf-v1"]
    """DLPerf's README ignores 20 steps, measures 100 and suggests 7 repeats."""


class TfCnn2017(_Stored):
    """The collection of a spreadsheet with results of tf_cnn_benchmarks on up to eight P100 and K80."""

    name = "tf-cnn-2017"
    title = "TensorFlow benchmarks, 2017"
    description = (
        "A spreadsheet of tf_cnn_benchmarks' own figures on up to eight P100 or K80: NCHW, parameter server on the "
        "CPU, no NCCL. Most numbers are whole. Each figure is from one run, as far as the spreadsheet states. Figures "
        "of tf_cnn_benchmarks with replicated variables (all_reduce), on P100, are in the collection tensorpack."
    )


class Tensorpack(_Stored):
    """The collection of tensorpack's multi-GPU benchmark, on eight P100 and eight V100."""

    name = "tensorpack"
    title = "tensorpack, 2017 and 2019"
    description = (
        "The README of tensorpack's multi-GPU benchmark: eight P100, and later eight V100, in one machine. The figures "
        "of the framework tensorflow1 are those of tf_cnn_benchmarks."
    )
    printed_names: ClassVar[Mapping[str, str]] = {
        figures: printed for figures, printed in tensorpack.STRATEGIES.items() if figures != printed
    }


COLLECTIONS: tuple[type[Collection], ...] = (DlperfV1, TfCnn2017, Tensorpack)
