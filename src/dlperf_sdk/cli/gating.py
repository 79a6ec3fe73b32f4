"""`gate`: a baseline and a candidate, and whether anything has become slower."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree import ElementTree

from cyclopts import Parameter

from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show
from dlperf_sdk.errors import StoreError, UsageError
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table, Tone

if TYPE_CHECKING:
    from dlperf_sdk.analysis.gate import Gate
    from dlperf_sdk.results.result import Result

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
_SIDES = (
    "BASELINE and CANDIDATE: a campaign's or a store's directory, a run's directory, or a result.json. With --against: "
    "the CANDIDATE alone, a spec or campaign file. Alone: the directory of an interleaved gate."
)


@command
def gate(
    sides: Annotated[tuple[Path, ...], Parameter(metavar="[BASELINE] CANDIDATE", help=_SIDES)],
    /,
    *,
    against: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="BASELINE",
            negative=(),
            show_default=False,
            help="Measure the candidate and this baseline now, interleaved in one run: a spec or campaign file, a "
            "managed environment, an interpreter, or FIELD=VALUE (may be repeated).",
        ),
    ] = (),
    repeats: Annotated[
        int | None,
        Parameter(metavar="N", help="With --against: pairs to measure, instead of the protocol's repeats."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(metavar="DIR", help="With --against: directory of the run. Default: a new one."),
    ] = None,
    quiet: Annotated[
        bool,
        Parameter(
            name=["--quiet", "-q"], negative=(), show_default=False, help="With --against: no progress."
        ),
    ] = False,
    minimum_effect: Annotated[
        str, Parameter(metavar="X%", help="Smallest slowdown that counts as a regression.")
    ] = "2%",
    level: Annotated[
        str, Parameter(metavar="X%", help="Probability of a false alarm of the whole gate.")
    ] = "5%",
    junit: Annotated[
        Path | None, Parameter(metavar="FILE", help="Also write JUnit XML to this file.")
    ] = None,
    markdown: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="Also write Markdown, for example for a pull request, to this file."),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Decide for each case whether it has become slower: by significance, and by a minimum effect.

    `dlperf gate CASES --against BASELINE` measures both sides now, in pairs of random order: differences between days
    affect both sides alike. `dlperf gate BASELINE CANDIDATE` compares runs that are there.

    Exit codes: 1 a case is slower or no longer works; 2 specs differ, or nothing was comparable; 5 passed, but some
    results could not be read; 6 inconclusive: the repeats of a case neither show nor rule out a slowdown by the minimum
    effect.
    """
    from dlperf_sdk.analysis.gate import gate as decide
    from dlperf_sdk.analysis.gate import gate_interleaved
    from dlperf_sdk.cli.interleaved_gate import measure_interleaved, pairs_in
    from dlperf_sdk.reports import markdown as as_markdown

    limits = {
        "minimum_effect": fraction(minimum_effect, "--minimum-effect"),
        "level": fraction(level, "--level"),
    }
    _check_sides(sides, against, (repeats, output, quiet or None))
    missing: list[str] = []
    if len(sides) == 2:
        before, after = (list(results_in(side, missing)) for side in sides)
        _check_distinct_runs(before, after)
        outcome = decide(before, after, **limits)
    else:
        (path,) = sides
        if against:
            path = measure_interleaved(str(path), against, repeats, output, quiet).path
        outcome = gate_interleaved(pairs_in(path, missing), **limits)
    if junit is not None:
        _write(junit, junit_of(outcome))
    if markdown is not None:
        _write(markdown, as_markdown.text_of(blocks_of(outcome)))
    if common.json:
        emit(outcome.to_dict())
    else:
        show(blocks_of(outcome))
    for reason in missing:
        say(f"Left out: {reason}", "yellow")
    return outcome.exit_code or (PARTIAL if missing else 0)


def _check_sides(sides: tuple[Path, ...], against: tuple[str, ...], settings: tuple[object, ...]) -> None:
    if against and len(sides) != 1:
        raise UsageError("With --against, give the candidate alone: dlperf gate CASES --against BASELINE.")
    if not against and any(setting is not None for setting in settings):
        raise UsageError("--repeats, --output and --quiet are for a run, which --against BASELINE starts.")
    if not 1 <= len(sides) <= 2:
        raise UsageError(
            "Give a baseline and a candidate (dlperf gate BASELINE CANDIDATE), or measure both now: dlperf gate CASES "
            "--against BASELINE."
        )


def _check_distinct_runs(before: list[Result], after: list[Result]) -> None:
    """Raise UsageError if a run is on both sides: compared with itself, a run would pass."""
    # Not the whole results: their records are read only when needed, and need not be there.
    runs = {result.id: (result.started_at, result.metrics) for result in before}
    shared = [result.id for result in after if runs.get(result.id) == (result.started_at, result.metrics)]
    if shared:
        runs_shared = f"The run {shared[0]} is" if len(shared) == 1 else f"{len(shared)} runs are"
        raise UsageError(
            f"{runs_shared} on both sides of the gate. Name a baseline and a candidate without common runs."
        )


def fraction(text: str, flag: str) -> float:
    """Convert `2%` or `0.02` to a fraction; raises UsageError for anything else."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= value < 1:
        raise UsageError(f"{flag} is {text!r}; write a share such as 2% or 0.02.")
    return value


def results_in(path: Path, unreadable: list[str]) -> Iterator[Result]:
    """Yield the results in a campaign, store, run directory or file; append the errors of unreadable ones to a list.

    Raises:
        StoreError: there is nothing of the kind.
    """
    from dlperf_sdk.cli.lookup import runs_in
    from dlperf_sdk.results.recovery import Unreadable
    from dlperf_sdk.results.store import ResultStore

    if path.is_file() or (path / "result.json").is_file():
        yield ResultStore(path.parent).load(path.resolve())
        return
    if not path.is_dir():
        raise StoreError(f"{path} is neither a directory of results nor a result.")
    store = ResultStore(runs_in(path))
    for result in store:
        if isinstance(result, Unreadable):
            unreadable.append(str(result.error))
        else:
            yield result


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


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
