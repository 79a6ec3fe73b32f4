"""Two sides timed in turns in one run, and what their ratio is, with its interval.

A block is a callable that does one side's work and says what it took. Pairs go A B, B A, A B, …: a machine
that gets slower during the run, or a neighbor that comes and goes, meets both sides alike. Each pair gives
one ratio, and the median of the pairs' log-ratios has an order-statistic interval that assumes nothing about
the noise (`dlperf_sdk.worker.estimate`). Beside it stands the same side against itself (A/A), which must give
1: what it is off by is what the method cannot resolve on this machine, now.

Standard library and `dlperf_sdk.worker` only, for it runs in every framework's environment.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dlperf_sdk.worker import estimate
from dlperf_sdk.worker.agent import hardware

FEWEST_PAIRS = 6
"""Below this, no interval of the median reaches 95 %."""


class Spent(NamedTuple):
    """What a block took."""

    wall: float
    """Seconds on the clock."""
    cpu: float
    """Seconds of processors: on a busy machine they tell more, but of waiting they tell nothing."""


Block = Callable[[], Spent]


class Comparison(NamedTuple):
    """Two sides of the same work; the ratio is the time of `a` over the time of `b`."""

    name: str
    a: Block
    b: Block
    steps: int = 1
    """How many units of work a block is, to print the time of one."""


def timed(work: Callable[[], object]) -> Spent:
    """Call a function, and return its cost: seconds, and processor time of all threads of this process."""
    cpu, wall = time.process_time(), time.monotonic()
    work()
    return Spent(time.monotonic() - wall, time.process_time() - cpu)


def interleaved(
    comparisons: Sequence[Comparison], pairs: int, message: Callable[[str], None]
) -> list[list[tuple[Spent, Spent]]]:
    """Return pairs (a, b) of blocks for each comparison; one pair of each is run in turn, every other one b first.

    Before the first pair, both sides of each comparison run once untimed: caches, allocators, lazy set-up.

    Args:
        comparisons: The comparisons.
        pairs: Number of pairs of each.
        message: Function that shows progress.
    """
    for comparison in comparisons:
        comparison.a()
        comparison.b()
    actual: list[list[tuple[Spent, Spent]]] = [[] for _ in comparisons]
    for i in range(pairs):
        message(f"pair {i + 1} of {pairs}")
        for pairs_of, comparison in zip(actual, comparisons, strict=True):
            if i % 2:
                b, a = comparison.b(), comparison.a()
            else:
                a, b = comparison.a(), comparison.b()
            pairs_of.append((a, b))
    message("done\n")
    return actual


def middle(values: Sequence[float]) -> dict[str, Any]:
    """Return the `median` of six values or more, and its 95 % `interval`, a list of two numbers.

    The list is empty if there are fewer values.
    """
    return {"median": estimate.median(values), "interval": list(estimate.median_interval(values) or ())}


def ratio(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return a / b: exp of the `median` of ln(a / b), and its 95 % `interval`, as `middle` does for differences.

    `pairs` are positive numbers (a, b).
    """
    actual = middle([math.log(a / b) for a, b in pairs])
    return {
        "median": math.exp(actual["median"]),
        "interval": [math.exp(limit) for limit in actual["interval"]],
    }


def summary(comparison: Comparison, pairs: Sequence[tuple[Spent, Spent]]) -> dict[str, Any]:
    """Return one comparison as JSON values.

    Args:
        comparison: The comparison.
        pairs: Its blocks, as `interleaved` returns them.

    Returns:
        `name`, `pairs`, `steps_per_block`; `ratio` and `cpu_ratio`, by the clock and by processor time; seconds:
            `a_seconds_per_step`, `b_seconds_per_step` and `difference_per_step`; and the raw `blocks`.
    """
    steps = comparison.steps
    return {
        "name": comparison.name,
        "pairs": len(pairs),
        "steps_per_block": steps,
        "ratio": ratio([(a.wall, b.wall) for a, b in pairs]),
        "cpu_ratio": ratio([(a.cpu, b.cpu) for a, b in pairs]),
        "a_seconds_per_step": middle([a.wall / steps for a, _ in pairs]),
        "b_seconds_per_step": middle([b.wall / steps for _, b in pairs]),
        "difference_per_step": middle([(a.wall - b.wall) / steps for a, b in pairs]),
        "blocks": [{"a": a._asdict(), "b": b._asdict()} for a, b in pairs],
    }


