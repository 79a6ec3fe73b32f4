"""Labels of results: title, batch size, outcome, values and marks of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.reports.blocks import Cell, Tone
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS, Result
from dlperf_sdk.results.summary import describe_outcome
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import STRATEGIES

_MARKS: dict[str, tuple[str, Tone]] = {
    PASS: ("✓", "good"),
    FAIL: ("✗", "bad"),
    INCONCLUSIVE: ("?", "doubt"),
    NOT_APPLICABLE: ("–", "quiet"),
}


def title(result: Result) -> str:
    """Return the title of a result's case: `torch resnet50 · 1n2d · fp32`.

    Compiler, strategy and part follow if they are not the default. The strategy of a single device is left out.
    """
    return case_title(result.spec)


def case_title(spec: RunSpec) -> str:
    """Return the title of a case: `torch resnet50 · 1n2d · fp32`.

    Compiler, strategy and part follow if they are not the default. The strategy of a single device is left out.
    """
    parts = [f"{spec.framework} {spec.model}", str(spec.topology), spec.precision]
    if spec.compiler != COMPILERS.default:
        parts.append(spec.compiler)
    if spec.strategy != STRATEGIES.default and spec.topology.devices > 1:
        parts.append(spec.strategy)
    if not spec.is_whole_step:
        parts.append(f"{spec.part} alone")
    return " · ".join(parts)


def batch_size(spec: RunSpec, devices: int = 1) -> str:
    """Format the number of samples per step over `devices` devices, such as `1,024`.

    The text is `max` if the maximum batch size was requested and not found.

    Args:
        spec: The case, with its batch size per device.
        devices: Number of devices.
    """
    return str(spec.batch_size) if spec.wants_max_batch else f"{spec.batch_size * devices:,}"


def outcome(result: Result, contradicted: Sequence[str]) -> Cell:
    """Return the outcome of a case in a few words with its tone, such as `ok` or `failed validation: loss-falls`.

    The tone is `good` for `ok`, `bad` for a failure or a failed validation, and `doubt` for anything else, such as
    `ok, with warnings: steady-state`.

    Args:
        result: The result. Its records are not read.
        contradicted: Contradictions between the result and its records; any of them makes the validation fail.
    """
    text = describe_outcome(result, contradicted)
    return Cell(text, "bad" if text.startswith("failed") else "good" if text == "ok" else "doubt")


def format_value(value: object) -> str:
    """Format the value of a field: `none` for None, `yes` or `no` for a boolean, else its `str`."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def mark_outcome(outcome: str) -> Cell:
    """Return a verdict's outcome as a cell with a mark and the word: `✓ pass`. An unknown outcome has the mark `?`."""
    mark, tone = _MARKS.get(outcome, ("?", "doubt"))
    return Cell(f"{mark} {outcome}", tone)
