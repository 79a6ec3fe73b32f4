"""The run spec that the arguments of a function describe: a complete spec, or names and fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.planning.spec_file import declaration_lookup, load_spec
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

_FIELDS = {field.name for field in attrs.fields(RunSpec)}


def spec_from(
    spec: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
    keywords: Iterable[str] = (),
    registry: Registry | None = None,
) -> RunSpec:
    """Return the run spec that the arguments of `dlperf_sdk.run` describe.

    Args:
        spec: A framework's name, if `model` is given; or a complete spec: a `RunSpec`, a mapping, or the path of a
            JSON, TOML or YAML file, as a text or a `Path`.
        model: The model's name; None with a complete spec.
        fields: Name of a field of `RunSpec` → value that replaces the one in `spec`; None: no field is replaced.
        keywords: Names of the caller's other arguments, for suggestions if a field is misspelt.
        registry: The plugins, which declare the options; None for the installed ones.

    Raises:
        UnknownName: `fields` has a name that is not a field of `RunSpec`, or a field has a value that is none of its
            fixed names.
        SpecError: A field has an impossible value, or a spec file sets something that decides what is executed or
            read.
        DocumentError: The spec's file or mapping cannot be read as a spec.
        UsageError: `model` is given together with a complete spec.
    """
    fields = dict(fields or {})
    for name in fields:
        if name not in _FIELDS:
            option = _option_hint(name, fields[name], [spec, model], registry)
            raise UnknownName("argument", name, {*_FIELDS, *keywords}, replacement=option)
    if isinstance(spec, str) and model is not None:
        return RunSpec(**{"framework": spec, "model": model, **fields})
    if model is not None:
        raise UsageError(
            "A model's name belongs to a framework's name; a whole spec already names its model."
        )
    if isinstance(spec, str | Path):
        return load_spec(Path(spec), fields, registry)
    run_spec = spec if isinstance(spec, RunSpec) else RunSpec.from_dict(spec)
    return attrs.evolve(run_spec, **fields)


def _option_hint(name: str, value: Any, plugins: Iterable[Any], registry: Registry | None) -> str:
    """Return how to give an argument that is an option of a framework or model; empty if it is none."""
    look_up = declaration_lookup(registry or Registry())
    for group, plugin in zip(("frameworks", "models"), plugins, strict=True):
        if isinstance(plugin, str) and name in look_up(group, plugin).options:
            return f"{name!r} is an option of {plugin}: give options={{{name!r}: {value!r}}}."
    return ""


def keyword_only_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's keyword-only parameters, in the order of its signature."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
