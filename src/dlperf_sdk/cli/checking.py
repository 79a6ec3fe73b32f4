"""`check` and `new-plugin`: for those who write plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show, write
from dlperf_sdk.errors import PluginError, UnknownName, UsageError
from dlperf_sdk.registry import GROUPS, Registry
from dlperf_sdk.report.blocks import Paragraph

_MARKS = {"pass": "✓", "fail": "✗", "skipped": "–"}


@command
def check(
    name: Annotated[str, Parameter(help="A plugin's name.")],
    /,
    *,
    group: Annotated[
        str | None,
        Parameter(help="frameworks, models, topologies or measurers, where the name is in several."),
    ] = None,
    only: Annotated[str | None, Parameter(help="Only the tests whose names contain this.")] = None,
    models: Annotated[
        list[str] | None,
        Parameter(
            help="A framework: the models to try, the cheapest first.", negative=(), consume_multiple=True
        ),
    ] = None,
    framework: Annotated[
        str, Parameter(help="A topology or measurer: the framework of its cases.")
    ] = "numpy",
    model: Annotated[str, Parameter(help="A topology or measurer: the model of its cases.")] = "linear",
    batch_size: Annotated[int, Parameter(help="A framework: samples per device.")] = 4,
    device: Annotated[str, Parameter(help="A framework: kind of device: auto, cpu, cuda, …")] = "auto",
    python: Annotated[
        str | None,
        Parameter(help="A framework: the interpreter of an existing environment, instead of a managed one."),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Hold an installed plugin to what plugins of its kind are held to: one line per check.

    Exit codes: 0 all passed or were skipped, 1 one failed, 2 no such plugin, 3 it cannot be loaded.
    """
    found = _group_of(name, group)
    Registry().load(found, name)
    members: dict[str, Any] = {"framework": framework, "model": model}
    if found == "frameworks":
        members = {"batch_size": batch_size, "device": device, "python": python}
        members |= {"models": tuple(models)} if models else {}
    elif found == "models":
        members = {}
    try:
        from dlperf_sdk.testing import check as suite
    except ImportError as error:
        raise PluginError(str(error)) from error

    def told(one: suite.Check) -> None:
        if not common.json:
            write(f"{_MARKS[one.outcome]} {one.outcome:<8}{one.name}  {one.seconds:.1f} s\n")
            for line in one.detail.splitlines()[: None if one.outcome == "fail" else 1]:
                write(f"            {line}\n")

    checks = suite.check(found, name, told, only, **members)
    counts = {outcome: sum(one.outcome == outcome for one in checks) for outcome in _MARKS}
    code = 1 if counts["fail"] else 0
    if common.json:
        listed = [attrs.asdict(one) for one in checks]
        emit({"group": found, "name": name, "checks": listed, "counts": counts, "exit_code": code})
    else:
        said = f"{name}: {counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped"
        show([Paragraph(said, "bad" if code else "good")])
    return code


def _group_of(name: str, group: str | None) -> str:
    """The group that holds the name."""
    if group is not None and group not in GROUPS:
        raise UnknownName("group of plugins", group, GROUPS)
    known = {each: Registry().names(each) for each in GROUPS if group in (None, each)}
    found = [each for each, names in known.items() if name in names]
    if not found:
        raise UnknownName("plugin", name, {one for names in known.values() for one in names})
    if len(found) > 1:
        raise UsageError(f"{name!r} is in {' and '.join(found)}; say which with --group.")
    return found[0]


@command
def new_plugin(
    name: Annotated[str, Parameter(help="The framework's name, as users will type it.")],
    /,
    *,
    directory: Annotated[
        Path | None, Parameter(help="Where the plugin's folder is made; here, unless given.")
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Write the skeleton of a framework's plugin: both halves, processes, a conformance test, a README.

    What the author has to fill in is marked, and is what `dlperf check` then finds missing.
    """
    from dlperf_sdk import skeleton

    made = skeleton.write(name, directory or Path())
    if common.json:
        emit({"directory": str(made.folder), "files": list(made.files)})
        return 0
    for file in made.files:
        write(f"{made.folder / file}\n")
    say(
        f"Next: pip install --editable {made.folder} and dlperf check {name}. Its README.md says what to fill in."
    )
    return 0
