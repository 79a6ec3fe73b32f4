"""What is asked: a benchmark case, as plain values.

A `RunSpec` is flat on purpose: the same field names serve the keyword arguments of `run()`, the keys of a
spec file, and the flags of the command line. What follows from it (which device `auto` is, what a protocol's
name stands for, the model's hyper-parameters) is the business of the plan.

Every field carries a *role*, which decides how two results may be compared: **workload** must be equal,
**treatment** is a column of the table, **circumstance** is a footnote.
"""

# ruff: noqa: RUF009 - workload(), treatment() and circumstance() make attrs fields, not default values

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.documents import shown
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.fields import (
    NAME,
    circumstance,
    fraction,
    is_positive,
    named,
    one_of,
    optional,
    text,
    treatment,
    whole,
    workload,
)
from dlperf_sdk.protocol import MOST_REPEATS, MOST_STEPS, PROTOCOLS, Protocol
from dlperf_sdk.spec_file import load_spec

Scalar = str | int | float | bool | None

LARGEST: Any = "max"
"""The batch size that stands for the largest that fits."""

PHASES = ("start", "compile", "warmup", "step", "teardown")
"""The phases with a deadline. `step` is the longest silence between two steps of the measured window."""

_TOPOLOGY = re.compile(rf"([1-9][0-9]{{0,5}})n([1-9][0-9]{{0,5}})d(?:@({NAME.pattern}))?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

# Bounds that no case comes near: they keep a mistyped or hostile number from becoming an overflow or a full
# disk further on. The schemas state the same.
_MOST_NODES = 999_999
_MOST_SAMPLES = 2**31 - 1
_MOST_SEED = 2**32 - 1  # what NumPy's RandomState takes
_MOST_SECONDS = 1e9
_MOST_BYTES = 2**60


@frozen(order=True)
class TopologySpec:
    """Nodes × devices per node, and the engine that places them, written `2n8d` or `2n8d@slurm`."""

    nodes: int = attrs.field(validator=whole(1, _MOST_NODES))
    devices_per_node: int = attrs.field(validator=whole(1, _MOST_NODES))
    engine: str = attrs.field(default="local", validator=named)

    @property
    def devices(self) -> int:
        """All devices, that is the number of replicas."""
        return self.nodes * self.devices_per_node

    @classmethod
    def parse(cls, text: str | TopologySpec) -> TopologySpec:
        """Read `2n8d` or `2n8d@engine`.

        Raises:
            SpecError: the text is no topology, or names zero nodes or devices.
        """
        if isinstance(text, cls):
            return text
        match = isinstance(text, str) and _TOPOLOGY.fullmatch(text)
        if not match:
            raise SpecError(
                f"topology is {shown(text)}; write NODESnDEVICESd, both 1 or more, with the engine behind "
                "an '@' if it is not the local machine: 1n1d, 1n8d, 4n8d@slurm."
            )
        return cls(int(match[1]), int(match[2]), match[3] or "local")

    def __str__(self) -> str:
        engine = "" if self.engine == "local" else f"@{self.engine}"
        return f"{self.nodes}n{self.devices_per_node}d{engine}"


@frozen
class DataSpec:
    """Where the samples come from: `synthetic`, `synthetic-host`, `images:FOLDER` or `text:FOLDER`."""

    source: str = attrs.field(validator=named)
    path: str | None = attrs.field(default=None, validator=optional(text))

    @classmethod
    def parse(cls, text: str | DataSpec) -> DataSpec:
        """Read `SOURCE` or `SOURCE:FOLDER`.

        Raises:
            SpecError: the text is empty, or the source is no name.
        """
        if isinstance(text, cls):
            return text
        source, colon, path = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not NAME.fullmatch(source) or (colon and not path) or "\0" in path:
            raise SpecError(
                f"data is {shown(text)}; write 'synthetic' (on the device), 'synthetic-host', "
                "'images:FOLDER' or 'text:FOLDER'."
            )
        return cls(source, path or None)

    def __str__(self) -> str:
        return self.source if self.path is None else f"{self.source}:{self.path}"


_CONTAINER = re.compile(r"(podman|docker|apptainer|enroot):[A-Za-z0-9./][^\0\s]{0,500}")


def _copied(value: Any) -> Any:
    """A mapping of the spec's own, so that a later change of the caller's does not change the spec."""
    return dict(value) if isinstance(value, Mapping) else value


def _items(attribute: Any, value: Any, names: re.Pattern[str], what: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{attribute.name} is {shown(value)}; it must be a mapping from names to values.")
    for name in value:
        if not isinstance(name, str) or not names.fullmatch(name):
            raise SpecError(f"{shown(name)} is no name for {what}.")
    return list(value.items())


def _deadlines(_: Any, attribute: Any, value: Any) -> None:
    for phase, seconds in _items(attribute, value, NAME, "a phase"):
        if phase not in PHASES:
            raise UnknownName("deadline", phase, PHASES)
        if not is_positive(seconds, _MOST_SECONDS):
            raise SpecError(
                f"The deadline of phase {phase!r} is {shown(seconds)}; it must be seconds, above 0 and at "
                f"most {_MOST_SECONDS:.0e}."
            )


def _container(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not _CONTAINER.fullmatch(value):
        raise SpecError(
            f"container is {shown(value)}; write RUNNER:IMAGE, or RUNNER:/FOLDER for a root file system, with one of "
            "podman, docker, apptainer and enroot."
        )


def _variables(_: Any, attribute: Any, value: Any) -> None:
    for name, content in _items(attribute, value, _VARIABLE, "an environment variable"):
        if content is not None and (not isinstance(content, str) or "\0" in content):
            raise SpecError(f"The environment variable {name} is {shown(content)}; it must be text.")


def _options(_: Any, attribute: Any, value: Any) -> None:
    for name, content in _items(attribute, value, _OPTION, "an option"):
        if content is None or isinstance(content, str):
            continue
        # Not a number also where NaN or an infinity is: JSON has neither.
        if not isinstance(content, int | float) or not -sys.float_info.max <= content <= sys.float_info.max:
            raise SpecError(
                f"The option {name!r} is {shown(content)}; it must be a finite number, a text, true or false."
            )


def _batch_size(instance: Any, attribute: Any, value: Any) -> None:
    if value == LARGEST:
        return
    try:
        whole(1, _MOST_SAMPLES)(instance, attribute, value)
    except SpecError as error:
        raise SpecError(f"{str(error).removesuffix('.')}, or {LARGEST}.") from None


@frozen(kw_only=True)
class RunSpec:
    """One benchmark case, as it is asked for. Immutable; `attrs.evolve(spec, steps=5)` gives a changed copy.

    Raises:
        SpecError: a field has an impossible value.
        UnknownName: a field names something that does not exist.
    """

    framework: str = treatment("Deep-learning framework, by its plugin's name.", validator=named)
    model: str = workload("Model to train.", validator=named)
    topology: TopologySpec = treatment(
        "Nodes × devices per node, and the engine: 1n1d, 2n8d, 4n8d@slurm.",
        default=TopologySpec(1, 1),
        converter=TopologySpec.parse,
    )
    batch_size: int = workload(
        "Samples per device and optimisation step; max: the largest that fits into the memory.",
        32,
        validator=_batch_size,
    )
    """Until it has been found, the largest is the text `max`; no plan and no result holds it."""
    accumulation: int = workload(
        "Micro-batches that one optimisation step accumulates gradients over; divides the batch size.",
        1,
        validator=whole(1, _MOST_SAMPLES),
    )
    precision: str = treatment("fp32, tf32, amp-fp16 or amp-bf16.", "fp32", validator=named)
    compiler: str = treatment(
        "none, or one that the framework offers: inductor, xla, graph, …", "none", validator=named
    )
    strategy: str = treatment(
        "How gradients meet: all_reduce, parameter_server, parameter_server_async, horovod, independent.",
        "all_reduce",
        validator=named,
    )
    layout: str = treatment(
        "Memory layout of images: auto (the faster), nchw or nhwc.", "auto", validator=named
    )
    device: str = treatment(
        "Kind of device: auto (a GPU where there is one), cpu, cuda, …", "auto", validator=named
    )
    data: DataSpec = circumstance(
        "synthetic (made on the device), synthetic-host, images:FOLDER or text:FOLDER.",
        default=DataSpec("synthetic"),
        converter=DataSpec.parse,
    )
    learning_rate_policy: str = workload(
        "Learning rate inside the run: constant, or warmup (the recipe's linear ramp from zero).",
        "constant",
        validator=one_of("constant", "warmup"),
    )
    seed: int = workload("Seed of the canonical weights and batches.", 0, validator=whole(0, _MOST_SEED))
    protocol: str = circumstance(
        "dlperf-v1 (20 / 100 / 7), quick (5 / 20 / 3) or adaptive.",
        "dlperf-v1",
        validator=one_of(*PROTOCOLS),
    )
    canonical_steps: int | None = circumstance(
        "Steps on the canonical fixed batch before the warm-up, instead of the protocol's.",
        None,
        validator=optional(whole(0, MOST_STEPS)),
    )
    warmup: int | None = circumstance(
        "Warm-up steps, instead of the protocol's.", None, validator=optional(whole(0, MOST_STEPS))
    )
    steps: int | None = circumstance(
        "Measured steps, instead of the protocol's.", None, validator=optional(whole(1, MOST_STEPS))
    )
    repeats: int | None = circumstance(
        "Repeats, instead of the protocol's.", None, validator=optional(whole(1, MOST_REPEATS))
    )
    max_repeats: int | None = circumstance(
        "The most repeats that an adaptive run may take.", None, validator=optional(whole(1, MOST_REPEATS))
    )
    target: float | None = circumstance(
        "Stop repeating when the median is known within ± this fraction.",
        None,
        validator=optional(fraction),
    )
    python: str | None = circumstance(
        "Interpreter of an existing environment, instead of a managed one.", None, validator=optional(text)
    )
    container: str | None = circumstance(
        "What agents and workers run in: podman:IMAGE, podman:/ROOTFS, docker:…, apptainer:…, enroot:….",
        None,
        validator=optional(_container),
    )
    container_mounts: str | None = circumstance(
        "Folders of the nodes that are in the container, read-only: SOURCE or SOURCE:TARGET, with commas.",
        None,
        validator=optional(text),
    )
    env: dict[str, str | None] = circumstance(
        "Variables for the workers, NAME=VALUE, or NAME to hand on this shell's.",
        {},
        validator=_variables,
        converter=_copied,
    )
    options: dict[str, Scalar] = workload(
        "Options of the model and of the framework's plugin.", {}, validator=_options, converter=_copied
    )
    on_busy: str = circumstance(
        "When another process holds the device: wait, note (go on, and say so) or refuse.",
        "refuse",
        validator=one_of("wait", "note", "refuse"),
    )
    deadlines: dict[str, float] = circumstance(
        "Seconds that a phase may take: start, compile, warmup, step, teardown.",
        {},
        validator=_deadlines,
        converter=_copied,
    )
    memory_limit: int | None = circumstance(
        "Bytes of host memory that each worker process may allocate; beyond them it has run out of memory.",
        None,
        validator=optional(whole(1, _MOST_BYTES)),
    )

    def __attrs_post_init__(self) -> None:
        if not self.wants_largest and self.batch_size % self.accumulation:
            raise SpecError(
                f"batch_size {self.batch_size} cannot be split into {self.accumulation} equal micro-batches; "
                "choose an accumulation that divides it."
            )
        self.resolved_protocol()

    @property
    def wants_largest(self) -> bool:
        """Whether the batch size is to be found: the largest that fits."""
        return bool(self.batch_size == LARGEST)

    @property
    def global_batch_size(self) -> int:
        """Samples per optimisation step over all devices."""
        return self.batch_size * self.topology.devices

    def resolved_protocol(self) -> Protocol:
        """The named protocol with this spec's own numbers in place of its.

        Raises:
            SpecError: `target` or `max_repeats` is given for a protocol that has a fixed number of repeats,
                or `max_repeats` is below the fewest.
        """
        base = PROTOCOLS[self.protocol]
        if base.target is None and (self.target is not None or self.max_repeats is not None):
            raise SpecError(
                f"target and max_repeats belong to the adaptive protocol; {base.name} repeats a fixed "
                "number of times. Add protocol=adaptive, or leave them out."
            )
        repeats = self.repeats or base.repeats
        most = repeats if base.target is None else self.max_repeats or max(repeats, base.max_repeats)
        return attrs.evolve(
            base,
            canonical_steps=base.canonical_steps if self.canonical_steps is None else self.canonical_steps,
            warmup=base.warmup if self.warmup is None else self.warmup,
            steps=self.steps or base.steps,
            repeats=repeats,
            max_repeats=most,
            target=base.target if self.target is None else self.target,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, under the schema `run-spec`. Fields that hold their default are written too."""
        plain = attrs.asdict(self, recurse=False)
        plain["topology"], plain["data"] = str(self.topology), str(self.data)
        for name in ("env", "options", "deadlines"):
            plain[name] = dict(plain[name])
        return {"schema_version": SPEC_VERSION, **plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunSpec:
        """The inverse of `to_dict`; keys that are left out take their defaults.

        Raises:
            UnknownName: a key is no field.
            DocumentError: the document breaks the schema `run-spec`.
            SpecError: a field has an impossible value.
        """
        from dlperf_sdk import schema

        known = [field.name for field in attrs.fields(cls)]
        for key in plain:
            if key != "schema_version" and key not in known:
                raise UnknownName("field of a run spec", str(key), known)
        document = {"schema_version": SPEC_VERSION, **plain}
        schema.check("run-spec", document)
        document.pop("schema_version")
        return cls(**document)

    @classmethod
    def load(cls, path: str | Path, **fields: Any) -> RunSpec:
        """Read a spec file: JSON, TOML, or YAML in its safe subset; `fields` are used in place of the file's.

        Raises:
            DocumentError: the file cannot be read or parsed, or breaks the schema.
            SpecError: it names a program, or a folder outside its own directory; see `dlperf_sdk.spec_file`.
        """
        return attrs.evolve(cls.from_dict(load_spec(Path(path), fields)), **fields)


SPEC_VERSION = "1.0"
"""Version of the schema `run-spec`: a change that old readers cannot follow raises the first number."""
