"""Output of a gate for GitHub Actions: annotations, and a summary of the job.

Every line that a step prints may be a workflow command, and names and reasons come from files of results.
Therefore the output before the annotations is enclosed by `::stop-commands::` and a random token. In annotations,
the characters that end a command or a property are escaped.

Source: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dlperf_sdk.cli.gate_output import blocks_of, describe_coverage
from dlperf_sdk.cli.screen import write
from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.errors import UsageError
from dlperf_sdk.reports import markdown
from dlperf_sdk.reports.blocks import Heading

if TYPE_CHECKING:
    from dlperf_sdk.analysis.gate_outcome import Decision, Gate

Level = Literal["error", "warning", "notice"]
_LEVELS: dict[int, Level] = {0: "notice", 1: "error", 2: "error", 5: "warning", 6: "warning"}
"""Exit code of a gate → level of its first annotation."""
_OF_OUTCOMES: dict[str, Level] = {
    "regression": "error",
    "broken": "error",
    "refused": "error",
    "inconclusive": "warning",
    "vanished": "warning",
    "new": "warning",
    "unmeasured": "warning",
    "unfinished": "warning",
}
_MAX_ANNOTATIONS = 9
"""Maximum number of cases that are annotated at each level. GitHub shows ten annotations of a level and step, and
one is that of the gate."""
_LARGEST_SUMMARY = 1_000_000
"""Maximum size of a summary in bytes. GitHub refuses more than 1 MiB for a step."""


@contextmanager
def commands_stopped() -> Iterator[None]:
    """Return a context manager in whose block GitHub Actions does not interpret printed lines as workflow commands.

    It writes the workflow command `stop-commands` to standard output on entry, and the command that ends this on exit.

    Raises:
        UsageError: Standard output cannot be written.
    """
    token = secrets.token_hex(16)
    write(f"::stop-commands::{token}\n")
    try:
        yield
    finally:
        write(f"::{token}::\n")


def annotation(level: Level, title: str, text: str) -> str:
    """Return the workflow command that annotates the run with a title and a text: one line, with its line feed.

    Args:
        level: `error`, `warning` or `notice`.
        title: The title.
        text: The text.
    """
    return f"::{level} title={_escape_property(title)}::{_escape(text)}\n"


def annotations_of(gate: Gate) -> str:
    """Return the workflow commands that annotate a run with a gate, as a text with one command per line.

    The first line is about the gate. Then comes a line per case that is slower, broken, not comparable, missing or
    inconclusive, in the order of the gate. Cases that are missing as expected are left out. Of each level (`error` or
    `warning`), only the first nine cases have a line.
    """
    heading = next(block for block in blocks_of(gate) if isinstance(block, Heading))
    lines = [
        annotation(_LEVELS[gate.exit_code], f"dlperf gate: {heading.aside.text}", describe_coverage(gate))
    ]
    counts: Counter[Level] = Counter()
    for decision in gate.decisions:
        level = _level_of(decision)
        if level is None:
            continue
        counts[level] += 1
        if counts[level] <= _MAX_ANNOTATIONS:
            lines.append(annotation(level, f"{decision.outcome}: {decision.name}", decision.detail))
    return "".join(lines)


def append_summary(gate: Gate) -> None:
    """Append the gate as Markdown to the summary of the job. Outside of GitHub Actions nothing is done.

    If the Markdown is too large for a summary, only the verdict and the coverage are appended.

    Raises:
        UsageError: The summary's file cannot be written.
    """
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    blocks = blocks_of(gate)
    text = markdown.text_of(blocks)
    if len(text.encode("utf-8", "replace")) > _LARGEST_SUMMARY:
        text = markdown.text_of(blocks[:2])
    try:
        with Path(name).open("a", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(
            f"{name}, which GITHUB_STEP_SUMMARY names, cannot be written: {error.strerror}."
        ) from error


def _level_of(decision: Decision) -> Level | None:
    return None if decision.is_expected else _OF_OUTCOMES.get(decision.outcome)


def _escape(text: str) -> str:
    plain = replace_control_characters(text.replace("\r", " "))
    return plain.replace("%", "%25").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
