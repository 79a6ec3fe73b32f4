"""A result on one screen, as text, Markdown and HTML, for `repr` and notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlperf_sdk.documents.json_values import replace_control_characters

if TYPE_CHECKING:
    from dlperf_sdk.interfaces.measurer import Metric
    from dlperf_sdk.results.result import Result

MAXIMUM_TEXT = 500
"""Maximum number of characters of a text such as a failure's message; the rest is cut off."""


def to_text(result: Result) -> str:
    """Return the summary of a result as text in angle brackets, with one `label: value` per line.

    It has the run, the case, the status, a failure's message, the throughput, the number of repeats, and the
    names of the verdicts by outcome.
    """
    lines = [f"{label}: {text}" for label, text in _facts(result)]
    return "<Result\n  {}>".format("\n  ".join(lines))


def to_markdown(result: Result) -> str:
    """Return the summary of a result as a table in Markdown, with the rows of `to_text`."""
    rows = (f"| {label} | {_escape_markdown(text)} |" for label, text in _facts(result))
    return "\n".join(["| result | |", "|---|---|", *rows]) + "\n"


def to_html(result: Result) -> str:
    """Return the summary of a result as a table in HTML, with the rows of `to_text`, without scripts or styles."""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(text)}</td></tr>'
        for label, text in _facts(result)
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield label and text of what decides whether and how a number is used."""
    yield "run", _shorten(result.id)
    yield "case", _shorten(result.spec.label)
    yield "status", result.status
    if result.failure is not None:
        yield "failure", _shorten(result.failure.message)
    throughput = result.metric("throughput")
    if throughput is not None:
        yield "throughput", _shorten(_format_with_interval(throughput))
    if result.imported is None:
        yield "repeats", str(len(result.repeats))
    else:
        yield "imported", f"{len(result.imported.sources)} logs, not verified"
    outcomes: dict[str, list[str]] = {}
    for verdict in result.verdicts:
        outcomes.setdefault(f"{verdict.kind} {verdict.outcome}", []).append(verdict.name)
    for outcome in sorted(outcomes):
        yield outcome, _shorten(", ".join(sorted(outcomes[outcome])))


def _format_with_interval(metric: Metric) -> str:
    text = f"{_digits(metric.value)} {metric.unit}"
    if metric.low is None or metric.high is None:
        return text
    return f"{text} ({_digits(metric.low)} to {_digits(metric.high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _shorten(text: str) -> str:
    text = " ".join(replace_control_characters(text).split())
    return text if len(text) <= MAXIMUM_TEXT else f"{text[: MAXIMUM_TEXT - 1]}…"


def _escape_markdown(text: str) -> str:
    return html.escape(text.replace("\\", "\\\\").replace("|", "\\|"), quote=False)
