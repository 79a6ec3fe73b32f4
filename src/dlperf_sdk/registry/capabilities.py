"""Checks that a framework offers what a spec requests, before anything is started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlperf_sdk.errors import UnknownName, Unsupported
from dlperf_sdk.interfaces.framework import LAYOUTS, Capabilities, Framework
from dlperf_sdk.interfaces.model import Model
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import STRATEGIES

VOCABULARY: dict[str, frozenset[str]] = {
    "device": frozenset({"cpu", "cuda", "rocm", "npu", "tpu", "mps"}),
    "precision": PRECISIONS.names,
    "compiler": COMPILERS.names,
    "strategy": STRATEGIES.names,
    "layout": LAYOUTS,
    "data": DATA_SOURCES.names,
}
"""Kind of capability → names that the core knows. A known name that a framework does not offer is unsupported;
any other name is unknown, unless it is a kind of device or a compiler that the framework's plugin declares."""


def format_names(names: Iterable[str]) -> str:
    """Format names for a sentence, in alphabetical order and separated by commas; `nothing` without any."""
    return ", ".join(sorted(names)) or "nothing"


def device_of(requested: str, framework: Framework) -> str:
    """Return the kind of device that a case uses: the requested kind or, for `auto`, one that is chosen here.

    `auto` is `cuda` if the framework supports it and this machine has an NVIDIA GPU, else `cpu` if the framework
    supports it, else the alphabetically first kind that it supports; `cpu` if it supports none.
    """
    if requested != "auto":
        return requested
    supported = framework.capabilities.devices
    if "cuda" in supported:
        from dlperf_sdk.worker.gpu.gpus import list_gpus

        if list_gpus():
            return "cuda"
    return "cpu" if "cpu" in supported else min(supported, default="cpu")


def check_capabilities(spec: RunSpec, device: str, framework: Framework, model: Model) -> None:
    """Check that the framework and the model support each property of a spec, taken by itself.

    The strategy is not checked on a single device, where there is nothing to synchronize.

    Args:
        spec: The case.
        device: The kind of device, resolved: never `auto`.
        framework: The framework's plugin.
        model: The model's plugin.

    Raises:
        UnknownName: Neither the core nor the framework's plugin knows a device, precision, compiler, strategy,
            layout or data source of the spec.
        Unsupported: The framework's plugin does not offer one of these or gradient accumulation, a layout is
            given for a model without images, or the precision does not exist on the device.
    """
    capabilities: Capabilities = framework.capabilities
    choices = {
        "device": (device, capabilities.devices),
        "precision": (spec.precision, capabilities.precisions),
        "compiler": (spec.compiler, capabilities.compilers),
        "strategy": (spec.strategy, capabilities.strategies),
        "layout": (spec.layout, capabilities.layouts),
        "data": (spec.data.source, capabilities.data),
    }
    # A single replica has nothing to synchronize, so any strategy is the same.
    if spec.topology.devices == 1 and spec.strategy in STRATEGIES:
        del choices["strategy"]
    for kind, (value, supported) in choices.items():
        if value in supported:
            continue
        known = VOCABULARY[kind] | supported
        term = "data source" if kind == "data" else kind
        if value not in known:
            raise UnknownName(term, value, known)
        reason = framework.unsupported.get(value) or _advice(kind, value, supported)
        raise Unsupported(
            f"{framework.name} does not offer the {term} {value!r}; it offers {format_names(supported)}. "
            f"{reason}".rstrip()
        )
    if spec.layout != "auto" and not model.has_images:
        raise Unsupported(
            f"{model.name} has no images whose layout could be {spec.layout}; leave the layout at auto."
        )
    devices = PRECISIONS[spec.precision].devices
    if devices is not None and device not in devices:
        raise Unsupported(
            f"{spec.precision} exists on {format_names(devices)} only, and the device is {device}; choose another "
            f"precision: {format_names(capabilities.precisions - {spec.precision})}."
        )
    if spec.accumulation > 1 and not capabilities.accumulation:
        raise Unsupported(f"{framework.name} does not offer gradient accumulation; leave accumulation at 1.")


def _advice(kind: str, value: str, supported: Iterable[str]) -> str:
    """Return a sentence that says what to choose among the supported names; empty if there is nothing to choose.

    Instead of a data source, that is a source with the same inputs, such as `images` for `images-dali`.
    """
    names = set(supported)
    if kind == "data":
        inputs = DATA_SOURCES[value].inputs
        names = {name for name in names if DATA_SOURCES[name].inputs == inputs} or names
        names = {DATA_SOURCES[name].usage for name in names}
    return f"Choose {' or '.join(sorted(names))}." if names else ""


def check_combination(spec: RunSpec, device: str, framework: Framework, options: Any) -> None:
    """Check that a framework's plugin can run a combination of capabilities that it offers one by one.

    Args:
        spec: The case.
        device: The kind of device, resolved: never `auto`.
        framework: The framework's plugin.
        options: An instance of the framework's `Options`.

    Raises:
        Unsupported: The plugin refuses the combination; the message is the plugin's reason.
    """
    reason = framework.explain_refusal(spec.on_device(device), options)
    if reason:
        raise Unsupported(reason)


def explain_missing_trace(framework: Framework) -> str | None:
    """Return a sentence that says why a framework's plugin cannot record a trace; None if it can."""
    if framework.capabilities.trace is not None:
        return None
    reason = framework.unsupported.get("trace", "Its plugin declares no profiler; leave out the trace.")
    return f"{framework.name} offers no trace. {reason}"


def check_part(spec: RunSpec, framework: Framework, sources: Iterable[str]) -> None:
    """Check that a case has the part of a step that its spec names, and that the framework can run it.

    Args:
        spec: The case.
        framework: The framework's plugin.
        sources: Data sources that the framework's plugin offers and that can feed the model.

    Raises:
        Unsupported: The plugin does not declare the part. Or the part is `input`, and the data source has no input. Or
            the part is `communication`, and no collective synchronizes gradients. Or the part replaces the
            spec's strategy or data source by another one, which the plugin does not offer.
    """
    part, executed = PARTS[spec.part], spec.executed
    if part.name not in framework.capabilities.parts:
        reason = framework.unsupported.get(part.name, "Choose one of these.")
        raise Unsupported(
            f"{framework.name} cannot measure the part {part.name} alone; it offers "
            f"{format_names(framework.capabilities.parts)}. {reason}"
        )
    if part.trains:
        replaced = [
            (executed.strategy, framework.capabilities.strategies, executed.topology.devices > 1),
            (executed.data.source, framework.capabilities.data, True),
        ]
        for name, supported, matters in replaced if executed is not spec else ():
            if matters and name not in supported:
                raise Unsupported(
                    f"The part {part.name} runs with {name}, which {framework.name} does not offer; it offers "
                    f"{format_names(supported)}. Choose another part, or the whole step."
                )
        return
    if part.reads_input and not DATA_SOURCES[spec.data.source].has_input:
        names = [name for name in sources if DATA_SOURCES[name].has_input]
        advice = f"one of {format_names(names)}" if names else "another part"
        raise Unsupported(
            f"With the data source {spec.data.source}, a step takes no input, so the part {part.name} has nothing to "
            f"measure; choose {advice}."
        )
    if part.exchanges_gradients and not (spec.syncs_gradients and STRATEGIES[spec.strategy].is_collective):
        raise Unsupported(
            f"With the strategy {spec.strategy} on {spec.topology}, no collective synchronizes gradients, so the part "
            f"{part.name} has nothing to measure; choose several devices and the strategy {STRATEGIES.default}."
        )
