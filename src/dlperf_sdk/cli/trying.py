"""`try`: start one worker of a framework plugin on a small case, and show what its runtime and trainer answer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter

from dlperf_sdk import data
from dlperf_sdk.cli.case_arguments import spec_of
from dlperf_sdk.cli.flags import add_case_flags, parse_entries
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import PluginError, UsageError
from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports.blocks import Block, Cell, Labels, Paragraph

SMALL_CASE = {"batch_size": 4, "warmup": 1, "steps": 3, "repeats": 1, "on_busy": "note"}
"""Fields of the case, unless a flag sets them."""
_FRAME = re.compile(r'File "(?:[^"]*/bundle/)?([^"]+)", line ([0-9]+), in (\S+)')
MOST_NAMES = 5
"""Maximum number of parameters that a line names."""


@command
@add_case_flags
def try_(
    framework: Annotated[str, Parameter(help="A framework's name.")],
    model: Annotated[str, Parameter(help="A model's name.")],
    /,
    *,
    common: Common = AS_USUAL,
    **flags: Any,
) -> int:
    """Start one worker on a small case, and show what the plugin's runtime and trainer answer. It takes seconds.

    It checks the weights, a few steps on the canonical batch, their times, the batches and the evidence, and names the
    line of the plugin that fails. The models of dlperf-sdk are small unless --set changes an option. Nothing is stored.
    Exit codes: 0 no problem; 1 a problem; 2 usage error; 3 the plugin or its environment cannot be used.
    """
    try:
        from dlperf_sdk.testing import starts
    except ImportError as error:
        raise PluginError(str(error)) from error
    typed_options = parse_entries("options", flags.get("options") or [])
    small = [f"{name}={value}" for name, value in SMALL.get(model, {}).items() if name not in typed_options]
    chosen = {name: value for name, value in flags.items() if value is not None}
    spec = spec_of(
        framework, model, {**SMALL_CASE, **chosen, "options": [*(flags.get("options") or []), *small]}
    )
    if spec.topology.devices > 1:
        raise UsageError(
            "`dlperf try` starts one worker: leave --topology out, and use `dlperf verify` for two."
        )
    data.check_exists(spec.data)
    answer = starts.ask(spec, Registry(), partial(say, style="dim"))[0]
    problems = list(list_problems(answer.values))
    if common.json:
        emit({"answers": dict(answer.values), "problems": problems, "exit_code": 1 if problems else 0})
        return 1 if problems else 0
    show(page(answer.values, problems))
    if answer.failed and common.debug:
        say(answer.values["error"].rstrip())
    return 1 if problems else 0


def list_problems(answers: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem that the answers of a worker show.

    Args:
        answers: Name of a question → the answer, as `dlperf_sdk.worker.conformance` gives them: for example `losses`,
            the losses of each step.
    """
    different = answers.get("initial")
    if different:
        names = ", ".join(different[:MOST_NAMES])
        yield f"{len(different)} parameters differ from the canonical weights before the first step: {names}."
    if answers.get("traceless") is False:
        yield "`deviation` changed a parameter."
    for step, losses in enumerate(answers.get("losses", ()), start=1):
        if not all(map(math.isfinite, losses)):
            yield f"The loss of step {step} is {losses[0]}."
    for step, changed in enumerate(answers.get("changed", ()), start=1):
        if not changed:
            yield f"Step {step} changed no parameter."
    if answers.get("settled") is False:
        yield "Parameters changed after `synchronize` had returned."
    if answers.get("asked") is not None:
        yield explain_failure(answers["asked"], answers["error"])


def explain_failure(question: str, traceback: str) -> str:
    """Return a sentence on an exception of a worker: the question, the place in the plugin, and the exception.

    Args:
        question: Name of the question to the worker that failed, or `anything` if the worker failed before the first.
        traceback: The worker's traceback or log.
    """
    subject = "Starting the runtime or building the trainer" if question == "anything" else f"`{question}`"
    lines = [line.strip() for line in traceback.strip().splitlines()]
    frames = [frame for frame in _FRAME.findall(traceback) if not frame[0].startswith(("dlperf_sdk/", "<"))]
    own_frames = [frame for frame in frames if not frame[0].startswith("/")] or frames
    place = " at {}:{} in {}".format(*own_frames[-1]) if own_frames else ""
    return f"{subject} failed{place}: {lines[-1] if lines else 'the worker wrote no message'}"


def page(answers: Mapping[str, Any], problems: list[str]) -> list[Block]:
    """Return the answers of a worker as labelled lines, then the problems.

    If there is no problem, the commands to use next are in their place.

    Args:
        answers: Name of a question → the answer, as `dlperf_sdk.worker.conformance` gives them.
        problems: The sentences of `list_problems`.
    """
    blocks: list[Block] = [Labels(tuple(_lines(answers)))]
    blocks += [Paragraph(problem, "bad") for problem in problems]
    if not problems:
        blocks.append(Paragraph("No problem found. Next: `dlperf verify`, then `dlperf check`.", "good"))
    return blocks


def _lines(answers: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    facts = answers.get("facts", {})
    if "framework_version" in facts:
        yield "framework", Cell(str(facts["framework_version"]))
    if "clock" in answers:
        yield "clock", Cell(str(answers["clock"]))
    if "manifest" in answers:
        equal = "different from" if answers["initial"] else "equal to"
        yield "parameters", Cell(f"{len(answers['manifest'])}, {equal} the canonical weights")
    if answers.get("losses"):
        losses = ", ".join(f"{loss[0]:.6g}" for loss in answers["losses"])
        yield "losses", Cell(f"{losses} on the canonical batch")
    if answers.get("asynchrony"):
        times = answers["asynchrony"][-1]
        step = (times["enqueue"] + times["synchronize"]) / times["steps"]
        yield (
            "step",
            Cell(
                f"{1e3 * step:.3g} ms, of which {1e3 * times['enqueue'] / times['steps']:.3g} ms to enqueue"
            ),
        )
    if "prefetched" in answers:
        yield "batches", Cell(f"{answers['prefetched']} prefetched")
    if "deviation" in answers:
        yield "deviation", Cell(f"{answers['deviation']} from plain fp32")
    for name, value in sorted(answers.get("observed", {}).items()):
        yield name, Cell(str(value))
