"""The plugins that a spec names, loaded and checked for its case before anything is started."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.errors import PluginError, Unavailable, Unsupported
from dlperf_sdk.interfaces.framework import EnvironmentSpec, Framework
from dlperf_sdk.interfaces.model import Model
from dlperf_sdk.registry.capabilities import (
    check_capabilities,
    check_combination,
    check_part,
    device_of,
    format_names,
)
from dlperf_sdk.registry.model_description import ModelDescription, describe_model
from dlperf_sdk.registry.options import split_options
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import STRATEGIES


@frozen(kw_only=True)
class Selection:
    """The plugins of a case that can be run, and their answers for the case."""

    framework: Framework
    model: Model
    description: ModelDescription
    trainer: str
    """Location of the trainer, as ``module:attribute``."""
    device: str
    """Kind of the devices, resolved: never `auto`."""
    model_options: Any
    """An instance of the model's `Options`."""
    framework_options: Any
    """An instance of the framework's `Options`."""
    topology_options: Any
    """An instance of the launcher's `Options`."""
    environment: EnvironmentSpec
    samplers: tuple[str, ...]
    """Samplers of the installed measurers, as ``module:attribute``, sorted; each node runs them."""
    distribution: str
    """Name and version of the distribution that registers the framework's plugin."""


def select_plugins(spec: RunSpec, registry: Registry) -> Selection:
    """Load the plugins of a spec, check that they can run its case, and return them. Nothing is started.

    The returned selection also has the plugins' answers for the case, such as the trainer and the environment.

    Args:
        spec: The case.
        registry: The plugins.

    Raises:
        UnknownName: The spec names a framework, model, launcher, option or capability that does not exist.
        SpecError: An option has an impossible value, or one that does not fit the topology or the model.
        PluginError: A plugin cannot be loaded, its code fails, or two distributions register its name. The plugins
            include every installed measurer.
        Unsupported: The framework has no trainer for the model, or its plugin cannot run the case; the message says
            what it offers.
        Unavailable: The launcher cannot place the case from this machine.
    """
    framework, model = registry.framework(spec.framework), registry.model(spec.model)
    topology = registry.topology(spec.topology.launcher)
    model_options, framework_options, topology_options = split_options(spec, model, framework, topology)
    describing = f"describe itself with {attrs.asdict(model_options)}"
    with registry.wrap_plugin_errors("models", model.name, describing):
        description = describe_model(model, model_options, spec.global_batch_size)
    with registry.wrap_plugin_errors("frameworks", framework.name, "judge the case"):
        trainer = registry.trainer(framework, model)
        if trainer is None:
            raise Unsupported(
                f"{framework.name} has no implementation of {model.name}: neither the framework's plugin nor the "
                f"model's brings a trainer. {framework.name} implements "
                f"{format_names(list_implemented_models(framework, registry))}; choose one of these."
            )
        device = device_of(spec.device, framework)
        check_capabilities(spec, device, framework, model)
        sources = framework.capabilities.data & set(description.data_sources)
        check_part(spec, framework, sources)
        if spec.data.source not in sources:
            raise Unsupported(
                f"{model.name} cannot be fed from {spec.data.source!r}; choose one of {format_names(sources)}."
            )
        check_combination(spec, device, framework, framework_options)
        # Where nothing is synchronized, the strategy has no effect, so its packages are not needed.
        strategy = spec.strategy if spec.syncs_gradients else STRATEGIES.default
        environment = framework.environment(device, strategy, spec.model).including(
            DATA_SOURCES[spec.data.source].requirements
        )
        if spec.python is not None and spec.container is None:  # in a container, it is a command
            _check_python(spec.python, framework.name, environment)
    if model.name not in framework.trainers:
        with registry.wrap_plugin_errors("models", model.name, "judge the case"):
            reason = model.explain_refusal(spec.on_device(device))
        if reason:
            raise Unsupported(reason)
    with registry.wrap_plugin_errors("topologies", topology.name, f"place {spec.topology}"):
        topology.validate_options(spec.topology.nodes, topology_options)
        reason = topology.unavailable_reason(spec.topology.nodes, spec.topology.devices_per_node, device)
    if reason:
        raise Unavailable(reason)
    return Selection(
        framework=framework,
        model=model,
        description=description,
        trainer=trainer,
        device=device,
        model_options=model_options,
        framework_options=framework_options,
        topology_options=topology_options,
        environment=environment,
        samplers=tuple(sorted({name for measurer in registry.measurers() for name in measurer.samplers})),
        distribution=registry.distribution("frameworks", framework.name),
    )


def list_implemented_models(framework: Framework, registry: Registry) -> set[str]:
    """Return the names of the models for which the framework's plugin or the model's own brings a trainer.

    A model whose plugin cannot be loaded counts only if the framework's plugin brings its trainer.
    """
    implemented = set(framework.trainers)
    for name in registry.names("models"):
        with suppress(PluginError), registry.wrap_plugin_errors("models", name, "name its trainers"):
            if registry.trainer(framework, registry.model(name)):
                implemented.add(name)
    return implemented


def _check_python(python: str, framework: str, environment: EnvironmentSpec) -> None:
    """Check that a framework's plugin accepts the interpreter that a spec names, if it is a version.

    Raises:
        Unsupported: The plugin's range of versions for the case does not contain it.
        PluginError: The plugin's range is not a version specifier.
    """
    from dlperf_sdk.spec.python_version import describe_refused_version, is_version, restrict_specifier

    if is_version(python) and restrict_specifier(environment.python, python) is None:
        raise Unsupported(describe_refused_version(framework, environment.python, python))
