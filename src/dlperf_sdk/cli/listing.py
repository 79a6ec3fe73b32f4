"""`list` and `describe`: what is installed, and what each plugin offers."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli import model_page
from dlperf_sdk.cli.flags import entries
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import PluginError, SpecError, UnknownName, UsageError
from dlperf_sdk.registry import GROUPS, Registry, Row
from dlperf_sdk.report.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table
from dlperf_sdk.report.numbers import counted, quantity

_BROKEN = 3


@command
def list_plugins(
    group: Annotated[
        str | None, Parameter(help="frameworks, models, topologies or measurers; all of them unless given.")
    ] = None,
    /,
    *,
    check: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Load each plugin, and say of a broken one what ails it."
        ),
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """List the installed frameworks, models, topologies and measurers. Without --check, none is imported."""
    registry = Registry()
    groups = GROUPS if group is None else (_group(group),)
    rows = [row for each in groups for row in registry.rows(each)]
    errors = {row: _error(registry, row) for row in rows} if check else {}
    if common.json:
        emit({each: [_listed(row, errors) for row in rows if row.group == each] for each in groups})
    else:
        show([_table(each, [row for row in rows if row.group == each], errors) for each in groups])
    return _BROKEN if any(errors.values()) else 0


def _group(name: str) -> str:
    """The group that a name, in the singular as well, stands for."""
    plural = {"framework": "frameworks", "model": "models", "topology": "topologies", "measurer": "measurers"}
    found = plural.get(name, name)
    if found not in GROUPS:
        raise UnknownName("group of plugins", name, GROUPS)
    return found


def _error(registry: Registry, row: Row) -> str | None:
    try:
        registry.load(row.group, row.name)
    except PluginError as error:
        return str(error)
    return None


def _listed(row: Row, errors: dict[Row, str | None]) -> dict[str, Any]:
    plain = {"name": row.name, "distribution": row.distribution, "target": row.target}
    return {**plain, "error": errors[row]} if errors else plain


def _table(group: str, rows: list[Row], errors: dict[Row, str | None]) -> Block:
    if not rows:
        return Paragraph(f"{group}: none is installed", "doubt")
    columns = [Column(group), Column("of"), Column("is")]
    if errors:
        columns.append(Column("check"))
    lines = []
    for row in rows:
        line: list[Cell | str] = [row.name, Cell(row.distribution, "quiet"), Cell(row.target, "quiet")]
        if errors:
            said = errors[row]
            line.append(Cell("✓ works", "good") if said is None else Cell(f"✗ {said}", "bad"))
        lines.append(tuple(line))
    return Table(tuple(columns), tuple(lines))


@command
def describe(
    *names: Annotated[
        str, Parameter(help="A plugin's name, with its group before it where two groups have the name.")
    ],
    options: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            metavar="NAME=VALUE",
            negative=(),
            help="Describe a model with this option. May be repeated.",
        ),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Describe a plugin: what it offers, its options, what it needs; of a model its arithmetic, what is computed to the
    epsilon, and its parameters.

    `dlperf describe resnet50`, `dlperf describe model resnet50 --set image_size=64`
    """
    registry = Registry()
    group, name = _named(registry, names)
    plugin = registry.load(group, name)
    chosen = entries("options", options or ())
    if chosen and group != "models":
        raise UsageError(f"--set describes a model with other options; {name} is one of the {group}.")
    document = {
        "group": group,
        "name": name,
        "distribution": registry.distribution(group, name),
        "description": inspect.cleandoc(type(plugin).__doc__ or ""),
        **_ABOUT[group](registry, plugin, chosen),
    }
    if common.json:
        emit(document)
    else:
        show(_described(document))
    return 0


def _named(registry: Registry, names: tuple[str, ...]) -> tuple[str, str]:
    """Group and name of what `describe` was asked for."""
    if not 1 <= len(names) <= 2:
        raise UsageError(
            "Name one plugin to describe: `dlperf describe resnet50`, or `dlperf describe model resnet50`."
        )
    if len(names) == 2:
        return _group(names[0]), names[1]
    name = names[0]
    holders = [group for group in GROUPS if name in registry.names(group)]
    if not holders:
        raise UnknownName("plugin", name, {known for group in GROUPS for known in registry.names(group)})
    if len(holders) > 1:
        raise UsageError(
            f"{name!r} is in {' and in '.join(holders)}; say which: `dlperf describe {holders[0]} {name}`."
        )
    return holders[0], name


# -- what there is to say, as plain values


def _about_framework(registry: Registry, plugin: Any, _: Any) -> dict[str, Any]:
    can = plugin.capabilities
    environments = {}
    for device in sorted(can.devices):
        spec = plugin.environment(device, "all_reduce", next(iter(sorted(plugin.trainers)), ""))
        environments[device] = {
            "python": spec.python,
            "requirements": list(spec.requirements),
            "lock": spec.lock is not None,
        }
    return {
        "models": _partners(registry, "models", lambda model: registry.trainer(plugin, model)),
        "capabilities": {
            field.name: sorted(value) if isinstance(value, frozenset) else value
            for field, value in ((field, getattr(can, field.name)) for field in attrs.fields(type(can)))
        },
        "options": _options(plugin.Options),
        "environments": environments,
    }


