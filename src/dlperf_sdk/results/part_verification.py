"""The verdict `window-verified` for parts of a step that do not train: the window did the part, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.records import Repeat, Replica
from dlperf_sdk.results.result import Verdict
from dlperf_sdk.results.window_verification import (
    PRECISELY_TIMED,
    TIMED,
    conclude,
    locate_replicas,
    too_fast,
    unexpected_labels,
)
from dlperf_sdk.spec.part import PARTS, Part

PADDING = 0.01
"""Largest share by which the exchanged elements may exceed the model's parameters."""
PADDED_ELEMENTS = 1024
"""Elements by which each exchanged buffer may be longer in any case: collectives align their buffers."""


def part_window_verified(repeats: tuple[Repeat, ...], expected: Expected) -> Verdict:
    """Check that the window did the requested part of a step, and did not train; return the verdict `window-verified`.

    For the part `input`, each batch must have the labels that the data source must give. For the part `communication`,
    all exchanged buffers must hold the mean over the replicas after the window, and have as many elements as the model
    has parameters, apart from padding. For either part, the parameters and the optimizer's state must not change.

    The verdict fails if a replica breaks these rules, or the exchange in the window was much faster than in the audit.
    (The audit runs after the window, and repeats the first steps of the repeat.) It is inconclusive if the trainers do
    not report the state or the labels, or if the exchange seems too fast, but takes too little time to be sure.

    Args:
        repeats: The finished repeats.
        expected: The planned values that the records are checked against; their part is one that does not train.

    Raises:
        UnknownName: The core does not know the part of a step.
    """
    part = PARTS[expected.part]
    failures = list(_failures(repeats, expected, part))
    return conclude(failures, _doubts(repeats, part), _describe(repeats, part))


def _failures(repeats: tuple[Repeat, ...], expected: Expected, part: Part) -> Iterator[str]:
    for location, record, replica in locate_replicas(repeats):
        for kind, changes in replica.changes.items():
            if changes.unchanged_count < changes.tensors:
                changed = changes.tensors - changes.unchanged_count
                yield (
                    f"{changed} of {changes.tensors} {kind.replace('-', ' ')} changed in the window, which must not "
                    f"train {location}"
                )
        if record.updates:
            yield f"the optimizer counted {record.updates} updates in the window, which must not train {location}"
        if part.reads_input:
            yield from (f"{clause} {location}" for clause in unexpected_labels(replica))
        if part.exchanges_gradients:
            yield from (f"{clause} {location}" for clause in _differing_buffers(replica, expected))
    if part.exchanges_gradients:
        yield from (
            f"{clause}: work is missing in the window" for clause in too_fast(repeats, PRECISELY_TIMED)
        )


def _differing_buffers(replica: Replica, expected: Expected) -> Iterator[str]:
    exchanged = replica.exchanged
    if exchanged is None:
        yield "the trainer does not report the buffers that it exchanged"
        return
    if exchanged.differing:
        yield (
            f"{len(exchanged.differing)} of {exchanged.buffers} exchanged buffers do not hold the mean of the replicas "
            f"after the window, {exchanged.differing[0]} for one"
        )
    maximum = expected.parameters + max(PADDING * expected.parameters, PADDED_ELEMENTS * exchanged.buffers)
    if not expected.parameters <= exchanged.elements <= maximum:
        yield (
            f"the exchanged buffers have {exchanged.elements:,} elements, and the model has {expected.parameters:,} "
            "parameters"
        )


def _doubts(repeats: tuple[Repeat, ...], part: Part) -> Iterator[str]:
    for location, record, replica in locate_replicas(repeats):
        parameters = replica.changes.get("parameters")
        if parameters is None or not parameters.tensors:
            yield f"No parameters were compared over the window {location}"
        if part.reads_input and replica.batches.compared < len(record.step_times):
            yield (
                "The batches of the window were not compared with those that are due, because the data source is the "
                f"plugin's own {location}"
            )
    if part.exchanges_gradients:
        for clause in too_fast(repeats, TIMED):
            yield f"Work is missing in the window, or the machine was busy: {clause}"


def _describe(repeats: tuple[Repeat, ...], part: Part) -> str:
    """Return what was checked."""
    replicas = list(locate_replicas(repeats))
    tensors = min((sum(c.tensors for c in replica.changes.values()) for *_, replica in replicas), default=0)
    findings = [f"{tensors} tensors of the state did not change"]
    if part.reads_input:
        batches = min((replica.batches.compared for *_, replica in replicas), default=0)
        findings.append(f"{batches} batches have the labels that are due")
    exchanged = replicas[0][2].exchanged if replicas and part.exchanges_gradients else None
    if exchanged is not None:
        findings.append(
            f"{exchanged.buffers} buffers with {exchanged.elements:,} elements hold the mean over the replicas"
        )
    return f"In the window, {' and '.join(findings)}."
