"""`gate`: the decision whether a candidate is slower than a baseline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show, write
from dlperf_sdk.errors import DlperfError, StoreError, UnknownName, UsageError

if TYPE_CHECKING:
    from dlperf_sdk.analysis.gate_outcome import Gate
    from dlperf_sdk.results.result import Result

_FORMATS = ("terminal", "github")
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
    quiet: Annotated[bool, switch("With --against: no progress.", name=["--quiet", "-q"])] = False,
    minimum_effect: Annotated[
        str, Parameter(metavar="X%", help="Smallest slowdown that counts as a regression.")
    ] = "2%",
    level: Annotated[
        str, Parameter(metavar="X%", help="Probability of a false alarm of the whole gate.")
    ] = "5%",
    expect_missing: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="CASE",
            negative=(),
            show_default=False,
            help="Name of a case that may be missing on a side, as the gate prints it, with * for any text (may be "
            "repeated). Any other missing case makes the gate incomplete.",
        ),
    ] = (),
    format: Annotated[
        str,
        Parameter(
            help="terminal, or github: annotations of the workflow's run, and the table in the summary of the job."
        ),
    ] = "terminal",
    junit: Annotated[
        Path | None, Parameter(metavar="FILE", help="Also write JUnit XML to this file.")
    ] = None,
    markdown: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="Also write Markdown, for example for a pull request, to this file."),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Decide for each case whether it is significantly slower than before, by a minimum effect or more.

    `dlperf gate CASES --against BASELINE` measures both sides now, in pairs of random order: differences between days
    affect both sides alike. `dlperf gate BASELINE CANDIDATE` compares existing runs.

    The exit code is the first of these that applies. 1: a case is slower or no longer works. 2: specs differ, or
    nothing was comparable. 6, inconclusive: the repeats of a case neither show nor rule out a slowdown by the minimum
    effect. 5, incomplete: a case is missing on a side, or a result could not be read.
    """
    from dlperf_sdk.analysis.gate_outcome import UNFINISHED
    from dlperf_sdk.cli import github
    from dlperf_sdk.cli.gate_output import blocks_of, junit_of
    from dlperf_sdk.reports import markdown as as_markdown

    if format not in _FORMATS:
        raise UnknownName("format of a gate", format, _FORMATS)
    if format == "github" and common.json:
        raise UsageError("--json prints one object, and --format github prints annotations: leave one out.")
    on_github = format == "github"
    try:
        with github.commands_stopped() if on_github else nullcontext():
            limits = {
                "minimum_effect": fraction(minimum_effect, "--minimum-effect"),
                "level": fraction(level, "--level"),
            }
            _check_sides(sides, against, (repeats, output, quiet or None))
            with _measuring(sides, against, repeats, output, quiet) as (compared, set_exit_code):
                outcome = _decide(compared, limits, expect_missing)
                if junit is not None:
                    _write(junit, junit_of(outcome))
                if markdown is not None:
                    _write(markdown, as_markdown.text_of(blocks_of(outcome)))
                if common.json:
                    emit(outcome.to_dict())
                else:
                    show(blocks_of(outcome))
                if on_github:
                    github.append_summary(outcome)
                set_exit_code(outcome.exit_code)
    except DlperfError as error:
        if not on_github:
            raise
        write(github.annotation("error", "dlperf gate", str(error)))
        return error.exit_code
    if any(decision.outcome == UNFINISHED for decision in outcome.missing):
        say(f"Go on with `dlperf campaign resume {compared[0]}`, then `dlperf gate {compared[0]}`.", "yellow")
    if on_github:
        write(github.annotations_of(outcome))
    return outcome.exit_code


@contextmanager
def _measuring(
    sides: tuple[Path, ...], against: tuple[str, ...], repeats: int | None, output: Path | None, quiet: bool
) -> Iterator[tuple[tuple[Path, ...], Callable[[int], None]]]:
    """Yield the sides to compare, and a function for the exit code; with `against`, measure both sides first."""
    from dlperf_sdk.cli.interleaved_gate import measuring_interleaved

    if not against:
        yield sides, lambda code: None
        return
    with measuring_interleaved(str(sides[0]), against, repeats, output, quiet) as (directory, set_exit_code):
        yield (directory.path,), set_exit_code


def _decide(sides: tuple[Path, ...], limits: Mapping[str, float], expect_missing: tuple[str, ...]) -> Gate:
    """Decide from two sides, or from the directory of an interleaved gate."""
    from dlperf_sdk.analysis.gate import gate as decide
    from dlperf_sdk.analysis.gate import gate_interleaved
    from dlperf_sdk.cli.interleaved_gate import pairs_in

    if len(sides) == 1:
        pairs, unfinished = pairs_in(sides[0])
        return gate_interleaved(pairs, **limits, expect_missing=expect_missing, unfinished=unfinished)
    unreadable: list[str] = []
    before, after = (_consistent_results(side, unreadable) for side in sides)
    _check_distinct_runs(before, after)
    return decide(before, after, **limits, expect_missing=expect_missing, unreadable=unreadable)


def _consistent_results(path: Path, unreadable: list[str]) -> list[Result]:
    """Return the results of a side; `unreadable` gets a message for each that cannot be read or contradicts itself."""
    from dlperf_sdk.results.consistency import list_contradictions_by_result

    results = list(_results_in(path, unreadable))
    consistent = []
    for result, reasons in zip(results, list_contradictions_by_result(results), strict=True):
        if reasons:
            unreadable.append(f"{result.id} contradicts itself: {reasons[0]}")
        else:
            consistent.append(result)
    return consistent


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
    # Whole results are not compared: that would read their records.
    runs = {result.id: (result.started_at, result.metrics) for result in before}
    shared = [result.id for result in after if runs.get(result.id) == (result.started_at, result.metrics)]
    if shared:
        runs_shared = f"The run {shared[0]} is" if len(shared) == 1 else f"{len(shared)} runs are"
        raise UsageError(
            f"{runs_shared} on both sides of the gate. Name a baseline and a candidate without common runs."
        )


def fraction(text: str, flag: str) -> float:
    """Return the fraction that a text such as `2%` or `0.02` stands for.

    Args:
        text: The text that the user typed.
        flag: Name of the flag, for the message.

    Raises:
        UsageError: The text is not such a number, or the fraction is not at least 0 and below 1.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= value < 1:
        raise UsageError(f"{flag} is {text!r}; write a share such as 2% or 0.02.")
    return value


def _results_in(path: Path, unreadable: list[str]) -> Iterator[Result]:
    """Yield the results in a campaign's, store's or run's directory, or in a result's file.

    Args:
        path: The directory or file.
        unreadable: List to which a message is appended for each run whose result is missing or cannot be read.

    Raises:
        StoreError: The path is neither a directory nor a file, or a directory cannot be read.
        DocumentError: The path is a single result that cannot be read.
    """
    from dlperf_sdk.results.recovery import Unreadable
    from dlperf_sdk.results.run_places import runs_in
    from dlperf_sdk.results.store import ResultStore

    if path.is_file() or (path / "result.json").is_file():
        yield ResultStore(path.parent).load(path.absolute())
        return
    if not path.is_dir():
        reason = "is neither a directory of results nor a result" if path.exists() else "does not exist"
        raise StoreError(f"{path} {reason}. Name a directory of results, or a result.json.")
    store = ResultStore(runs_in(path))
    for result in store:
        if isinstance(result, Unreadable):
            unreadable.append(str(result.error))
        else:
            yield result


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
