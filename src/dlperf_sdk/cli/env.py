"""`env`: the managed environments of frameworks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import App, Parameter

from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.reports.blocks import Block, Cell, Column, Paragraph, Table
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.strategy import STRATEGIES

if TYPE_CHECKING:
    from dlperf_sdk.environments import DamagedFile

env = App(
    name="env",
    help="Make, list, verify, repair and remove the managed environments that frameworks run in.",
    sort_key=100,
)


@env.command
@command
def create(
    framework: Annotated[str, Parameter(help="A framework's name.")],
    /,
    *,
    device: Annotated[
        str, Parameter(help="Kind of device: auto (a GPU if there is one), cpu, cuda, …", metavar="DEVICE")
    ] = "auto",
    strategy: Annotated[
        str, Parameter(help="Gradient synchronization, if the environment depends on it.")
    ] = STRATEGIES.default,
    model: Annotated[str | None, Parameter(help="Model, if the environment depends on it.")] = None,
    data: Annotated[
        str, Parameter(help="Data source, without a folder: some need additional packages.", metavar="DATA")
    ] = DATA_SOURCES.default,
    quiet: Annotated[bool, switch("Do not show the installation.", name=["--quiet", "-q"])] = False,
    common: Common = AS_USUAL,
) -> int:
    """Create a framework's environment before its first run."""
    from dlperf_sdk import environments
    from dlperf_sdk.registry.capabilities import device_of
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.registry.selection import list_implemented_models

    registry = Registry()
    plugin = registry.framework(framework)
    chosen = device_of(device, plugin)
    # As in a case, any framework runs on one device, where the default strategy has no effect.
    for kind, value, supported in (
        ("device", chosen, plugin.capabilities.devices),
        ("strategy", strategy, plugin.capabilities.strategies | {STRATEGIES.default}),
        ("data source", data, plugin.capabilities.data),
    ):
        if value not in supported:
            raise UnknownName(f"{kind} of {framework}", value, supported)
    if model is not None and registry.trainer(plugin, registry.model(model)) is None:
        raise UnknownName(f"model of {framework}", model, list_implemented_models(plugin, registry))
    with registry.wrap_plugin_errors("frameworks", framework, f"say what its environment for {chosen} is"):
        spec = plugin.environment(
            chosen, STRATEGIES[strategy].name, model or min(plugin.trainers, default="")
        ).including(DATA_SOURCES[data].requirements)
    on_progress = (lambda text: None) if quiet else (lambda text: say(text, "dim"))
    prepared = environments.prepare(framework, spec, chosen, on_progress=on_progress)
    details: dict[str, Any] = {
        "kind": prepared.kind,
        "framework": framework,
        "device": chosen,
        "python": prepared.python,
        "path": str(prepared.path),
        "lock": prepared.lock,
    }
    if common.json:
        emit(details)
    else:
        count = len(prepared.lock.splitlines())
        description = f"{prepared.kind} environment, Python {prepared.python}, {count} distributions"
        show([Paragraph(f"{framework} on {chosen}: {description}, {prepared.path}", "good")])
    return 0


@env.command(name="list")
@command
def list_environments(*, common: Common = AS_USUAL) -> int:
    """List the managed environments with their sizes and the time of their last use."""
    from dlperf_sdk import environments

    installed = environments.list_environments()
    if common.json:
        rows = [
            {**attrs.asdict(environment), "path": str(environment.path), "complete": environment.complete}
            for environment in installed
        ]
        emit({"environments": rows})
        return 0
    if not installed:
        show(
            [Paragraph("There is no managed environment. `dlperf env create FRAMEWORK` makes one, or a run.")]
        )
        return 0
    columns = (
        Column("environment", whole=True),
        Column("python"),
        Column("size", right=True),
        Column("made"),
        Column("last used"),
    )
    rows_shown = [
        (
            environment.name,
            environment.python or "",
            quantity(environment.size, "B"),
            _moment(environment.created_at) if environment.complete else Cell("half-made", "doubt"),
            _moment(environment.last_used),
        )
        for environment in installed
    ]
    show([Table(columns, tuple(rows_shown)), Paragraph(f"in {installed[0].path.parent}", "quiet")])
    return 0


@env.command
@command
def remove(
    name: Annotated[str, Parameter(help="A name that `dlperf env list` shows.")],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Remove a managed environment that is not in use."""
    from dlperf_sdk import environments

    environments.remove(name)
    if common.json:
        emit({"removed": name})
    else:
        show([Paragraph(f"{name} is removed.")])
    return 0


@env.command
@command
def verify(
    name: Annotated[str, Parameter(help="A name that `dlperf env list` shows.")],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Compare the files of a managed environment with the hashes recorded when they were installed.

    The exit code is 3 if a file is damaged.
    """
    from dlperf_sdk import environments

    damaged = environments.verify(name)
    if common.json:
        emit({"environment": name, "damaged": [attrs.asdict(file) for file in damaged]})
    elif damaged:
        advice = f"Install the damaged distributions again: dlperf env repair {name}"
        show([_damaged_table(damaged), Paragraph(advice)])
    else:
        show([Paragraph(f"{name}: every file is what was installed.", "good")])
    return 3 if damaged else 0


@env.command
@command
def repair(
    name: Annotated[str, Parameter(help="A name that `dlperf env list` shows.")],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Install the distributions of damaged files again, in the same versions."""
    from dlperf_sdk import environments

    repaired = environments.repair(name, lambda text: say(text, "dim"))
    if common.json:
        emit({"environment": name, "repaired": [attrs.asdict(file) for file in repaired]})
    else:
        blocks: list[Block] = [_damaged_table(repaired)] if repaired else []
        text = f"{name} is repaired." if repaired else f"{name}: every file is what was installed."
        show([*blocks, Paragraph(text, "good")])
    return 0


def _damaged_table(damaged: Iterable[DamagedFile]) -> Table:
    columns = (Column("distribution"), Column("file"), Column("damage"))
    return Table(columns, tuple((file.distribution, file.path, file.reason) for file in damaged))


def _moment(text: str | None) -> str:
    """Format an ISO 8601 time as `2025-01-31 10:15`."""
    return "" if text is None else text[:16].replace("T", " ")
