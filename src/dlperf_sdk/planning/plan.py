"""The plan: a run spec joined with the plugins that it names, with everything that can be decided before the run."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.planning.secret_variables import conceal_secrets
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.registry.selection import select_plugins
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import Workload
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import PHASES, Scalar
from dlperf_sdk.worker.case_processes import list_case_processes
from dlperf_sdk.worker.processes import Cluster, Process, nodes_from
from dlperf_sdk.worker.request import Request

DEADLINES = dict(zip(PHASES, (300.0, 1800.0, 600.0, 300.0, 60.0), strict=True))
"""Seconds without progress after which a phase has failed, unless the spec sets others."""


_MOST_DEVICES = 100_000
"""Maximum number of devices of a case that is planned. Launchers read as many hosts."""


@frozen(kw_only=True)
class Plan:
    """One case, fully resolved into plain values. `request` turns it into the request for the nodes."""

    spec: RunSpec
    """With hashes in place of secret values."""
    secrets: tuple[str, ...]
    """Names of the variables whose values are secrets."""
    device: str
    """Kind of the devices, resolved: never `auto`."""
    protocol: Protocol
    """The protocol, with the spec's own numbers of steps and repeats."""
    runtime: str
    """Location of the runtime, as ``module:attribute``."""
    trainer: str
    """Location of the trainer, as ``module:attribute``."""
    processes: str
    """Location of the function that lists the processes, as ``module:attribute``."""
    batch_sender: str | None
    """Location of the service that sends a replica's batches; None if the data source has none."""
    model_options: Mapping[str, Scalar]
    """Options of the model, by name, defaults included."""
    framework_options: Mapping[str, Scalar]
    """Options of the framework's plugin, by name, defaults included."""
    topology_options: Any
    """An instance of the topology's `Options`."""
    parameters: tuple[Mapping[str, Any], ...]
    """Manifest of the model's parameters, as JSON values."""
    inputs: tuple[Mapping[str, Any], ...]
    """Manifest of the model's inputs, as JSON values."""
    optimizer: Mapping[str, Any]
    """`kind` and `policy` of the optimizer, and its numbers by name."""
    workload: Workload
    """What a step computes, as results record it."""
    deadlines: Mapping[str, float]
    """Phase → seconds without progress after which it has failed."""
    samplers: tuple[str, ...]
    """Samplers that each agent runs, as ``module:attribute``."""
    packages: tuple[str, ...]
    """Packages in the bundle, in addition to the packages of the references above."""
    environment: EnvironmentSpec
    """Contents of the workers' environment."""
    required_programs: tuple[str, ...]
    """Programs that every node must have on the workers' PATH."""
    plugin: str
    """The framework plugin's distribution and version."""

    def request(
        self,
        run_id: str,
        command: tuple[str, ...],
        variables: Mapping[str, str | None],
        data: Mapping[str, Any],
    ) -> Request:
        """Return the request for the nodes.

        Args:
            run_id: The run's name.
            command: The words of the command that starts the workers' interpreter.
            variables: Name of each environment variable of the workers → value; None stands for its value on the node.
            data: The prepared data as JSON values, as `dlperf_sdk.data.prepare` returns them: the name of the data
                source as `source`, and what its preparation returned.
        """
        spec = self.spec.executed
        topology, precision = spec.topology, PRECISIONS[spec.precision]
        values = ChainMap(
            {"id": run_id, "command": command, "variables": variables, "data": data},
            {"nodes": topology.nodes, "devices_per_node": topology.devices_per_node},
            {"syncs_gradients": spec.syncs_gradients},
            {"scales_loss": precision.scales_loss, "loss_scale": precision.loss_scale},
            attrs.asdict(self, recurse=False),
            attrs.asdict(spec, recurse=False),
        )
        return Request(**{name: to_plain(values[name]) for name in Request._fields if name in values})

    def placeholder_processes(self) -> list[Process]:
        """Return all processes of the case, with placeholders for addresses and ports, as `--dry-run` shows them.

        The framework plugin's processes come first, in its order; then come the senders of batches, if the data source
        has them. This calls the plugin's function that lists the processes, which may raise anything.
        """
        topology = self.spec.topology
        nodes = nodes_from(topology.nodes, topology.devices_per_node, {})
        cluster = Cluster(nodes, self.device, self.spec.executed.strategy, self.framework_options)
        return list_case_processes(self.processes, self.batch_sender, cluster)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON values, for display and for the store.

        The keys are the names of the plan's fields, without `secrets`, `batch_sender`, `parameters`, `inputs` and
        `required_programs`. `environment` has the keys `python`, `requirements` and `programs`; `processes` has the
        fields of each process, with placeholders for addresses and ports. This calls the framework plugin's function
        that lists the processes, which may raise anything.
        """
        return {
            "spec": self.spec.to_dict(),
            "device": self.device,
            "protocol": attrs.asdict(self.protocol),
            "runtime": self.runtime,
            "trainer": self.trainer,
            "model_options": dict(self.model_options),
            "framework_options": dict(self.framework_options),
            "topology_options": attrs.asdict(self.topology_options),
            "optimizer": dict(self.optimizer),
            "workload": attrs.asdict(self.workload),
            "deadlines": dict(self.deadlines),
            "samplers": list(self.samplers),
            "packages": list(self.packages),
            "environment": {
                "python": self.environment.python,
                "requirements": list(self.environment.requirements),
                "programs": list(self.required_programs),
            },
            "plugin": self.plugin,
            "processes": [process._asdict() for process in self.placeholder_processes()],
        }


def make_plan(spec: RunSpec, registry: Registry) -> Plan:
    """Return the plan of a case: its spec joined with the plugins that the spec names. Nothing is started.

    Args:
        spec: The case.
        registry: The plugins.

    Raises:
        UnknownName: The spec names a plugin, option or capability that does not exist.
        SpecError: The settings contradict each other or the plugins, the batch size is still `max`, a data source
            lacks its folder, a variable is one that the framework's plugin sets, or the topology has more than 100,000
            devices.
        PluginError: A plugin cannot be loaded, or its code raises an exception.
        Unsupported: The plugins cannot do what the spec requests.
        Unavailable: This machine or the launcher cannot run the case.
    """
    spec, secrets = conceal_secrets(spec, registry)
    if spec.wants_max_batch:
        raise SpecError("batch_size is max, which is found by measuring; a plan needs a number.")
    DATA_SOURCES[spec.data.source].check_folder(spec.data.path)
    chosen = select_plugins(spec, registry)
    if spec.topology.devices > _MOST_DEVICES:  # below, time and memory grow with the devices
        raise SpecError(
            f"The topology {spec.topology} has {spec.topology.devices:,} devices; a case may have at most "
            f"{_MOST_DEVICES:,}."
        )
    framework, description = chosen.framework, chosen.description
    if spec.learning_rate_policy == "warmup" and "warmup_steps" not in description.optimizer.numbers:
        raise SpecError(
            f"The optimizer of {spec.model} has no warm-up; choose the learning-rate policy constant."
        )
    optimizer = {
        "kind": description.optimizer.kind,
        "policy": spec.learning_rate_policy,
        **description.optimizer.numbers,
    }
    with registry.wrap_plugin_errors("frameworks", framework.name, "list the programs that the case needs"):
        programs = tuple(framework.required_programs(spec.on_device(chosen.device)))
    planned = Plan(
        spec=spec,
        secrets=secrets,
        device=chosen.device,
        protocol=spec.resolved_protocol(),
        runtime=framework.runtime,
        trainer=chosen.trainer,
        processes=framework.processes,
        batch_sender=DATA_SOURCES[spec.executed.data.source].sender,
        model_options=attrs.asdict(chosen.model_options),
        framework_options=attrs.asdict(chosen.framework_options),
        topology_options=chosen.topology_options,
        parameters=tuple(entry_to_dict(parameter) for parameter in description.parameters),
        inputs=tuple(entry_to_dict(entry) for entry in description.inputs),
        optimizer=optimizer,
        workload=Workload(
            parameters=description.parameter_count,
            flops_per_sample=description.flops_per_sample if PARTS[spec.part].trains else 0,
            global_batch_size=spec.global_batch_size,
            optimizer={**optimizer, "source": description.optimizer.source},
            unit=chosen.model.unit,
        ),
        deadlines={**DEADLINES, **spec.deadlines},
        samplers=chosen.samplers,
        packages=tuple(framework.packages),
        environment=chosen.environment,
        required_programs=programs,
        plugin=chosen.distribution,
    )
    laying_out = f"lay out the processes of {spec.topology} by {framework.processes}, which gets placeholders"
    with registry.wrap_plugin_errors("frameworks", framework.name, laying_out):
        processes = planned.placeholder_processes()
    for name in sorted(set(spec.env) & {name for process in processes for name in process.variables}):
        raise SpecError(
            f"The variable {name} is set by the plugin for each worker of {framework.name}; "
            f"remove {name} from `env`."
        )
    return planned