def _about_model(registry: Registry, plugin: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in attrs.fields(plugin.Options)}
    for name in chosen:
        if name not in known:
            raise UnknownName(f"option of {plugin.name}", name, known)
    try:
        options = plugin.Options(**chosen)
    except (TypeError, ValueError) as error:
        raise SpecError(f"The options {chosen} do not fit {plugin.name}: {error}") from error
    optimizer = plugin.optimizer(options, 32)
    parameters = plugin.parameters(options)
    return {
        "frameworks": _partners(
            registry, "frameworks", lambda framework: registry.trainer(framework, plugin)
        ),
        "unit": plugin.unit,
        "data": sorted(plugin.data),
        "options": _options(plugin.Options, options),
        "inputs": [
            {"name": entry.name, "shape": list(entry.shape), "dtype": entry.dtype}
            for entry in plugin.inputs(options)
        ],
        "page": model_page.page_of(plugin),
        "manifest": model_page.manifest_of(parameters),
        "tensors": len(parameters),
        "parameters": plugin.parameter_count(options),
        "flops_per_sample": plugin.flops_per_sample(options),
        "flops": [
            {"name": term.name, "macs": term.macs, "passes": term.passes, "flops": term.flops}
            for term in plugin.flops(options)
        ],
        "optimizer": {"kind": optimizer.kind, **optimizer.numbers, "source": optimizer.source},
    }


def _about_topology(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    written = "NODESnDEVICESd" + ("" if plugin.name == "local" else f"@{plugin.name}")
    return {"written": written, "options": _options(plugin.Options)}


def _about_measurer(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    return {"samplers": list(plugin.samplers)}


_ABOUT = {
    "frameworks": _about_framework,
    "models": _about_model,
    "topologies": _about_topology,
    "measurers": _about_measurer,
}


def _partners(registry: Registry, group: str, trainer: Any) -> dict[str, str]:
    """Name → trainer, of all in a group that go together with a plugin. A broken one is said and left out."""
    found = {}
    for name in registry.names(group):
        try:
            target = trainer(registry.load(group, name))
        except PluginError as error:
            say(f"Warning: {error}", "yellow")
            continue
        if target is not None:
            found[name] = target
    return found


def _options(declared: type[Any], chosen: Any = None) -> list[dict[str, Any]]:
    described = []
    for field in attrs.fields(declared):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        described.append(
            {
                "name": field.name,
                "type": field.type
                if isinstance(field.type, str)
                else getattr(field.type, "__name__", str(field.type)),
                "default": None if default is attrs.NOTHING else default,
                "value": None if chosen is None else getattr(chosen, field.name),
                "role": field.metadata.get("role"),
                "help": field.metadata.get("help", ""),
            }
        )
    return described


# -- for people


def _described(about: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = [
        Heading(about["name"], Cell(f"{about['group']}, {about['distribution']}", "quiet"))
    ]
    if about["description"]:
        blocks.append(Paragraph(about["description"].split("\n\n")[0].replace("\n", " ")))
    pairs = _facts(about)
    if pairs:
        blocks.append(Labels(tuple(pairs)))
    if about.get("options"):
        rows = [
            (option["name"], option["type"], _shown(option["default"]), option["help"])
            for option in about["options"]
        ]
        columns = (Column("option"), Column("type"), Column("default", right=True), Column("meaning"))
        blocks.append(Table(columns, tuple(rows), "Options, set with --set NAME=VALUE"))
    if "environments" in about:
        rows_of = [
            (
                device,
                each["python"],
                ", ".join(each["requirements"]) or "none",
                "yes" if each["lock"] else "no",
            )
            for device, each in about["environments"].items()
        ]
        columns = (Column("device"), Column("python"), Column("requirements"), Column("lock"))
        blocks.append(Table(columns, tuple(rows_of), "Environments"))
    if "flops" in about:
        blocks += _arithmetic(about)
    if "manifest" in about:
        blocks += model_page.blocks(about["page"], about["manifest"])
    return blocks


def _facts(about: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [(label, ", ".join(about[key]) or "none") for key, label in _LISTS if key in about]
    pairs += [
        (name.capitalize(), ", ".join(value) if isinstance(value, list) else "yes" if value else "no")
        for name, value in about.get("capabilities", {}).items()
    ]
    if "written" in about:
        pairs.append(("Topology", about["written"]))
    if "parameters" in about:
        inputs = (f"{entry['name']} {tuple(entry['shape'])} {entry['dtype']}" for entry in about["inputs"])
        numbers = ", ".join(
            f"{name} {_shown(value)}"
            for name, value in about["optimizer"].items()
            if name not in ("kind", "source")
        )
        pairs += [
            ("Throughput in", about["unit"]),
            ("Inputs", "; ".join(inputs)),
            ("Parameters", f"{about['parameters']:,}, in {counted(about['tensors'], 'tensor')}"),
            ("FLOPs", f"{about['flops_per_sample']:,} per sample and training step"),
            ("Optimizer", f"{about['optimizer']['kind']}: {numbers}"),
            ("", f"at a global batch size of 32; {about['optimizer']['source']}"),
        ]
    return pairs


_LISTS = (("models", "Models"), ("frameworks", "Frameworks"), ("data", "Data"), ("samplers", "Samplers"))


def _arithmetic(about: dict[str, Any]) -> list[Block]:
    rows = [
        (term["name"], f"{term['macs']:,}", str(term["passes"]), quantity(term["flops"], "FLOP"))
        for term in about["flops"]
    ]
    rows.append(("sum", "", "", quantity(about["flops_per_sample"], "FLOP")))
    columns = (
        Column("layer"),
        Column("multiply-accumulates", right=True),
        Column("passes", right=True),
        Column("2 × both", right=True),
    )
    said = "3 passes: forward, gradient of the input and of the weight; 2 where the input needs no gradient."
    return [
        Table(columns, tuple(rows), "Arithmetic of one training step per sample"),
        Paragraph(said, "quiet"),
    ]


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
