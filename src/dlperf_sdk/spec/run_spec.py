"""The run spec: one benchmark case, as plain values.

A `RunSpec` is flat on purpose: the same field names serve the keyword arguments of `run()`, the keys of a spec
file, and the flags of the command line. The plan resolves what follows from it, such as the device behind `auto`,
the numbers of a protocol, and the model's hyper-parameters.

Every field has a *role* in comparisons: a **workload** field must match, a **factor** is a column of the table, and
**context** is a footnote.
"""

# ruff: noqa: RUF009 - workload(), factor() and context() make attrs fields, not default values

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.field_types import LabelText, OptionName, SystemText, VariableName
from dlperf_sdk.documents.json_values import check_plain
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.spec import checks
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.fields import (
    check_fraction,
    check_name,
    check_text,
    context,
    factor,
    one_of,
    optional,
    whole_number,
    workload,
)
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.protocol import MOST_REPEATS, MOST_STEPS, PROTOCOLS, Protocol
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES
from dlperf_sdk.spec.table import alternatives
from dlperf_sdk.spec.values import MAX_BATCH, Data, DataSpec, FiniteScalar, Topology, TopologySpec

SPEC_VERSION = "1.0"
"""Version of the schema `run-spec`. A change that older readers cannot follow increases the first number."""


