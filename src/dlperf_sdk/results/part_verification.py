"""The verdict `window-verified` for parts of a step that do not train: the window did the part, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.records import Record, Repeat, Replica
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, INTEGRITY, PASS, Verdict
from dlperf_sdk.results.window_verification import NAME, PRECISELY_TIMED, TIMED, too_fast
from dlperf_sdk.spec.part import PARTS, Part

PADDING = 0.01
"""Largest share by which the exchanged elements may exceed the model's parameters."""
PADDED_ELEMENTS = 1024
"""Elements by which each exchanged buffer may be longer in any case: collectives align their buffers."""


def part_window_verified(repeats: tuple[Repeat, ...], expected: Expected) -> Verdict:
    """Check that the window did the part that was requested, and did not train.

    For the input, each batch must have the labels that are due. For the communication, all buffers must hold the mean
    over the replicas after the window, and have as many elements as the model has parameters. In both, the state of
    the replicas must not change.
    """
    part = PARTS[expected.part]
    failures = list(_failures(repeats, expected, part))
    if failures:
        remainder = f" ({len(failures) - 1} more)" if len(failures) > 1 else ""
        return Verdict(NAME, INTEGRITY, FAIL, f"{failures[0]}{remainder}.")
    doubts, checked = list(_doubts(repeats, part)), _describe(repeats, part)
    if doubts:
        return Verdict(NAME, INTEGRITY, INCONCLUSIVE, f"{doubts[0]}. {checked}")
    return Verdict(NAME, INTEGRITY, PASS, checked)


def _replicas(repeats: tuple[Repeat, ...]) -> Iterator[tuple[str, Record, Replica]]:
    for repeat in repeats:
        for record in repeat.records:
            for replica in record.replicas:
                yield f"(repeat {repeat.attempt}, replica {replica.index})", record, replica


def _failures(repeats: tuple[Repeat, ...], expected: Expected, part: Part) -> Iterator[str]:
    for location, record, replica in _replicas(repeats):
        for kind, changes in replica.changes.items():
            if changes.unchanged_count < changes.tensors:
                changed = changes.tensors - changes.unchanged_count
                yield (
                    f"{changed} of {changes.tensors} {kind.replace('-', ' ')} changed in the window, which must not "
                    f"train {location}"
                )
        if record.updates:
            yield f"the optimizer counted {record.updates} updates in the window, which must not train {location}"
        if part.reads_input and replica.batches.unexpected:
            yield (
                f"{len(replica.batches.unexpected)} of {replica.batches.compared} batches of the window have other "
                f"labels than the data source must give, step {replica.batches.unexpected[0]} for one {location}"
            )
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
    for location, record, replica in _replicas(repeats):
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
    replicas = list(_replicas(repeats))
    tensors = min((sum(c.tensors for c in replica.changes.values()) for *_, replica in replicas), default=0)
    findings = [f"{tensors} tensors of the state did not change"]
    if part.reads_input:
        batches = min((replica.batches.compared for *_, replica in replicas), default=0)
        findings.append(f"{batches} batches have the labels that are due")
    for exchanged in (replica.exchanged for *_, replica in replicas[:1] if part.exchanges_gradients):
        if exchanged is not None:
            findings.append(
                f"{exchanged.buffers} buffers with {exchanged.elements:,} elements hold the mean over the replicas"
            )
    return f"In the window, {' and '.join(findings)}."
