"""A result on one screen, as text, Markdown and HTML, for `repr` and notebooks, in the words of the reports."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dlperf_sdk.documents.json_values import replace_control_characters, significant_decimals

if TYPE_CHECKING:
    from dlperf_sdk.interfaces.measurer import Metric
    from dlperf_sdk.results.result import Result

KINDS = (("integrity", "Validity checks"), ("quality", "Measurement quality"))
"""Kind of verdicts → its heading in reports."""
MAXIMUM_TEXT = 500
"""Maximum number of characters of a text such as a failure's message; the rest is cut off."""


def to_text(result: Result) -> str:
    """Return the summary of a result: a text that begins with `<` and ends with `>`, with one `label: value` per line.

    It has the run, the case, the outcome, a failure's message, the throughput, the number of repeats (or the origin of
    an imported result), and the names of the verdicts by kind and outcome. Lines that do not apply are left out, and
    each text is cut to 500 characters (`MAXIMUM_TEXT`). No records are read, so the outcome does not
    tell whether they contradict the result.
    """
    lines = [f"{label}: {text}" for label, text in _facts(result)]
    return "<Result\n  {}>".format("\n  ".join(lines))


def to_markdown(result: Result) -> str:
    """Return the summary of a result as a table in Markdown: one row of label and value per line of `to_text`.

    The rows are the run, the case, the outcome, a failure's message, the throughput, the number of repeats, and the
    verdicts. No records are read.
    """
    rows = (f"| {label} | {_escape_markdown(text)} |" for label, text in _facts(result))
    return "\n".join(["| result | |", "|---|---|", *rows]) + "\n"


def to_html(result: Result) -> str:
    """Return the summary of a result as an HTML table without scripts or styles: one row per line of `to_text`.

    The rows are the run, the case, the outcome, a failure's message, the throughput, the number of repeats, and the
    verdicts. No records are read.
    """
    rows = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(text)}</td></tr>'
        for label, text in _facts(result)
    )
    return f"<table><tbody>{rows}</tbody></table>"


def describe_outcome(result: Result, contradicted: Sequence[str] = ()) -> str:
    """Return the outcome of a case in a few words, as every report has it. No records are read.

    The outcome is one of these, where KIND is the kind of the failure, and CHECKS are names of checks:

    - `failed: KIND`, or `failed: KIND after 3 repeats`
    - `failed validation: CHECKS`
    - `imported, not verified`
    - `ok`, or `ok, with warnings: CHECKS`
    - `model unverified`, or `model unverified, with warnings: CHECKS`

    Args:
        result: The result.
        contradicted: Contradictions between the result and its records; any of them makes the validation fail.
    """
    if result.failure is not None:
        done = f" after {_count_repeats(len(result.repeats))}" if result.repeats else ""
        return f"failed: {result.status}{done}"
    failed = [
        verdict.name
        for verdict in result.verdicts
        if verdict.outcome == "fail" and verdict.kind == "integrity"
    ]
    if contradicted:
        failed.append("the file contradicts itself")
    if failed:
        return f"failed validation: {', '.join(failed)}"
    if result.imported is not None:
        return "imported, not verified"
    doubts = [verdict.name for verdict in result.verdicts if verdict.outcome in ("fail", "inconclusive")]
    if not doubts:
        return "ok"
    state = "model unverified" if "parity" in doubts else "ok"
    warnings = [name for name in doubts if name != "parity"]
    return f"{state}, with warnings: {', '.join(warnings)}" if warnings else state


def explain_missing_interval(result: Result, metrics: Sequence[Metric]) -> str:
    """Return a sentence on why metrics have no interval: the number of repeats, and that six are needed.

    Args:
        result: The result.
        metrics: Metrics of the result that have no interval, at least one. If a metric has more values than the result
            has repeats, as in an imported result, its number of values is stated instead.

    Raises:
        TypeError: `metrics` is empty.
    """
    count = max(len(result.repeats), *(len(metric.repeats) for metric in metrics))
    return f"No interval: {_count_repeats(count)}, six are needed."


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield label and text of what decides whether and how a number is used."""
    yield "run", _shorten(result.id)
    yield "case", _shorten(result.spec.label)
    yield "outcome", _shorten(describe_outcome(result))
    if result.failure is not None:
        yield "failure", _shorten(result.failure.message)
    throughput = result.metric("throughput")
    if throughput is not None:
        yield "throughput", _shorten(_format_with_interval(result, throughput))
    if result.imported is None:
        yield "repeats", str(len(result.repeats))
    else:
        yield "imported", _shorten(result.imported.origin)
    for kind, heading in KINDS:
        outcomes: dict[str, list[str]] = {}
        for verdict in result.verdicts:
            if verdict.kind == kind:
                outcomes.setdefault(verdict.outcome, []).append(verdict.name)
        for outcome, names in outcomes.items():
            yield f"{heading}, {outcome}", _shorten(", ".join(names))


def _format_with_interval(result: Result, metric: Metric) -> str:
    decimals = significant_decimals(abs(metric.value))
    text = f"{metric.value:,.{decimals}f} {metric.unit}"
    if metric.low is None or metric.high is None:
        return f"{text}. {explain_missing_interval(result, [metric])}"
    return f"{text}, 95 % interval {metric.low:,.{decimals}f} – {metric.high:,.{decimals}f}"


def _count_repeats(count: int) -> str:
    return f"{count:,} repeat{'s' * (count != 1)}"


def _shorten(text: str) -> str:
    text = " ".join(replace_control_characters(text).split())
    return text if len(text) <= MAXIMUM_TEXT else f"{text[: MAXIMUM_TEXT - 1]}…"


def _escape_markdown(text: str) -> str:
    return html.escape(text.replace("\\", "\\\\").replace("|", "\\|"), quote=False)
