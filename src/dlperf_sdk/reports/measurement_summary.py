"""What a collection measured, and by which protocol: a row per implementation, model, precision and protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dlperf_sdk.interfaces.collection import Disagreement
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import Cell, Column, Table, Tone
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.spec.stated_protocol import AS_PRESCRIBED, DEVIATES, NOT_STATED, StatedProtocol
from dlperf_sdk.spec.values import TopologySpec

PROTOCOL_TONES: dict[str, Tone] = {AS_PRESCRIBED: "good", DEVIATES: "doubt", NOT_STATED: "quiet"}
"""Outcome of a protocol's check → the tone of its text."""


def summary_table(figures: Iterable[PublishedFigure], prescribed: Protocol | None) -> Table:
    """Return a table of what was measured: topologies, batch sizes, protocol, and deviations of the protocol.

    A row has the figures of one framework, version, implementation, model, precision and protocol, in the order of
    first occurrence. If a protocol is prescribed, the figures that deviate from it come first and those that follow it
    last.

    Args:
        figures: The figures.
        prescribed: The protocol that the source prescribes; None: the table has no comparison with one.
    """
    groups: dict[tuple[str, ...], list[PublishedFigure]] = {}
    for figure in figures:
        names = (
            figure.framework,
            short_version(figure),
            figure.implementation,
            figure.model,
            figure.precision,
        )
        groups.setdefault((*names, str(figure.protocol)), []).append(figure)
    ordered = list(groups.items())
    if prescribed:
        outcomes = (DEVIATES, NOT_STATED, AS_PRESCRIBED)
        ordered.sort(key=lambda group: outcomes.index(group[1][0].protocol.check(prescribed)))
    rows = []
    for (*case_names, protocol), members in ordered:
        batches = sorted({figure.batch_size for figure in members})
        outcome = describe_check(members[0].protocol, prescribed) if prescribed else ()
        rows.append(
            (
                *case_names,
                str(len(members)),
                protocol or "not stated",
                *outcome,
                ", ".join(map(str, sort_topologies(figure.topology for figure in members))),
                ", ".join(map(str, batches)),
                str(batches[-1]),
            )
        )
    columns = (
        Column("framework", key=True),
        Column("version", key=True),
        Column("implementation", whole=True, key=True),
        Column("model", key=True),
        Column("precision", key=True),
        Column("figures", right=True),
        Column("protocol"),
        *((Column("protocol check"), Column("difference")) if prescribed else ()),
        Column("topologies"),
        Column("batch sizes"),
        Column("largest batch", right=True),
    )
    table = Table(columns, tuple(rows), "What was measured, and by which protocol")
    return table.without_empty_columns()


def short_version(figure: PublishedFigure) -> str:
    """Return the version of a figure's framework without its local part: `2.4.1` for `2.4.1+cpu`."""
    return figure.framework_version.partition("+")[0]


def sort_topologies(topologies: Iterable[TopologySpec]) -> list[TopologySpec]:
    """Return the distinct topologies in ascending order of devices, and of nodes among those with as many devices."""
    return sorted(set(topologies), key=lambda topology: (topology.devices, topology.nodes))


def describe_check(stated: StatedProtocol, prescribed: Protocol) -> tuple[Cell, str]:
    """Return a cell with the outcome of a comparison with the prescribed protocol, and the differences as text.

    The text is one line with the numbers that differ and those that are not stated, separated by semicolons, such as
    `10 warm-up steps instead of 20`. It is empty if the protocol is as prescribed.

    Args:
        stated: The protocol of a figure, as far as its source states it.
        prescribed: The protocol that the source prescribes.
    """
    outcome = stated.check(prescribed)
    differences = stated.differences(StatedProtocol.from_protocol(prescribed))
    parts = [f"{used} {name} instead of {number}" for name, (used, number) in differences.items()]
    if stated.unstated:
        parts.append(f"{join_names(stated.unstated)} not stated")
    return Cell(outcome, PROTOCOL_TONES[outcome]), "; ".join(parts)


def describe_protocols(
    figures: Sequence[PublishedFigure], prescribed: Protocol, disagreements: Sequence[Disagreement]
) -> str:
    """Return a line of sentences on the prescribed protocol, and on how many figures follow it.

    They also state how many figures break it, in which ways, and how many do not state their protocol in full.

    Args:
        figures: The figures.
        prescribed: The protocol that the source prescribes.
        disagreements: The disagreements of the source. Only those whose `figures` is not 0 are used. Each of these is a
            way to break the protocol, and `figures` is the number of figures that break it in this way.
    """
    outcomes = Counter(figure.protocol.check(prescribed) for figure in figures)
    ways = Counter[str]()
    for deviation in disagreements:
        if deviation.figures:
            ways[deviation.computed] += deviation.figures
    listed = ", ".join(f"{used}: {count}" for used, count in ways.most_common())
    deviating = f" ({listed}; a figure may deviate in steps and in repeats)" if listed else ""
    return (
        f"The source prescribes {StatedProtocol.from_protocol(prescribed)}. Of {format_count(len(figures), 'figure')}, "
        f"{outcomes[AS_PRESCRIBED]} were measured as prescribed, {outcomes[DEVIATES]} deviate{deviating}, and "
        f"{outcomes[NOT_STATED]} do not state their protocol in full."
    )
