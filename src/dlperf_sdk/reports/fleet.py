"""The health of a fleet's nodes as blocks."""

from __future__ import annotations

from dlperf_sdk.analysis.fleet import Fleet, NodeHealth
from dlperf_sdk.analysis.node_numerics import NOT_APPLICABLE
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table, Tone
from dlperf_sdk.reports.numbers import common_scale, format_count

_ALIKE = 8
"""Number of nodes without a finding that are listed one by one; more are counted."""
_VERDICTS: dict[int, tuple[str, Tone]] = {
    0: ("no node stands out", "good"),
    1: ("nodes are slow or compute wrongly", "bad"),
    4: ("all nodes failed", "bad"),
    5: ("nodes failed", "doubt"),
    6: ("inconclusive", "doubt"),
}


def fleet_page(fleet: Fleet) -> list[Block]:
    """Return the blocks of a fleet: the verdict, the error rates, and a table with the findings first.

    Nodes without a finding are counted in a sentence if there are more than eight of them. Notes with the explanations
    of findings come last, if there are any.
    """
    notes: list[str] = []
    sound = [node for node in fleet.nodes if node.outcome == "ok"]
    listed = [node for node in _sorted(fleet) if node.outcome != "ok" or len(sound) <= _ALIKE]
    blocks: list[Block] = [
        Heading("fleet", summarize(fleet)),
        Paragraph(describe_coverage(fleet)),
        Paragraph(describe_method(fleet), "quiet"),
        *(Paragraph(text, "doubt") for text in list_limits(fleet)),
    ]
    if listed:
        blocks.append(nodes_table(fleet, listed, notes))
    if len(listed) < len(fleet.nodes):
        blocks.append(Paragraph(f"{format_count(len(sound), 'more node')} without a finding.", "good"))
    return [*blocks, Notes(tuple(notes))] if notes else blocks


def summarize(fleet: Fleet) -> Cell:
    """Return a cell with the verdict on a fleet in a few words; text and tone follow from the fleet's exit code."""
    return Cell(*_VERDICTS[fleet.exit_code])


def describe_coverage(fleet: Fleet) -> str:
    """Return a sentence with the case, the number of nodes, and how many are flagged, inconclusive and failed."""
    counts = (
        (len(fleet.flagged), "flagged"),
        (sum(node.is_inconclusive for node in fleet.nodes), "inconclusive"),
        (len(fleet.failed), "failed"),
    )
    parts = [f"{count} {name}" for count, name in counts if count]
    case = f"{fleet.case} on {format_count(len(fleet.nodes), 'node')}"
    return f"{case}: {', '.join(parts) or 'none flagged'}."


def describe_method(fleet: Fleet) -> str:
    """Return a line of sentences: how nodes are compared, and the error rates of the comparison.

    The rates follow from the fleet's `minimum_effect` and `level`.
    """
    effect, level = f"{100 * fleet.minimum_effect:g} %", f"{100 * fleet.level:g} %"
    return (
        f"Nodes are compared with those that have equal devices. A slow node is slower by {effect} or more and an "
        f"outlier: if no node is slow, any is called slow or fast in at most {level} of fleets, for normal variation "
        f"between nodes. If a node is slower by {effect}, all are called alike in at most {level} of fleets. A "
        "slowdown of most nodes is not found. Final parameters of equal devices must be equal bit by bit, and each "
        "node must follow the model's float64 reference."
    )


def list_limits(fleet: Fleet) -> list[str]:
    """Return a sentence for each reason why the comparison of nodes is incomplete; empty without any.

    The reasons are that parameters were not compared, or that nodes failed while others are flagged.
    """
    texts = []
    numerics = [node.numerics for node in fleet.nodes if node.numerics is not None]
    if numerics and not fleet.compares_numerics:
        reasons = dict.fromkeys(part.detail for part in numerics if part.outcome == NOT_APPLICABLE)
        texts += [f"Parameters were not compared between nodes. {reason}" for reason in reasons]
    if fleet.failed and fleet.flagged:
        texts.append(f"Failed nodes were not examined: {', '.join(node.name for node in fleet.failed)}.")
    return texts


def nodes_table(fleet: Fleet, nodes: list[NodeHealth], notes: list[str]) -> Table:
    """Return a table with a row per node: name, throughput, change, parameters, outcome and devices.

    Args:
        fleet: The fleet.
        nodes: The nodes to list, in this order.
        notes: The list of notes, which is changed: the explanations of the findings on these nodes are appended, unless
            the list has them. An outcome in the table refers to its notes by their positions in the list, counted
            from 1.
    """
    values = [node.throughput for node in nodes if node.throughput is not None]
    scale = common_scale(values or [1.0], fleet.unit)
    columns = (
        Column("node", whole=True, key=True),
        Column(f"throughput, {scale.unit}", right=True),
        Column("change", right=True),
        Column("parameters"),
        Column("outcome"),
        Column("devices"),
    )
    rows = []
    for node in nodes:
        details = [text for text in node.details if node.outcome != "ok"]
        marks = ""
        for text in details:
            if text not in notes:
                notes.append(text)
            marks += f" [{notes.index(text) + 1}]"
        change = None if node.speed is None else node.speed.change
        rows.append(
            (
                node.name,
                "–" if node.throughput is None else scale(node.throughput),
                "–" if change is None else f"{100 * change:+.1f} %",
                "–" if node.numerics is None else node.numerics.outcome,
                Cell(f"{node.outcome}{marks}", _tone(node)),
                node.hardware,
            )
        )
    return Table(columns, tuple(rows))


def _sorted(fleet: Fleet) -> list[NodeHealth]:
    """Return the nodes, the most important finding first."""
    ranks = {"bad": 0, "doubt": 1, "plain": 2, "good": 3}
    return sorted(fleet.nodes, key=lambda node: ranks[_tone(node)])


def _tone(node: NodeHealth) -> Tone:
    if node.is_flagged:
        return "bad"
    if node.failure or node.is_inconclusive:
        return "doubt"
    return "good" if node.outcome == "ok" else "plain"
