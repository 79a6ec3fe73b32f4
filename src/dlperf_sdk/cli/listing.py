"""`list`: the installed plugins."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import switch
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show, write
from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.errors import PluginError, UnknownName
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.registry.plugins import Registry, Row

if TYPE_CHECKING:
    from dlperf_sdk.reports.blocks import Block, Tone

_BROKEN = 3
_MIN_WIDTH = 40


@command
def list_plugins(
    group: Annotated[
        str | None,
        Parameter(
            help="frameworks, models, topologies, measurers, collections (of published figures), importers (of logs) "
            "or observers. Default: all."
        ),
    ] = None,
    /,
    *,
    check: Annotated[bool, switch("Load each plugin and show the error of a broken one.")] = False,
    common: Common = AS_USUAL,
) -> int:
    """List the installed plugins of each group, or one group's with their distributions. Only --check imports them.

    The exit code is 3 if --check finds a broken plugin.
    """
    registry = Registry()
    groups = GROUPS if group is None else (group_named(group),)
    rows = [row for name in groups for row in registry.listed_rows(name)]
    errors = {row: load_error(registry, row.group, row.name) for row in rows} if check else {}
    if common.json:
        emit({name: [_row_to_dict(row, errors) for row in rows if row.group == name] for name in groups})
    elif group is None and not check:
        write(_overview(groups, rows))
    else:
        show([_table(name, [row for row in rows if row.group == name], errors) for name in groups])
    return _BROKEN if any(errors.values()) else 0


def group_named(name: str) -> str:
    """Return the group of plugins with this name, which may be in the singular: `framework` → `frameworks`.

    Raises:
        UnknownName: There is no such group.
    """
    group_name = next((group.name for group in GROUPS.values() if group.singular == name), name)
    if group_name not in GROUPS:
        raise UnknownName("group of plugins", name, GROUPS)
    return group_name


def load_error(registry: Registry, group: str, name: str) -> str | None:
    """Load a plugin, and return the reason why it cannot be used; None if it can.

    Args:
        registry: The plugins.
        group: Group of the plugin, such as `frameworks`.
        name: Name of the plugin.

    Raises:
        UnknownName: No plugin of the group has this name.
    """
    from dlperf_sdk.hookspecs import implemented_hooks

    try:
        plugin = registry.load(group, name)
        if group == "observers":
            implemented_hooks(plugin, name)
    except PluginError as error:
        return str(error)
    return None


def _row_to_dict(row: Row, errors: dict[Row, str | None]) -> dict[str, Any]:
    plain = {"name": row.name, "distribution": row.distribution, "target": row.target}
    return {**plain, "error": errors[row]} if errors else plain


def _overview(groups: Collection[str], rows: list[Row]) -> str:
    """Return each group and its names as text. Rich, which takes as long as the rest of the command, is not imported.

    Names are wrapped to the width in COLUMNS, else that of the terminal, else 80.
    """
    indent = max(map(len, groups)) + 2
    lines = []
    for group in groups:
        names = ", ".join(row.name for row in rows if row.group == group)
        text = replace_control_characters(names) or _describe_absence(group)[0]
        lines += textwrap.wrap(
            text,
            max(_MIN_WIDTH, shutil.get_terminal_size().columns),
            initial_indent=group.ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def _describe_absence(group: str) -> tuple[str, Tone]:
    if not GROUPS[group].is_optional:
        return f"no {GROUPS[group].singular} is installed", "doubt"
    distribution = GROUPS[group].distribution
    return (
        "none (optional)" if distribution is None else f"none (optional; {distribution} brings some)",
        "quiet",
    )


def _table(group: str, rows: list[Row], errors: dict[Row, str | None]) -> Block:
    from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table

    if not rows:
        text, tone = _describe_absence(group)
        return Paragraph(f"{group}: {text}", tone)
    columns = [Column(group, whole=True), Column("of", whole=True), Column("is")]
    if errors:
        columns.append(Column("check"))
    lines = []
    for row in rows:
        line: list[Cell | str] = [
            row.name,
            Cell(row.distribution, "quiet"),
            Cell(_describe_target(row.target), "quiet"),
        ]
        if errors:
            error = errors[row]
            line.append(Cell("✓ works", "good") if error is None else Cell(f"✗ {error}", "bad"))
        lines.append(tuple(line))
    return Table(tuple(columns), tuple(lines))


def _describe_target(target: str) -> str:
    """Return `Torch in dlperf_torch.framework`, of which a narrow terminal breaks no name, for an entry point."""
    module, _, name = target.partition(":")
    return f"{name} in {module}" if name else module
