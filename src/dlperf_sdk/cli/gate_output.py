"""A gate as blocks of a report, and as JUnit XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table, Tone

if TYPE_CHECKING:
    from dlperf_sdk.analysis.gate_outcome import Gate

_TONES: dict[str, Tone] = {
    "regression": "bad",
    "broken": "bad",
    "refused": "bad",
    "inconclusive": "doubt",
    "vanished": "doubt",
    "unmeasured": "doubt",
    "not-slower": "good",
    "improvement": "good",
    "mended": "good",
    "unchanged": "good",
}


def blocks_of(gate: Gate) -> list[Block]:
    """Return a row per case, the most important first, and a sentence for each case that is not unchanged."""
    order = list(_TONES)
    notes: list[str] = []
    rows = []
    for decision in sorted(
        gate.decisions, key=lambda d: order.index(d.outcome) if d.outcome in order else len(order)
    ):
        mark = ""
        if decision.outcome != "unchanged":
            notes.append(decision.detail)
            mark = f" [{len(notes)}]"
        ratio = "" if decision.shift is None else f"{100 * (decision.shift.ratio - 1):+.1f} %"
        interval = ""
        if decision.shift is not None and decision.shift.low is not None and decision.shift.high is not None:
            interval = f"{100 * (decision.shift.low - 1):+.1f} to {100 * (decision.shift.high - 1):+.1f}"
        rows.append(
            (
                decision.name,
                ratio,
                interval,
                Cell(decision.outcome + mark, _TONES.get(decision.outcome, "plain")),
            )
        )
    refused = any(decision.outcome == "refused" for decision in gate.decisions)
    verdict: dict[int, tuple[str, Tone]] = {
        0: ("passed", "good"),
        1: ("failed", "bad"),
        2: ("refused: not comparable" if refused else "nothing was compared", "bad"),
        6: ("inconclusive: too few repeats, or too noisy", "doubt"),
    }
    effect, level = f"{100 * gate.minimum_effect:g} %", f"{100 * gate.level:g} %"
    summary = (
        f"A regression is slower by {effect} or more and significant; all cases together raise a false alarm in at "
        f"most {level} of comparisons. The gate passes where every case rules out a slowdown of {effect}; it misses "
        f"one in at most {level} of comparisons."
    )
    bases = dict.fromkeys(decision.basis for decision in gate.decisions if decision.basis is not None)
    differences = dict.fromkeys(text for decision in gate.decisions for text in decision.differences)
    columns = (
        Column("case"),
        Column("throughput", right=True),
        Column(f"{100 * (1 - 2 * gate.level):g} %", right=True),
        Column("outcome"),
    )
    blocks: list[Block] = [
        Heading("gate", Cell(*verdict[gate.exit_code])),
        Paragraph(summary, "quiet"),
        *(Paragraph(f"Design: {basis}.") for basis in bases),
        *([Paragraph(f"The candidate differs: {'; '.join(differences)}.", "quiet")] if differences else []),
        Table(columns, tuple(rows)),
    ]
    return [*blocks, Notes(tuple(notes))] if notes else blocks


def junit_of(gate: Gate) -> str:
    """Return JUnit XML: a test case per case.

    What closes the gate is a failure; what could not be compared or decided is skipped.
    """
    failing = ("regression", "broken", "refused")
    skipped = ("inconclusive", "vanished", "new", "unmeasured")
    about = {
        "name": "dlperf gate",
        "tests": str(len(gate.decisions)),
        "failures": str(sum(decision.outcome in failing for decision in gate.decisions)),
        "skipped": str(sum(decision.outcome in skipped for decision in gate.decisions)),
        "errors": "0",
    }
    suite = ElementTree.Element("testsuite", about)
    for decision in gate.decisions:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "dlperf.gate", "name": _xml(decision.name)}
        )
        if decision.outcome in failing:
            element = ElementTree.SubElement(
                case, "failure", {"type": decision.outcome, "message": _xml(decision.detail)}
            )
            element.text = _xml(decision.detail)
        elif decision.outcome in skipped:
            ElementTree.SubElement(
                case, "skipped", {"message": _xml(f"{decision.outcome}: {decision.detail}")}
            )
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(f"{decision.outcome}: {decision.detail}")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Remove the characters that XML 1.0 does not have."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
