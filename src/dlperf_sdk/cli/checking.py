"""`check` and `new-plugin`: commands for authors of plugins."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.check_arguments import members
from dlperf_sdk.cli.common_flags import convert_whole_number, switch
from dlperf_sdk.cli.flags import parse_entries
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show, write
from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.errors import PluginError, UnknownName, UsageError
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports.blocks import Paragraph

if TYPE_CHECKING:
    from dlperf_sdk.testing.check import Check

_MARKS = {"pass": "✓", "fail": "✗", "skipped": "–"}


@command
def check(
    name: Annotated[str, Parameter(help="A plugin's name.")],
    /,
    *,
    group: Annotated[
        str | None,
        Parameter(
            help="frameworks, models, topologies, measurers or observers; needed if several groups have the name."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        Parameter(help="Only the tests whose names contain this. May be repeated.", negative=()),
    ] = None,
    skip: Annotated[
        list[str] | None,
        Parameter(help="Not the tests whose names contain this. May be repeated.", negative=()),
    ] = None,
    resume: Annotated[
        bool,
        switch("Leave out the tests that passed in the last check of this plugin with the same arguments."),
    ] = False,
    models: Annotated[
        list[str] | None,
        Parameter(
            help="For a framework: the models to test, the cheapest first. Default: all that it implements.",
            negative=(),
            consume_multiple=True,
        ),
    ] = None,
    framework: Annotated[
        str | None,
        Parameter(
            help="For other plugins than frameworks and models: the framework of its cases. Default: numpy."
        ),
    ] = None,
    model: Annotated[
        str | None,
        Parameter(
            help="For other plugins than frameworks and models: the model of its cases. Default: linear."
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        Parameter(help="For a framework: samples per device. Default: 4.", converter=convert_whole_number),
    ] = None,
    device: Annotated[
        str | None, Parameter(help="For a framework: the kind of device (auto, cpu, cuda, …).")
    ] = None,
    python: Annotated[
        str | None,
        Parameter(
            help="For a framework: the interpreter of an existing environment, instead of a managed one."
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            metavar="NAME=VALUE",
            negative=(),
            help="A framework or model: an option of it, or of the models that have it. May be repeated.",
        ),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Run the conformance suite on an installed plugin, and print one line per check.

    Exit codes: 0 all passed or were skipped; 1 a check failed; 2 unknown plugin or option; 3 the plugin cannot be
    loaded.
    """
    registry = Registry()
    group_name = _group_of(name, group)
    registry.load(group_name, name)
    try:
        from dlperf_sdk.testing import check as suite
        from dlperf_sdk.testing.passed_checks import PassedChecks
    except ImportError as error:
        raise PluginError(str(error)) from error
    if group_name not in suite.SUITES:
        raise UsageError(
            f"There is no conformance suite for {group_name}; there is one for {', '.join(suite.SUITES)}."
        )
    values = {
        "models": models,
        "framework": framework,
        "model": model,
        "batch_size": batch_size,
        "device": device,
        "python": python,
        "options": parse_entries("options", options) if options else None,
    }
    values = {option: value for option, value in values.items() if value is not None}
    display = _Display(quiet=common.json)
    passed = PassedChecks(
        group_name, name, {**values, "distribution": registry.distribution(group_name, name)}
    )
    if resume and not passed.read():
        say("There is no check of this plugin with the same arguments to resume: all tests are run.")

    before = tuple(passed.names)

    def take(outcome: Check) -> None:
        passed.record(outcome.name, passed=outcome.outcome == suite.PASS)
        display.show_outcome(outcome)

    checks = suite.check(
        group_name,
        name,
        take,
        only or (),
        display.show_start,
        skip=skip or (),
        passed=before,
        **members(group_name, name, values, registry),
    )
    counts = {outcome: sum(result.outcome == outcome for result in checks) for outcome in _MARKS}
    code = 1 if counts["fail"] else 0
    if common.json:
        listed = [attrs.asdict(result) for result in checks]
        emit({"group": group_name, "name": name, "checks": listed, "counts": counts, "exit_code": code})
    else:
        summary = f"{name}: {counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped"
        summary += f"; {len(before)} had passed before" if before else ""
        show([Paragraph(summary, "bad" if code else "good")])
    return code


class _Display:
    """A line on standard output for each check that is over, unless `quiet`; on standard error, the one that runs."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.overwrites = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def show_start(self, name: str, number: int, count: int) -> None:
        """Show the start of a test: on a terminal the line is overwritten when the test is over."""
        text = f"{number}/{count}  {name} …"
        if self.overwrites:
            self._write(replace_control_characters(text)[: shutil.get_terminal_size().columns - 1])
        else:
            say(text, "dim")

    def show_outcome(self, check: Check) -> None:
        """Show the outcome of a test. Raises UsageError if standard output cannot be written."""
        if self.overwrites:
            self._write("")
        if self.quiet:
            return
        write(f"{_MARKS[check.outcome]} {check.outcome:<8}{check.name}  {check.seconds:.1f} s\n")
        for line in check.detail.splitlines()[: None if check.outcome == "fail" else 1]:
            write(f"            {replace_control_characters(line)}\n")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()


def _group_of(name: str, group: str | None) -> str:
    """Return the group that contains the name."""
    if group is not None and group not in GROUPS:
        raise UnknownName("group of plugins", group, GROUPS)
    registry, groups = Registry(), GROUPS if group is None else (group,)
    matching = [group_name for group_name in groups if registry.has_plugin(group_name, name)]
    if not matching:
        installed = {plugin for group_name in groups for plugin in registry.names(group_name)}
        raise UnknownName("plugin", name, installed, "`dlperf list` shows all, by kind.")
    if len(matching) > 1:
        raise UsageError(f"{name!r} is in {' and '.join(matching)}; say which with --group.")
    return matching[0]


@command
def new_plugin(
    name: Annotated[str, Parameter(help="The framework's name, as users will type it.")],
    /,
    *,
    directory: Annotated[
        str | None, Parameter(help="Parent directory of the plugin's folder. Default: the current directory.")
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Write the skeleton of a framework plugin: both halves, processes, a conformance test, a README.

    The parts to fill in are marked, and `dlperf check` lists those that are missing.
    """
    from dlperf_sdk import skeleton

    project = skeleton.write(name, Path() if directory is None else _folder(directory))
    if common.json:
        emit({"directory": str(project.folder), "files": list(project.files)})
        return 0
    for file in project.files:
        write(f"{project.folder / file}\n")
    say(
        f"Next: pip install --editable {project.folder} and dlperf try {name} resnet50. Its README.md says what "
        "to fill in."
    )
    return 0


def _folder(directory: str) -> Path:
    if not directory.strip():
        raise UsageError("--directory names nothing; leave it out to make the plugin's folder here.")
    return Path(directory)
