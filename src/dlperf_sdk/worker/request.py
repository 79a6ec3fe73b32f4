"""The request: everything that nodes need to know about a case, as one JSON document of schema `worker-request`."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional

from dlperf_sdk.worker.processes import Cluster, nodes_from

if TYPE_CHECKING:
    # Type checkers and `make schemas` read the annotations; no process on a node evaluates them.
    from dlperf_sdk.documents.field_types import (
        ModuleAttribute,
        Name,
        NodeCount,
        RunId,
        SampleCount,
        Seed,
        Version,
    )
    from dlperf_sdk.interfaces.request_types import (
        AttemptNumber,
        BusyAction,
        Command,
        DataRequest,
        InputManifest,
        LossScale,
        MemoryLimit,
        OptimizerRequest,
        ParameterManifest,
        PartName,
        PhaseDeadlines,
        Program,
        ProgramNames,
        ProtocolRequest,
        SecretNames,
        Variables,
    )

REQUEST_VERSION = "1.0"
RECORD_VERSION = "1.0"
PARITY_VERSION = "1.0"
"""Versions of what the controller and the workers write for each other."""


class Request(NamedTuple):
    """One case, fully resolved: the same document for every process of the case."""

    id: RunId
    """Name of the run."""
    framework: Name
    """Deep-learning framework, by its plugin's name."""
    model: Name
    """Model to train."""
    runtime: ModuleAttribute
    """`module:attribute` of the `Runtime` in the plugin's worker half."""
    trainer: ModuleAttribute
    """`module:attribute` of the `Trainer` in the plugin's worker half."""
    processes: ModuleAttribute
    """`module:attribute` of the pure function that lists the processes."""
    nodes: NodeCount
    """Number of nodes."""
    devices_per_node: NodeCount
    """Devices that each node uses."""
    device: Name
    """Kind of device."""
    strategy: Name
    """Gradient synchronization."""
    batch_size: SampleCount
    """Samples per device and optimization step."""
    accumulation: SampleCount
    """Micro-batches per optimization step."""
    precision: Name
    """The requested precision."""
    compiler: Name
    """The requested compiler."""
    layout: Name
    """Memory layout of images."""
    seed: Seed
    """Seed of the canonical weights and batches."""
    data: DataRequest
    """Data source: `source`, and what its preparation returned (`path`, `index`, …)."""
    parameters: ParameterManifest
    """Manifest of the trainable parameters (`name`, `shape`, `init`, `decay`), in the model's order."""
    inputs: InputManifest
    """Inputs of one sample: `name`, `shape`, `dtype` and `fill` of each."""
    optimizer: OptimizerRequest
    """`kind`, `policy` (see `schedule.learning_rate`), and the numbers of its arithmetic
    (`dlperf_sdk.interfaces.model.Optimizer`): those that do not apply, such as `clip_norm`, are null or absent."""
    model_options: Dict[str, Any]
    """Options of the model."""
    framework_options: Dict[str, Any]
    """Options of the framework's plugin."""
    protocol: ProtocolRequest
    """Steps and repeats."""
    deadlines: PhaseDeadlines
    """Seconds that each phase may take."""
    command: Command
    """Command that starts a Python in the framework's environment: program and arguments."""
    variables: Variables
    """Variables for the workers; null hands on the agent's own."""
    samplers: List[ModuleAttribute]
    """`module:attribute` of each sampler that the agent runs on its node."""
    on_busy: BusyAction
    """Action when another process uses the device."""
    secrets: SecretNames = ()
    """Names of the variables whose values are secrets: nothing that a node reports contains them."""
    memory_limit: MemoryLimit = None
    """Bytes of host memory that each worker process may allocate; null for no limit."""
    required_programs: ProgramNames = ()
    """Programs that must be on the workers' PATH on every node, in addition to the environment."""
    first_attempt: AttemptNumber = 1
    """Number of the first repeat of this launch: a case may be measured in several."""
    batch_sender: Optional[ModuleAttribute] = None
    """`module:function` of the services that send the batches, one per replica; null if the data source has none."""
    part: PartName = "whole"
    """Part of a training step that is measured: a key of `dlperf_sdk.worker.parts.PARTS`."""
    syncs_gradients: bool = False
    """True if there are several replicas, and the strategy synchronizes their gradients."""
    scales_loss: bool = False
    """True if the precision uses a loss scaler, which may skip steps."""
    loss_scale: LossScale = 1.0
    """Constant factor of the loss in the backward pass, divided out of the gradients."""
    program: Program = "measure"
    """Program of the trainers: `measure`; `parity`, a few steps that are compared with a reference; `trace`, a few
    steps under the framework's profiler; or one of the programs in `dlperf_sdk.worker.conformance`."""
    schema_version: Version = REQUEST_VERSION
    """Version of this format. A reader of 1.x reads every 1.y that uses only what it knows; a change that such a reader
    cannot follow raises the first number."""

    def to_dict(self) -> Dict[str, Any]:
        """Return the request as a dict of JSON values, by the names of the fields. Nested values are not copied."""
        return dict(self._asdict())

    def cluster(self, known: Mapping[str, Mapping[str, Any]]) -> Cluster:
        """Return the case's cluster, with placeholders such as `<host of node 3>` for everything that is not known.

        Args:
            known: Number of a node as text, such as `"0"` → its fields that are known, by name (`host`, `ports`,
                `devices`, `interface`), with lists in place of tuples. Nodes and fields may be missing.

        Returns:
            The nodes, the kind of device, the strategy, and the options of the framework's plugin.

        Raises:
            ValueError: `known` has a field that `Node` lacks.
        """
        nodes = nodes_from(self.nodes, self.devices_per_node, known)
        return Cluster(nodes, self.device, self.strategy, self.framework_options)

    @classmethod
    def from_dict(cls, plain: Dict[str, Any]) -> Request:
        """Return the request that a JSON document contains.

        Values are not checked against the schema, and nested values are not copied.

        Args:
            plain: The document of the schema `worker-request`. Every key must be present, also those with a default.

        Raises:
            ValueError: The document is not an object, has another major version, or has unknown or missing keys.
        """
        if not isinstance(plain, dict):
            raise ValueError("the request is not a JSON object")
        version = str(plain.get("schema_version"))
        if version.split(".", maxsplit=1)[0] != REQUEST_VERSION.split(".", maxsplit=1)[0]:
            raise ValueError("the request has version %s, this worker reads %s" % (version, REQUEST_VERSION))
        known = set(cls._fields)
        if set(plain) != known:
            raise ValueError("the request's keys differ from the protocol's: %s" % sorted(set(plain) ^ known))
        return cls(**plain)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Return the request that a text contains.

        Args:
            text: A JSON document of the schema `worker-request`; its values are not checked against the schema.

        Raises:
            ValueError: The text is not JSON or is nested too deeply; or the document is not an object, has another
                major version, or has unknown or missing keys.
        """
        try:
            return cls.from_dict(json.loads(text))
        except RecursionError:
            raise ValueError("the request is nested too deeply") from None

    @classmethod
    def load(cls, path: str) -> Request:
        """Return the request in the JSON file at `path`.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not UTF-8, not JSON, or nested too deeply; or the document is not an object, has
                another major version, or has unknown or missing keys.
        """
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read())


def resolve(reference: str) -> Any:
    """Import a module and return the object that a `module:attribute` reference names.

    Raises:
        ImportError: The module cannot be imported. Other exceptions of the module's code pass through, too.
        AttributeError: The module has no such attribute, or the reference has no colon.
        ValueError: There is nothing before the colon.
    """
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
