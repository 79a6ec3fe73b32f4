"""The cases that ran out of memory, as the documents of the sources state in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_published.source_data import load_printed_cells
from dlperf_sdk.interfaces.collection import OutOfMemory

_TENSORFLOW = {
    "framework": "tensorflow",
    "implementation": "NVIDIADeepLearningExamples",
    "precision": "amp-fp16",
}
_PADDLE = {"framework": "paddle", "model": "resnet50", "precision": "amp-fp16"}
_STATED: Mapping[tuple[str, str], tuple[tuple[int, Mapping[str, Any]], ...]] = {
    ("footnotes", "[1]"): ((256, {**_TENSORFLOW, "model": "resnet50"}),),
    ("footnotes", "[3]"): (
        (256, {**_PADDLE, "input_pipeline": None, "loss_scale": "dynamic"}),
        (224, {**_PADDLE, "input_pipeline": "dali"}),
        (256, {**_PADDLE, "input_pipeline": "dali"}),
    ),
    ("memory", "gluon-nlp"): ((96, {"framework": "mxnet", "model": "bert-base", "precision": "fp32"}),),
    ("memory", "NGC TensorFlow 1.x"): ((96, {**_TENSORFLOW, "model": "bert-base", "compiler": "none"}),),
}
"""(table, row) of a statement → the batch sizes that ran out of memory, each with the facts of its case.

The statement on gluon-nlp does not name the precision. It is fp32: the source has figures of AMP with batch 96."""


def out_of_memory(collection: str) -> tuple[OutOfMemory, ...]:
    """Return the cases of a collection that ran out of memory, in the order in which the documents state them.

    Args:
        collection: Name of a collection of this distribution.

    Raises:
        FileNotFoundError: This distribution has no such collection.
    """
    return tuple(
        OutOfMemory(facts, batch_size, cell.text, cell.document, cell.line)
        for cell in load_printed_cells(collection)
        for batch_size, facts in _STATED.get((cell.table, cell.row), ())
    )