@frozen(kw_only=True)
class RunSpec:
    """One benchmark case, as requested. Immutable; `attrs.evolve(spec, steps=5)` returns a changed copy.

    Raises:
        SpecError: A field has an impossible value; the accumulation does not divide the batch size; the batch size is
            `max` for a part of a step; `target` or `max_repeats` is set with a protocol that has a fixed number of
            repeats; or `max_repeats` is below `repeats`.
        UnknownName: A field has a value that is none of its fixed names, such as an unknown protocol. Names of
            plugins and capabilities are checked when the case is planned.
    """

    framework: str = factor("Deep-learning framework, by its plugin's name.", validator=check_name)
    model: str = workload("Model to train.", validator=check_name)
    topology: Topology = factor(
        "Nodes × devices per node, and the launcher: 1n1d, 2n8d, 4n8d@slurm.",
        default=TopologySpec(1, 1),
        converter=TopologySpec.parse,
    )
    batch_size: int = workload(
        "Samples per device and optimization step; max searches the largest that fits in memory.",
        32,
        validator=checks.batch_size,
    )
    """The text `max` until the maximum batch size is found. No plan and no successful result has it."""
    accumulation: int = workload(
        "Micro-batches per optimization step (gradient accumulation); must divide the batch size.",
        1,
        validator=whole_number(1, checks.MOST_SAMPLES),
    )
    precision: str = factor(
        f"Precision: {alternatives(declared.name for declared in PRECISIONS)}.",
        PRECISIONS.default,
        validator=check_name,
    )
    compiler: str = factor(
        f"Compiler that the framework supports: {alternatives(declared.name for declared in COMPILERS)}.",
        COMPILERS.default,
        validator=check_name,
    )
    strategy: str = factor(
        f"Gradient synchronization: {alternatives(declared.name for declared in STRATEGIES)}. "
        "Has no effect on one device.",
        STRATEGIES.default,
        validator=check_name,
    )
    layout: str = factor(
        "Memory layout of images: auto (the framework's faster one), nchw or nhwc.",
        "auto",
        validator=check_name,
    )
    device: str = factor(
        "Kind of device: auto (a GPU if there is one), cpu, cuda, …", "auto", validator=check_name
    )
    data: Data = context(
        f"Data source: {alternatives(declared.usage for declared in DATA_SOURCES)}.",
        default=DataSpec(DATA_SOURCES.default),
        converter=DataSpec.parse,
    )
    learning_rate_policy: str = workload(
        "Learning-rate schedule: constant, or warmup (the recipe's linear ramp from zero).",
        "constant",
        validator=one_of("constant", "warmup"),
    )
    part: str = workload(
        f"Part of a training step to measure alone: {alternatives(part.name for part in PARTS)}.",
        PARTS.default,
        validator=one_of(*(part.name for part in PARTS)),
        flag="--only",
    )
    seed: int = workload(
        "Seed of the canonical weights and batches.", 0, validator=whole_number(0, checks.MOST_SEED)
    )
    protocol: str = context(
        "Warm-up steps / measured steps / repeats: dlperf-v1 (20 / 100 / 7), quick (5 / 20 / 3) or adaptive.",
        "dlperf-v1",
        validator=one_of(*PROTOCOLS),
    )
    canonical_steps: int | None = context(
        "Steps on the canonical fixed batch before the warm-up, instead of the protocol's.",
        None,
        validator=optional(whole_number(0, MOST_STEPS)),
    )
    warmup: int | None = context(
        "Warm-up steps, instead of the protocol's.", None, validator=optional(whole_number(0, MOST_STEPS))
    )
    steps: int | None = context(
        "Measured steps, instead of the protocol's.", None, validator=optional(whole_number(1, MOST_STEPS))
    )
    repeats: int | None = context(
        "Repeats, instead of the protocol's.", None, validator=optional(whole_number(1, MOST_REPEATS))
    )
    max_repeats: int | None = context(
        "Maximum number of repeats of an adaptive run.",
        None,
        validator=optional(whole_number(1, MOST_REPEATS)),
    )
    target: float | None = context(
        "Plan the repeats so that the median is known within about ± this fraction.",
        None,
        validator=optional(check_fraction),
    )
    python: str | None = context(
        "Python interpreter of an existing environment, instead of a managed one; or the version for it, such as 3.11.",
        None,
        validator=optional(check_text),
        executes=True,
    )
    container: str | None = context(
        "Container for agents and workers: podman:IMAGE, podman:/ROOTFS, docker:…, apptainer:…, enroot:….",
        None,
        validator=optional(checks.container),
        executes=True,
    )
    container_mounts: str | None = context(
        "Folders to mount read-only in the container: SOURCE or SOURCE:TARGET, separated by commas.",
        None,
        validator=optional(check_text),
        executes=True,
    )
    container_devices: str | None = context(
        "Device files to pass to the container besides the GPUs of the case, separated by commas: /dev/infiniband.",
        None,
        validator=optional(checks.device_files),
        executes=True,
    )
    env: dict[VariableName, SystemText | None] = context(
        "Environment variables for the workers: NAME=VALUE, or NAME to pass on this shell's value.",
        {},
        validator=checks.variables,
        converter=checks.copy_mapping,
    )
    options: dict[OptionName, FiniteScalar] = workload(
        "Options of the model and of the framework's plugin.",
        {},
        validator=checks.options,
        converter=checks.copy_mapping,
    )
    on_busy: str = context(
        "If another process uses the device: wait, note (continue with a note in the result) or refuse.",
        "refuse",
        validator=one_of("wait", "note", "refuse"),
    )
    deadlines: dict[str, float] = context(
        "Time limit of a phase in seconds: start, compile, warmup, step or teardown.",
        {},
        validator=checks.deadlines,
        converter=checks.copy_mapping,
    )
    memory_limit: int | None = context(
        "Host memory limit of each worker process in bytes; a worker that exceeds it fails as out-of-memory.",
        None,
        validator=optional(whole_number(1, checks.MOST_BYTES)),
    )
    labels: dict[OptionName, LabelText] = context(
        "Labels of the result, such as commit=1f3a9c; runs that differ only in labels are of one case.",
        {},
        validator=checks.labels,
        converter=checks.copy_mapping,
    )

    def __attrs_post_init__(self) -> None:
        if not self.wants_max_batch and self.batch_size % self.accumulation:
            raise SpecError(
                f"batch_size {self.batch_size} cannot be split into {self.accumulation} equal micro-batches; "
                "choose an accumulation that divides it."
            )
        if self.wants_max_batch and not self.is_whole_step:
            raise SpecError(
                f"batch_size is max, which needs whole training steps, and part is {self.part}; give a number."
            )
        self.resolved_protocol()

    @property
    def wants_max_batch(self) -> bool:
        """True if the batch size is `max`, so that a search has to find the maximum batch size."""
        return bool(self.batch_size == MAX_BATCH)

    @property
    def global_batch_size(self) -> int:
        """Samples per optimization step over all devices.

        Raises:
            SpecError: The batch size is `max`, which is found by measuring.
        """
        if self.wants_max_batch:
            raise SpecError("The batch size is max: how many samples that is, is found by measuring.")
        return self.batch_size * self.topology.devices

    @property
    def syncs_gradients(self) -> bool:
        """True if several replicas synchronize their gradients.

        Raises:
            UnknownName: The core does not know the strategy, and there are several devices.
        """
        return self.topology.devices > 1 and STRATEGIES[self.strategy].syncs_gradients

    @property
    def is_whole_step(self) -> bool:
        """True if the whole training step is measured, and not a part of it alone."""
        return PARTS[self.part].is_whole

    @property
    def executed(self) -> RunSpec:
        """The spec that the workers run. It differs from this spec only for the parts `training` and `compute`.

        Both parts train on the canonical batch: the executed spec has the default data source. For `compute`, it also
        has the strategy `independent`. Plugins therefore need no code of their own for these two parts.
        """
        part, changes = PARTS[self.part], dict[str, Any]()
        if part.trains and not part.reads_input:
            changes["data"] = DataSpec(DATA_SOURCES.default)
        if part.trains and not part.exchanges_gradients:
            changes["strategy"] = INDEPENDENT
        return attrs.evolve(self, **changes) if changes else self

    @property
    def label(self) -> str:
        """Short name of the case: `torch resnet50 1n2d b64 amp-bf16 inductor seed=1`.

        Compiler, strategy, layout, device, accumulation, part, seed, learning-rate policy and data source are left out
        if they have the default value. The entries of `options` follow as `NAME=VALUE`. The data source's folder is
        never included.
        """
        parts = [self.framework, self.model, str(self.topology), f"b{self.batch_size}", self.precision]
        usual = attrs.fields_dict(RunSpec)
        for name in ("compiler", "strategy", "layout", "device"):
            if getattr(self, name) != usual[name].default:
                parts.append(getattr(self, name))
        for name in ("accumulation", "part", "seed", "learning_rate_policy"):
            if getattr(self, name) != usual[name].default:
                parts.append(f"{name}={getattr(self, name)}")
        parts += [f"{name}={value}" for name, value in sorted(self.options.items())]
        return " ".join(parts if self.data == usual["data"].default else [*parts, self.data.source])

    def on_device(self, device: str) -> RunSpec:
        """Return a copy of the spec with another kind of device, such as `cuda`; the name is not checked."""
        resolved = copy(self)  # `attrs.evolve` would validate every other field again
        object.__setattr__(resolved, "device", device)
        return resolved

    def resolved_protocol(self) -> Protocol:
        """Return the spec's protocol, with the numbers that the spec sets itself in place of the protocol's.

        These are `canonical_steps`, `warmup`, `steps`, `repeats`, `max_repeats` and `target`. Numbers that contradict
        each other were refused when the spec was made.
        """
        base = PROTOCOLS[self.protocol]
        if base.target is None and (self.target is not None or self.max_repeats is not None):
            raise SpecError(
                f"target and max_repeats belong to the adaptive protocol; {base.name} repeats a fixed "
                "number of times. Add protocol=adaptive, or leave them out."
            )
        repeats = self.repeats or base.repeats
        max_repeats = repeats if base.target is None else self.max_repeats or max(repeats, base.max_repeats)
        return attrs.evolve(
            base,
            canonical_steps=base.canonical_steps if self.canonical_steps is None else self.canonical_steps,
            warmup=base.warmup if self.warmup is None else self.warmup,
            steps=self.steps or base.steps,
            repeats=repeats,
            max_repeats=max_repeats,
            target=base.target if self.target is None else self.target,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON values that follow the schema `run-spec`, sharing nothing mutable with the spec.

        The keys are `schema_version` and the names of all fields, also of those with their default. The topology and
        the data source are texts.
        """
        plain = attrs.asdict(self, recurse=False)
        plain["topology"], plain["data"] = str(self.topology), str(self.data)
        for name in ("env", "options", "deadlines", "labels"):
            plain[name] = dict(plain[name])
        return {"schema_version": SPEC_VERSION, **plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunSpec:
        """Return the spec of a JSON document: the inverse of `to_dict`.

        Missing keys have their defaults; a missing `schema_version` is that of this dlperf-sdk.

        Raises:
            UnknownName: A key is not a field.
            DocumentError: The document is not plain JSON data, has no `framework` or `model`, breaks the schema
                `run-spec` in another way, or is of another major version.
            SpecError: A field has an impossible value.
        """
        from dlperf_sdk.documents import schema

        known = [field.name for field in attrs.fields(cls)]
        for key in plain:
            if key != "schema_version" and key not in known:
                raise UnknownName("field of a run spec", str(key), known)
        document = {"schema_version": SPEC_VERSION, **plain}
        check_plain(document, "The run spec")
        schema.check("run-spec", document)
        document.pop("schema_version")
        return cls(**document)