def arguments(description: str | None, pairs: int) -> argparse.ArgumentParser:
    """Return a parser with the flags that every benchmark has.

    Args:
        description: Description in the help.
        pairs: Default number of pairs.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", type=pair_count, default=pairs, help=f"pairs per comparison (default {pairs})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def pair_count(text: str) -> int:
    """Return the number of pairs in a text: one that gives an interval, and both orders equally often.

    Raises:
        ValueError: The text is no whole number.
        argparse.ArgumentTypeError: the number is odd, or below `FEWEST_PAIRS`.
    """
    count = int(text)
    if count < FEWEST_PAIRS or count % 2:
        raise argparse.ArgumentTypeError(f"{count} pairs; it must be an even number, {FEWEST_PAIRS} or more")
    return count


def telling(what: str) -> Callable[[str], None]:
    """Return a function that shows a text of progress on one line of a terminal, and nothing elsewhere.

    `what` is put before each text.
    """

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{what}: {text}", end="", file=sys.stderr, flush=True)

    return tell


def load() -> list[float]:
    """Return the load averages of 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def machine() -> dict[str, Any]:
    """Return facts about this machine, without its name, as JSON values.

    The keys are `architecture`, `cpu`, `memory` in bytes and `virtualisation`, as far as they are known; `python` and
    `load`.
    """
    facts = hardware.describe()
    stored = {
        name: facts[name] for name in ("architecture", "cpu", "memory", "virtualisation") if name in facts
    }
    return {**stored, "python": platform.python_version(), "load": load()}


def said(machine_facts: dict[str, Any]) -> str:
    """Return the facts of `machine` in one line."""
    cpu = machine_facts.get("cpu", {})
    load = ", ".join(f"{value:.2f}" for value in machine_facts["load"])
    return (
        f"{cpu.get('model', 'unknown processor')}, {cpu.get('usable', '?')} of {cpu.get('logical', '?')} "
        f"processors, {machine_facts.get('memory', 0) / 2**30:.0f} GiB; load average {load}; "
        f"Python {machine_facts['python']}"
    )


def number(actual: dict[str, Any], form: str, scale: float = 1.0) -> str:
    """Return `median (low to high)` of a figure as text.

    Args:
        actual: The figure, as `middle` returns it, with an interval.
        form: Format of each number, such as `.3f`.
        scale: Factor of each number.
    """
    median, (low, high) = actual["median"] * scale, (limit * scale for limit in actual["interval"])
    return f"{median:{form}} ({low:{form}} to {high:{form}})"


def in_words(actual: dict[str, Any], side: str = "ours", other: str = "theirs") -> str:
    """Return a sentence that says which side is faster, and by how much: `ours is 4.2 % faster than theirs (95 %: …)`.

    It also says if the pairs do not tell the two apart.

    Args:
        actual: The ratio of throughputs `side` ÷ `other`, as `ratio` returns it, with an interval.
        side: Name of the first side.
        other: Name of the second side.
    """
    low, high = actual["interval"]
    (least, slower), (most, way) = _by(low), _by(high)
    if slower != way:
        span = f"{least} % {slower} to {most} % {way}"
    else:
        span = f"{least} to {most} % {way}" if way == "faster" else f"{most} to {least} % {way}"
    amount, direction = _by(actual["median"])
    output = f"{side} is {amount} % {direction} than {other} (95 %: {span})"
    return output if low > 1 or high < 1 else f"{output}: these pairs do not tell them apart"


def _by(ratio: float) -> tuple[str, str]:
    """How far a ratio of throughputs is from 1, in percent, and which way."""
    return f"{abs(100 * (ratio - 1)):.1f}", "faster" if ratio >= 1 else "slower"


def at_most(bound: float, actual: dict[str, Any]) -> dict[str, Any]:
    """Return the claim that the median is at most `bound`, and its `outcome` by the interval.

    The outcome is pass, fail or inconclusive. `actual` is a figure, as `middle` returns it, with an interval.
    """
    low, high = actual["interval"]
    return {"at_most": bound, "outcome": _outcome(high <= bound, low > bound)}


def at_least(bound: float, lowest: float, actual: dict[str, Any]) -> dict[str, Any]:
    """Return the claim that the median is at least `bound` and its interval begins at `lowest` or above.

    Its `outcome` is pass, fail or inconclusive. `actual` is a figure, as `middle` returns it, with an interval.
    """
    low, high = actual["interval"]
    holds = actual["median"] >= bound and low >= lowest
    return {"at_least": bound, "interval_from": lowest, "outcome": _outcome(holds, high < bound)}


def _outcome(holds: bool, fails: bool) -> str:
    return "pass" if holds else "fail" if fails else "inconclusive"


def claimed(row: dict[str, Any], bound: str) -> str:
    """Return the text of a bound and the outcome of a row's claim; empty for a row without a claim."""
    return f"{bound}: {row['claim']['outcome']}" if "claim" in row else ""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text, with columns as wide as needed, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    lines = []
    for row in (headings, *rows):
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_json(document: dict[str, Any]) -> str:
    """Return a document as JSON on one line.

    Raises:
        ValueError: A number is not finite.
    """
    return json.dumps(document, allow_nan=False)
