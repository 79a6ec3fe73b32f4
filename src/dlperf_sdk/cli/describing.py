"""`describe`: the capabilities, options and requirements of a plugin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from dlperf_sdk.cli import model_page, plugin_page
from dlperf_sdk.cli.flags import option_values, parse_entries
from dlperf_sdk.cli.listing import group_named
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.errors import PluginError, SpecError, UnknownName, UsageError
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.registry.options import format_options
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.fields import EFFECTS
from dlperf_sdk.spec.strategy import STRATEGIES
from dlperf_sdk.spec.values import launcher_suffix


@command
def describe(
    *names: Annotated[
        str, Parameter(help="A plugin's name, preceded by its group if two groups have the name.")
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
    """Describe a plugin: its capabilities, options and requirements.

    For a model: its FLOPs, its exact definition, and its parameters.

    `dlperf describe resnet50`, `dlperf describe model resnet50 --set image_size=64`
    """
    registry = Registry()
    group, name = _parse_name(registry, names)
    plugin = registry.load(group, name)
    written = parse_entries("options", options or ())
    if written and group != "models":
        raise UsageError(f"--set describes a model with other options; {name} is one of the {group}.")
    with registry.wrap_plugin_errors(group, name, "describe itself"):
        details = _DETAILS[group](registry, plugin, written)
    document = {
        "group": group,
        "name": name,
        "distribution": registry.distribution(group, name),
        "description": inspect.cleandoc(type(plugin).__doc__ or ""),
        **details,
    }
    if common.json:
        emit(document)
    else:
        show(plugin_page.blocks(document))
    return 0


def _parse_name(registry: Registry, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the group and the name of the plugin to describe."""
    if not 1 <= len(names) <= 2:
        raise UsageError(
            "Name one plugin to describe: `dlperf describe resnet50`, or `dlperf describe model resnet50`."
        )
    if len(names) == 2:
        return group_named(names[0]), names[1]
    name = names[0]
    holders = [group for group in GROUPS if registry.has_plugin(group, name)]
    if not holders:
        installed = {known for group in GROUPS for known in registry.names(group)}
        raise UnknownName("plugin", name, installed, "`dlperf list` shows all, by kind.")
    if len(holders) > 1:
        raise UsageError(
            f"{name!r} is in {' and in '.join(holders)}; say which: `dlperf describe {holders[0]} {name}`."
        )
    return holders[0], name


def _about_framework(registry: Registry, plugin: Any, _: Any) -> dict[str, Any]:
    capabilities = plugin.capabilities
    environments = {}
    for device in sorted(capabilities.devices):
        spec = plugin.environment(device, STRATEGIES.default, min(plugin.trainers, default=""))
        environments[device] = {
            "python": spec.python,
            "requirements": list(spec.requirements),
            "lock": spec.lock is not None,
        }
    return {
        "models": _find_partners(registry, "models", lambda model: registry.trainer(plugin, model)),
        "capabilities": {
            field.name: sorted(value) if isinstance(value, frozenset) else bool(value)
            for field, value in (
                (field, getattr(capabilities, field.name)) for field in attrs.fields(type(capabilities))
            )
        },
        "options": _options(plugin.Options),
        "environments": environments,
    }


def _about_model(registry: Registry, plugin: Any, written: dict[str, str]) -> dict[str, Any]:
    chosen = option_values(written, plugin)
    known = {field.name for field in attrs.fields(plugin.Options)}
    for name in chosen:
        if name not in known:
            raise UnknownName(f"option of {plugin.name}", name, known)
    try:
        options = plugin.Options(**chosen)
    except (TypeError, ValueError) as error:
        raise SpecError(f"The options {format_options(chosen)} do not fit {plugin.name}: {error}") from error
    optimizer = plugin.optimizer(options, 32)
    parameters = plugin.parameters(options)
    return {
        "frameworks": _find_partners(
            registry, "frameworks", lambda framework: registry.trainer(framework, plugin)
        ),
        "unit": plugin.unit,
        "data": sorted(plugin.data_sources(options)),
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
    written = f"NODESnDEVICESd{launcher_suffix(plugin.name)}"
    return {"written": written, "options": _options(plugin.Options)}


def _about_measurer(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    return {"samplers": list(plugin.samplers)}


def _about_collection(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    return {"title": plugin.title, "source": plugin.description, "figures": len(plugin.figures)}


def _about_importer(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    return {"version": plugin.version}


def _about_observer(_: Registry, plugin: Any, __: Any) -> dict[str, Any]:
    from dlperf_sdk.hookspecs import implemented_hooks

    return {"hooks": list(implemented_hooks(plugin, type(plugin).__qualname__))}


_DETAILS = {
    "frameworks": _about_framework,
    "models": _about_model,
    "topologies": _about_topology,
    "measurers": _about_measurer,
    "collections": _about_collection,
    "importers": _about_importer,
    "databases": lambda *_: {},
    "observers": _about_observer,
}


def _find_partners(registry: Registry, group: str, trainer: Callable[[Any], str | None]) -> dict[str, str]:
    """Return the trainers of a group that work with a plugin, by name; report and skip a broken one."""
    attributes = {}
    for name in registry.names(group):
        try:
            partner = registry.load(group, name)
            with registry.wrap_plugin_errors(group, name, "say what it goes together with"):
                target = trainer(partner)
        except PluginError as error:
            say(f"Warning: {error}", "yellow")
            continue
        if target is not None:
            attributes[name] = target
    return attributes


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
                **{effect: bool(field.metadata.get(effect)) for effect in EFFECTS},
            }
        )
    return described
