"""`env`: the managed environments."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
from cyclopts import App, Parameter

from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.spec.strategy import STRATEGIES

env = App(
    name="env", help="Make, list and remove the managed environments that frameworks run in.", sort_key=100
)


@env.command
@command
def create(
    framework: Annotated[str, Parameter(help="A framework's name.")],
    /,
    *,
    device: Annotated[
        str, Parameter(help="Kind of device: auto (a GPU where there is one), cpu, cuda, …", metavar="DEVICE")
    ] = "auto",
    strategy: Annotated[
        str, Parameter(help="Where the environment depends on the gradient synchronization.")
    ] = STRATEGIES.default,
    model: Annotated[str | None, Parameter(help="Where the environment depends on the model.")] = None,
    quiet: Annotated[
        bool,
        Parameter(
            name=["--quiet", "-q"], negative=(), show_default=False, help="Say nothing of the installation."
        ),
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """Make a framework's environment beforehand, so that the first run need not."""
    from dlperf_sdk import environments
    from dlperf_sdk.registry.capabilities import device_of
    from dlperf_sdk.registry.plugins import Registry

    registry = Registry()
    plugin = registry.framework(framework)
    chosen = device_of(device, plugin)
    if chosen not in plugin.capabilities.devices:
        raise UnknownName(f"device of {framework}", chosen, plugin.capabilities.devices)
    with registry.wrap_plugin_errors("frameworks", framework, f"say what its environment for {chosen} is"):
        spec = plugin.environment(
            chosen, STRATEGIES[strategy].name, model or min(plugin.trainers, default="")
        )
    told = (lambda text: None) if quiet else (lambda text: say(text, "dim"))
    prepared = environments.prepare(framework, spec, chosen, on_progress=told)
    about: dict[str, Any] = {
        "kind": prepared.kind,
        "framework": framework,
        "device": chosen,
        "python": prepared.python,
        "path": str(prepared.path),
        "lock": prepared.lock,
    }
    if common.json:
        emit(about)
    else:
        count = len(prepared.lock.splitlines())
        what = f"{prepared.kind} environment, Python {prepared.python}, {count} distributions"
        show([Paragraph(f"{framework} on {chosen}: {what}, {prepared.path}", "good")])
    return 0


@env.command(name="list")
@command
def list_environments(*, common: Common = AS_USUAL) -> int:
    """List the managed environments: their sizes, and when they were last used."""
    from dlperf_sdk import environments

    found = environments.list_environments()
    if common.json:
        rows = [{**attrs.asdict(each), "path": str(each.path), "complete": each.complete} for each in found]
        emit({"environments": rows})
        return 0
    if not found:
        show(
            [Paragraph("There is no managed environment. `dlperf env create FRAMEWORK` makes one, or a run.")]
        )
        return 0
    columns = (
        Column("environment"),
        Column("python"),
        Column("size", right=True),
        Column("made"),
        Column("last used"),
    )
    rows_shown = [
        (
            each.name,
            each.python or "",
            quantity(each.size, "B"),
            _moment(each.created_at) if each.complete else Cell("half-made", "doubt"),
            _moment(each.last_used),
        )
        for each in found
    ]
    show([Table(columns, tuple(rows_shown)), Paragraph(f"in {found[0].path.parent}", "quiet")])
    return 0


@env.command
@command
def remove(
    name: Annotated[str, Parameter(help="A name that `dlperf env list` shows.")],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Remove a managed environment, unless somebody uses it."""
    from dlperf_sdk import environments

    environments.remove(name)
    if common.json:
        emit({"removed": name})
    else:
        show([Paragraph(f"{name} is removed.")])
    return 0


def _moment(text: str | None) -> str:
    """`2025-01-31 10:15` of an ISO 8601 time."""
    return "" if text is None else text[:16].replace("T", " ")
