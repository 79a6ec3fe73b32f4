"""The request: everything that the nodes are told about a case, as one JSON document (schema `worker-request`)."""

import importlib
import json
from typing import Any, Dict, List, NamedTuple, Optional

REQUEST_VERSION = "1.0"


class Request(NamedTuple):
    """One case, fully resolved. The same for every process of the case."""

    id: str
    framework: str
    model: str
    runtime: str
    """`module:attribute` of the `Runtime`."""
    trainer: str
    """`module:attribute` of the `Trainer`."""
    processes: str
    """`module:attribute` of the function that lays out the processes."""
    nodes: int
    devices_per_node: int
    device: str
    strategy: str
    batch_size: int
    """Samples per device and optimisation step."""
    accumulation: int
    precision: str
    compiler: str
    layout: str
    seed: int
    data: Dict[str, Any]
    """`source`, and what its preparation found: `path`, `index`, …"""
    parameters: List[Dict[str, Any]]
    """The manifest: `name`, `shape`, `init` and `decay` (whether weight decay applies) of each trainable parameter, in
    the model's order."""
    inputs: List[Dict[str, Any]]
    """`name`, `shape` (of one sample), `dtype` and `fill` of each input."""
    optimizer: Dict[str, Any]
    """`kind`, `policy` (see `schedule.learning_rate`), and the numbers of its arithmetic
    (`dlperf_sdk.interfaces.model.Optimizer`): those that do not apply, such as `clip_norm`, are None or absent."""
    model_options: Dict[str, Any]
    framework_options: Dict[str, Any]
    protocol: Dict[str, Any]
    """`warmup`, `steps`, `repeats`, `max_repeats`, `target`, `canonical_steps`."""
    deadlines: Dict[str, float]
    """Seconds for each phase."""
    command: List[str]
    """What starts a Python in the framework's environment."""
    variables: Dict[str, Optional[str]]
    """Variables for the workers; None hands on the agent's own."""
    samplers: List[str]
    """`module:attribute` of what the agent samples on its node."""
    on_busy: str
    memory_limit: Optional[int] = None
    """Bytes that each worker process may allocate."""
    first_attempt: int = 1
    """The number of the first repeat of this launch: a case may be measured in several."""
    scales_loss: bool = False
    """Whether the precision uses a loss scaler, which may skip steps."""
    program: str = "measure"
    """What the trainers do: `measure`; `parity`, a few steps that are held against a reference; `trace`, a few steps
    under the framework's profiler; or one of the programs in `dlperf_sdk.worker.conformance`."""
    schema_version: str = REQUEST_VERSION

    def to_dict(self) -> Dict[str, Any]:
        return dict(self._asdict())

    @classmethod
    def from_dict(cls, plain: Dict[str, Any]) -> "Request":
        """Raises ValueError for a request of another major version or with unknown or missing keys."""
        version = str(plain.get("schema_version"))
        if version.split(".", maxsplit=1)[0] != REQUEST_VERSION.split(".", maxsplit=1)[0]:
            raise ValueError("the request has version %s, this worker reads %s" % (version, REQUEST_VERSION))
        known = set(cls._fields)
        if set(plain) != known:
            raise ValueError("the request's keys differ from the protocol's: %s" % sorted(set(plain) ^ known))
        return cls(**plain)

    @classmethod
    def load(cls, path: str) -> "Request":
        with open(path, encoding="utf-8") as file:
            return cls.from_dict(json.load(file))


def resolve(reference: str) -> Any:
    """The object that a `module:attribute` reference names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
