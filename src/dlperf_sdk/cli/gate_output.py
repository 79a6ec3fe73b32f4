"""Output of a gate: as blocks of a report, and as JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from dlperf_sdk.analysis.gate_decision import SEPARATE_REPEATS
from dlperf_sdk.analysis.gate_outcome import INCONCLUSIVE, MISSING
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table, Tone

if TYPE_CHECKING:
    from dlperf_sdk.analysis.gate_outcome import Decision, Gate

_TONES: dict[str, Tone] = {
    "regression": "bad",
    "broken": "bad",
    "refused": "bad",
    "inconclusive": "doubt",
    "vanished": "doubt",
    "new": "doubt",
    "unmeasured": "doubt",
    "unfinished": "doubt",
    "not-slower": "good",
    "improvement": "good",
    "mended": "good",
    "unchanged": "good",
}


def blocks_of(gate: Gate) -> list[Block]:
    """Return the outcome of a gate as blocks.

    A heading has the verdict. Sentences state the coverage, the error rates and the design. A table has a row per
    case, the most important first. Notes explain each case that is not unchanged.
    """
    bases = dict.fromkeys(decision.basis for decision in gate.decisions if decision.basis is not None)
    differences = dict.fromkeys(text for decision in gate.decisions for text in decision.differences)
    table, notes = _table(gate)
    blocks: list[Block] = [
        Heading("gate", Cell(*_verdict(gate))),
        Paragraph(describe_coverage(gate), "doubt" if gate.missing or gate.unreadable else "plain"),
        *(Paragraph(f"Left out: {reason}", "doubt") for reason in gate.unreadable),
        Paragraph(_rates(gate, SEPARATE_REPEATS in bases), "quiet"),
        *(Paragraph(f"Design: {basis}.") for basis in bases),
        *([Paragraph(f"The candidate differs: {'; '.join(differences)}.", "quiet")] if differences else []),
        table,
    ]
    return [*blocks, Notes(tuple(notes))] if notes else blocks


def _verdict(gate: Gate) -> tuple[str, Tone]:
    refused = any(decision.outcome == "refused" for decision in gate.decisions)
    verdicts: dict[int, tuple[str, Tone]] = {
        0: ("passed", "good"),
        1: ("failed", "bad"),
        2: ("refused: not comparable" if refused else "nothing was compared", "bad"),
        5: (f"incomplete: {gate.compared} of {len(gate.decisions)} cases compared", "doubt"),
        6: ("inconclusive: too few repeats, or too noisy", "doubt"),
    }
    return verdicts[gate.exit_code]


def _rates(gate: Gate, are_separate: bool) -> str:
    """Return the sentences on the rates of error; `are_separate` is True if some cases had two separate runs."""
    effect, level = f"{100 * gate.minimum_effect:g} %", f"{100 * gate.level:g} %"
    rates = (
        f"A regression is slower by {effect} or more and significant; all cases together raise a false alarm in at "
        f"most {level} of comparisons. The gate passes where every case rules out a slowdown of {effect}; it misses "
        f"one in at most {level} of comparisons."
    )
    if are_separate:
        rates += " Two separate runs keep these rates only if the machine was in the same state for both."
    return rates


def _table(gate: Gate) -> tuple[Table, list[str]]:
    """Return the table of the cases, and the notes that its cells refer to."""
    order = list(_TONES)
    notes: list[str] = []
    rows = []
    for decision in sorted(gate.decisions, key=lambda d: (d.is_expected, order.index(d.outcome))):
        outcome = decision.outcome + (", as expected" if decision.is_expected else "")
        if decision.outcome != "unchanged":
            notes.append(decision.detail)
            outcome += f" [{len(notes)}]"
        tone: Tone = "plain" if decision.is_expected else _TONES[decision.outcome]
        shift = decision.shift
        ratio = "" if shift is None else f"{100 * (shift.ratio - 1):+.1f} %"
        interval = ""
        if shift is not None and shift.low is not None and shift.high is not None:
            interval = f"{100 * (shift.low - 1):+.1f} to {100 * (shift.high - 1):+.1f}"
        rows.append((decision.name, ratio, interval, Cell(outcome, tone)))
    columns = (
        Column("case"),
        Column("throughput", right=True),
        Column(f"{100 * (1 - 2 * gate.level):g} %", right=True),
        Column("outcome"),
    )
    return Table(columns, tuple(rows)), notes


def describe_coverage(gate: Gate) -> str:
    """Return a text that says how many cases of a gate were compared, with advice if cases are missing."""
    advice = " If a case is meant to be missing, name it with --expect-missing." if gate.missing else ""
    return gate.describe_coverage() + advice


def junit_of(gate: Gate) -> str:
    """Return JUnit XML with a test case for each case, and for each result that could not be read.

    A regression, a broken case or a refused comparison is a failure. A missing case or an unreadable result is an
    error. Inconclusive cases, and those that are missing as expected, are skipped.
    """
    suite = ElementTree.Element("testsuite", {"name": "dlperf gate"})
    counts: Counter[str] = Counter()
    for decision in gate.decisions:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "dlperf.gate", "name": _xml(decision.name)}
        )
        kind = _junit_kind(decision)
        counts[kind] += 1
        text = _xml(f"{decision.outcome}: {decision.detail}")
        if kind == "system-out":
            ElementTree.SubElement(case, kind).text = text
        else:
            attributes = (
                {"message": text} if kind == "skipped" else {"type": decision.outcome, "message": text}
            )
            ElementTree.SubElement(case, kind, attributes)
    for reason in gate.unreadable:
        attributes = {"classname": "dlperf.gate", "name": _xml(f"unreadable result: {reason}")}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        ElementTree.SubElement(case, "error", {"type": "unreadable", "message": _xml(reason)})
        counts["error"] += 1
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(counts[kind]))
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _junit_kind(decision: Decision) -> str:
    if decision.outcome in ("regression", "broken", "refused"):
        return "failure"
    if decision.outcome in MISSING and not decision.is_expected:
        return "error"
    return "skipped" if decision.outcome in (INCONCLUSIVE, *MISSING) else "system-out"


def _xml(text: str) -> str:
    """Remove the characters that XML 1.0 does not have."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
