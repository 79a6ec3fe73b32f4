"""Find the figures that were not measured by the protocol that their source prescribes."""

from __future__ import annotations

from dlperf_sdk.interfaces.collection import Disagreement, Figures
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.spec.protocol import PROTOCOLS

_PRESCRIBED = {"dlperf-v1.0": PROTOCOLS["dlperf-v1"]}
"""Collection → the protocol that its source prescribes: DLPerf's README ignores 20 steps, measures 100 and suggests 7
repeats."""


def protocol_deviations(figures: Figures) -> tuple[Disagreement, ...]:
    """Return a disagreement for each document and each deviating value of the protocol; empty if no figure deviates.

    The values are the window (warm-up and measured steps) and the number of repeats. Each disagreement counts the
    figures. A value that a document does not state is no deviation. A source that prescribes no protocol has no
    deviations.
    """
    protocol = _PRESCRIBED.get(figures.collection)
    if protocol is None:
        return ()
    groups: dict[tuple[str, str, str], list[PublishedFigure]] = {}
    window = f"{protocol.warmup} + {protocol.steps} steps"
    for figure in figures:
        measured = (figure.warmup or protocol.warmup, figure.steps or protocol.steps)
        if measured != (protocol.warmup, protocol.steps):
            text = f"{measured[0]} + {measured[1]} steps"
            groups.setdefault((figure.source.document, window, text), []).append(figure)
        if figure.repeat_count not in (None, protocol.repeats):
            repeats = format_count(protocol.repeats, "repeat")
            text = format_count(figure.repeat_count or 0, "repeat")
            groups.setdefault((figure.source.document, repeats, text), []).append(figure)
    deviating = {id(figure) for members in groups.values() for figure in members}
    unstated = sum(
        None in (figure.warmup, figure.steps, figure.repeat_count)
        for figure in figures
        if id(figure) not in deviating
    )
    return tuple(
        Disagreement(
            document,
            min(figure.source.line for figure in members),
            f"protocol of {format_count(len(members), 'figure')}",
            prescribed,
            measured,
            f"of {len(figures)} figures, {unstated} do not state their whole protocol, and {len(deviating)} were "
            "measured by another one than the source prescribes",
            figures=len(members),
        )
        for (document, prescribed, measured), members in groups.items()
    )
