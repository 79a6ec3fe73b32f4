"""Find the figures that were not measured by the protocol that their source prescribes."""

from __future__ import annotations

from dlperf_sdk.interfaces.collection import Disagreement, Figures
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.spec.stated_protocol import DEVIATES, NOT_STATED, StatedProtocol


def protocol_deviations(figures: Figures, protocol: Protocol | None) -> tuple[Disagreement, ...]:
    """Return a disagreement for each document and each way in which its figures deviate from a protocol.

    The compared values are the window (warm-up and measured steps) and the number of repeats. Figures of a document
    that deviate in the same way share a disagreement, which states how many they are. A value that a document does not
    state is not a deviation. The result is empty if no figure deviates.

    Args:
        figures: The figures.
        protocol: The protocol that their source prescribes; None if it prescribes none, so that nothing deviates.
    """
    if protocol is None:
        return ()
    prescribed = StatedProtocol.from_protocol(protocol)
    groups: dict[tuple[str, str, str], list[PublishedFigure]] = {}
    for figure in figures:
        differences = figure.protocol.differences(prescribed)
        document = figure.source.document
        if {"warm-up steps", "measured steps"} & set(differences):
            groups.setdefault((document, prescribed.window, figure.protocol.window), []).append(figure)
        if "repeats" in differences:
            used, expected = (format_count(count, "repeat") for count in differences["repeats"])
            groups.setdefault((document, expected, used), []).append(figure)
    outcomes = [figure.protocol.check(protocol) for figure in figures]
    reason = (
        f"of {len(figures)} figures, {outcomes.count(NOT_STATED)} do not state their whole protocol, and "
        f"{outcomes.count(DEVIATES)} were measured by another one than the source prescribes"
    )
    return tuple(
        Disagreement(
            document,
            min(figure.source.line for figure in members),
            f"protocol of {format_count(len(members), 'figure')}",
            expected,
            used,
            reason,
            figures=len(members),
        )
        for (document, expected, used), members in groups.items()
    )
