"""Whether a framework offers what a spec asks for, found before anything is started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from dlperf_sdk.errors import SpecError, UnknownName, Unsupported
from dlperf_sdk.interfaces.framework import Capabilities, Framework
from dlperf_sdk.interfaces.model import Model
from dlperf_sdk.spec.run_spec import RunSpec

VOCABULARY: dict[str, frozenset[str]] = {
    "device": frozenset({"cpu", "cuda", "rocm", "npu", "tpu", "mps"}),
    "precision": frozenset({"fp32", "tf32", "amp-fp16", "amp-bf16"}),
    "compiler": frozenset({"none", "inductor", "xla", "graph", "cinn"}),
    "strategy": frozenset(
        {"all_reduce", "parameter_server", "parameter_server_async", "horovod", "independent"}
    ),
    "layout": frozenset({"auto", "nchw", "nhwc"}),
    "data": frozenset({"synthetic", "synthetic-host", "images", "text"}),
}
"""Names that mean something to everyone: one of these that a framework lacks is unsupported, any other unknown."""


def listed(names: Iterable[str]) -> str:
    """Names in order, for a sentence."""
    return ", ".join(sorted(names)) or "nothing"


def device_of(asked: str, framework: Framework) -> str:
    """The kind of device: the one asked for, or for `auto` a GPU where there is one and the framework can use it."""
    if asked != "auto":
        return asked
    offered = framework.capabilities.devices
    if "cuda" in offered:
        from dlperf_sdk.worker.gpu.gpus import list_gpus

        if list_gpus():
            return "cuda"
    return "cpu" if "cpu" in offered else min(offered, default="cpu")


def check_capabilities(spec: RunSpec, device: str, framework: Framework, model: Model) -> None:
    """Refuse what is not offered, before anything is started.

    Raises:
        UnknownName: a name means nothing to anybody.
        SpecError: a folder is given where none belongs, or is missing.
        Unsupported: the framework's plugin does not offer it, or it means nothing to the model or the device.
    """
    source, path = spec.data.source, spec.data.path
    if path is not None and source in ("synthetic", "synthetic-host"):
        raise SpecError(f"data is {str(spec.data)!r}; {source} samples are made up, and take no folder.")
    can: Capabilities = framework.capabilities
    asked = {
        "device": (device, can.devices),
        "precision": (spec.precision, can.precisions),
        "compiler": (spec.compiler, can.compilers),
        "strategy": (spec.strategy, can.strategies),
        "layout": (spec.layout, can.layouts),
        "data": (spec.data.source, can.data),
    }
    # One replica has nobody to meet: any strategy is then the same.
    if spec.topology.devices == 1 and spec.strategy in VOCABULARY["strategy"]:
        del asked["strategy"]
    for kind, (value, offered) in asked.items():
        if value in offered:
            continue
        known = VOCABULARY[kind] | offered
        if value not in known:
            raise UnknownName(kind, value, known)
        why = framework.lacks.get(value)
        raise Unsupported(
            f"{framework.name} does not offer the {kind} {value!r}; it offers {listed(offered)}."
            + (f" {why}" if why else "")
        )
    if spec.layout != "auto" and not model.has_images:
        raise Unsupported(
            f"{model.name} has no images whose layout could be {spec.layout}; leave the layout at auto."
        )
    if spec.precision == "tf32" and device != "cuda":
        raise Unsupported(f"tf32 is a mode of NVIDIA GPUs' matrix units; on {device}, choose fp32.")
    if spec.data.source not in model.data:
        raise Unsupported(
            f"{model.name} cannot be fed from {spec.data.source!r}; it takes {listed(model.data)}."
        )
    if path is None and source in ("images", "text"):
        raise SpecError(f"data is {source!r}; name the folder as well: {source}:FOLDER.")
    if spec.accumulation > 1 and not can.accumulation:
        raise Unsupported(f"{framework.name} does not offer gradient accumulation; leave accumulation at 1.")


def check_combination(spec: RunSpec, device: str, framework: Framework, options: Any) -> None:
    """Refuse what is offered in parts and cannot run together, in the plugin's own words; `options` are the plugin's.

    Raises:
        Unsupported: the plugin refuses it.
    """
    reason = framework.refuses(attrs.evolve(spec, device=device), options)
    if reason:
        raise Unsupported(reason)
