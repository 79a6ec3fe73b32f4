"""Checks of the arguments of `check`: each must belong to the plugin's kind, and have a valid value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dlperf_sdk.cli.flags import option_values
from dlperf_sdk.errors import RunFailed, SpecError, UnknownName, UsageError
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import VOCABULARY
from dlperf_sdk.registry.options import format_options
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar

_TAKES = {
    "frameworks": ("models", "batch_size", "device", "python", "options"),
    "models": ("options",),
    "topologies": ("framework", "model"),
    "measurers": ("framework", "model"),
    "observers": ("framework", "model"),
}
_FLAGS = {"batch_size": "--batch-size", "options": "--set"}
FRAMEWORK, MODEL = "numpy", "linear"
"""The case that topologies, measurers and observers are tried with, unless another is named."""


def members(group: str, name: str, values: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Return the class attributes that adapt the conformance suite to a plugin, as name → value.

    They are to be set on a subclass of the suite's class for plugins of this kind.

    Args:
        group: Group of the plugin, such as `frameworks`.
        name: Name of the plugin.
        values: Name of each option of `dlperf check` that was given → its value; for `options`, name → value as typed
            after `--set`.
        registry: The plugins.

    Raises:
        UsageError: An option does not belong to the plugin's kind, the framework does not offer a given model or
            device, or the given interpreter does not run.
        UnknownName, SpecError: There is no plugin or option of a given name, or an option has an impossible value.
        PluginError: A plugin that is needed cannot be used.
    """
    for option in values:
        if option not in _TAKES[group]:
            raise UsageError(_explain_misplaced(option, group, name))
    if group == "frameworks":
        return _framework_members(name, values, registry)
    if group == "models":
        chosen = option_values(values.get("options", {}), registry.model(name))
        return _model_members(name, chosen, registry)
    return _case_members(values.get("framework", FRAMEWORK), values.get("model", MODEL), registry)


def _explain_misplaced(option: str, group: str, name: str) -> str:
    flags = ", ".join(_flag(parameter) for parameter in _TAKES[group])
    hint = " Did you mean --models?" if (option, group) == ("model", "frameworks") else ""
    return f"{_flag(option)} says nothing about {name}, which is one of the {group}: they take {flags}.{hint}"


def _flag(option: str) -> str:
    return _FLAGS.get(option, f"--{option}")


def _framework_members(name: str, values: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    from dlperf_sdk import environments
    from dlperf_sdk.harness.in_process import SMALL

    plugin = registry.framework(name)
    implemented = [
        model_name
        for model_name in registry.names("models")
        if registry.trainer(plugin, registry.model(model_name))
    ]
    for model in values.get("models", ()):
        if registry.trainer(plugin, registry.model(model)) is None:
            raise UsageError(f"{name} has no trainer for {model}; it has some for {', '.join(implemented)}.")
    device, devices = values.get("device", "auto"), plugin.capabilities.devices
    if device not in VOCABULARY["device"] | devices | {"auto"}:
        raise UnknownName("kind of device", device, VOCABULARY["device"] | devices | {"auto"})
    if device not in devices | {"auto"}:
        raise UsageError(
            f"{name} does not offer the device {device!r}; it offers {', '.join(sorted(devices))}."
        )
    if values.get("python") is not None:
        environments.check_interpreter(values["python"])
    settings = {key: values[key] for key in ("batch_size", "device", "python") if key in values}
    models = tuple(dict.fromkeys(values.get("models") or implemented))
    if "models" in values:
        settings["models"] = models
    chosen = option_values(values.get("options", {}), plugin, *map(registry.model, models))
    framework_options = {field.name for field in attrs.fields(plugin.Options)}
    of_models = {
        model: {field.name for field in attrs.fields(registry.model(model).Options)} for model in models
    }
    for option in chosen:
        known = framework_options.union(*of_models.values())
        if option not in known:
            raise UnknownName(f"option of {' or '.join([name, *models])}", option, known)
    settings["options"] = {option: value for option, value in chosen.items() if option in framework_options}
    settings["model_options"] = {
        model: {**SMALL.get(model, {})}
        | {option: value for option, value in chosen.items() if option in names}
        for model, names in of_models.items()
    }
    for model in models:
        _plan(name, model, settings)
    return settings


def _plan(name: str, model: str, settings: Mapping[str, Any]) -> None:
    """See that a case of the model can be planned. That it is refused, the tests will say."""
    options = {**settings["model_options"][model], **settings["options"]}
    fields = {key: settings[key] for key in ("batch_size", "device", "python") if key in settings}
    try:
        make_plan(RunSpec(framework=name, model=model, options=options, **fields), Registry())
    except RunFailed:
        return


def _model_members(name: str, chosen: Mapping[str, Scalar], registry: Registry) -> dict[str, Any]:
    options = registry.model(name).Options
    known = {field.name for field in attrs.fields(options)}
    for option in chosen:
        if option not in known:
            raise UnknownName(f"option of {name}", option, known)
    try:
        options(**chosen)
    except (TypeError, ValueError) as error:
        raise SpecError(f"The options {format_options(chosen)} do not fit {name}: {error}") from error
    return {"model_options": dict(chosen)}


def _case_members(framework: str, model: str, registry: Registry) -> dict[str, Any]:
    if registry.trainer(registry.framework(framework), registry.model(model)) is None:
        raise UsageError(f"{framework} has no trainer for {model}; name others with --framework and --model.")
    return {"framework": framework, "model": model}
