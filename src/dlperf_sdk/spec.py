"""What is asked: a benchmark case, as plain values.

A `RunSpec` is flat on purpose: the same field names serve the keyword arguments of `run()`, the keys of a spec
file, and the flags of the command line. What follows from it (which device `auto` is, what a protocol's name
stands for, the model's hyper-parameters) is the business of the plan.

Every field carries a *role*, which decides how two results may be compared: **workload** must be equal,
**treatment** is a column of the table, **circumstance** is a footnote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs import frozen

from dlperf_sdk.errors import SpecError, UnknownName

Role = Literal["workload", "treatment", "circumstance"]
Scalar = str | int | float | bool | None

PHASES = ("start", "compile", "warmup", "step", "teardown")
"""The phases with a deadline. `step` is the longest silence between two steps of the measured window."""

_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]*$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def _field(role: Role, help: str, default: Any, validator: Any, converter: Any) -> Any:
    kwargs: dict[str, Any] = {"metadata": {"role": role, "help": help}}
    if isinstance(default, dict):
        kwargs["factory"] = dict
    elif default is not attrs.NOTHING:
        kwargs["default"] = default
    if validator is not None:
        kwargs["validator"] = validator
    if converter is not None:
        kwargs["converter"] = converter
    return attrs.field(**kwargs)


def workload(help: str, default: Any = attrs.NOTHING, *, validator: Any = None, converter: Any = None) -> Any:
    """A field that two results must share to be compared at all."""
    return _field("workload", help, default, validator, converter)


def treatment(help: str, default: Any = attrs.NOTHING, *, validator: Any = None, converter: Any = None) -> Any:
    """A field that makes a column: what a comparison is *of*."""
    return _field("treatment", help, default, validator, converter)


def circumstance(help: str, default: Any = attrs.NOTHING, *, validator: Any = None, converter: Any = None) -> Any:
    """A field that makes a footnote."""
    return _field("circumstance", help, default, validator, converter)


def _name(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not _NAME.match(value):
        raise SpecError(
            f"{attribute.name} is {value!r}; it must be a name in lower-case letters, digits, '.', '-' and '_'."
        )


def _whole(least: int) -> Callable[[Any, Any, Any], None]:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SpecError(f"{attribute.name} is {value!r}; it must be a whole number, {least} or more.")

    return check


def _positive(_: Any, attribute: Any, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise SpecError(f"{attribute.name} is {value!r}; it must be a number above 0.")


def _one_of(*choices: str) -> Callable[[Any, Any, Any], None]:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if value not in choices:
            raise UnknownName(attribute.name.replace("_", " "), str(value), choices)

    return check


def _optional(check: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    def checked(instance: Any, attribute: Any, value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return checked


@frozen(order=True)
class TopologySpec:
    """Nodes × devices per node, and the engine that places them, written `2n8d` or `2n8d@slurm`."""

    nodes: int
    devices_per_node: int
    engine: str = "local"

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
        match = re.fullmatch(r"([1-9]\d{0,5})n([1-9]\d{0,5})d(?:@([a-z0-9][a-z0-9._-]*))?", str(text))
        if not match:
            raise SpecError(
                f"topology is {text!r}; write NODESnDEVICESd, both 1 or more, with the engine behind an '@' if it is "
                "not the local machine: 1n1d, 1n8d, 4n8d@slurm."
            )
        return cls(int(match[1]), int(match[2]), match[3] or "local")

    def __str__(self) -> str:
        engine = "" if self.engine == "local" else f"@{self.engine}"
        return f"{self.nodes}n{self.devices_per_node}d{engine}"


@frozen
class DataSpec:
    """Where the samples come from, written `synthetic`, `synthetic-host`, `images:FOLDER` or `text:FOLDER`."""

    source: str
    path: str | None = None

    @classmethod
    def parse(cls, text: str | DataSpec) -> DataSpec:
        """Read `SOURCE` or `SOURCE:FOLDER`.

        Raises:
            SpecError: the text is empty, or the source is no name.
        """
        if isinstance(text, cls):
            return text
        source, colon, path = str(text).partition(":")
        if not _NAME.match(source) or (colon and not path):
            raise SpecError(
                f"data is {text!r}; write 'synthetic' (on the device), 'synthetic-host', 'images:FOLDER' or 'text:FOLDER'."
            )
        return cls(source, path or None)

    def __str__(self) -> str:
        return self.source if self.path is None else f"{self.source}:{self.path}"


@frozen
class Protocol:
    """How a case is measured: in steps, and in repeats, each of which is made of new processes."""

    name: str
    warmup: int
    """Steps before the window."""
    steps: int
    """Steps in the window."""
    repeats: int
    """Repeats; with a `target`, the fewest."""
    max_repeats: int
    """The most repeats; equal to `repeats` where there is no `target`."""
    target: float | None = None
    """Stop when the median's interval lies within ± this fraction of the median."""
    canonical_steps: int = 5
    """Steps on the canonical fixed batch, before the warm-up: they compile, and show that the loss falls."""


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("dlperf-v1", warmup=20, steps=100, repeats=7, max_repeats=7),
        Protocol("quick", warmup=5, steps=20, repeats=3, max_repeats=3),
        Protocol("adaptive", warmup=20, steps=100, repeats=6, max_repeats=30, target=0.01),
    )
}
"""The named protocols. `dlperf-v1` is DLPerf's own rule: skip 20 steps, measure 100, repeat 7 times, take the median."""


def _deadlines(_: Any, attribute: Any, value: Mapping[str, Any]) -> None:
    for phase, seconds in value.items():
        if phase not in PHASES:
            raise UnknownName("deadline", phase, PHASES)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
            raise SpecError(f"The deadline of phase {phase!r} is {seconds!r}; it must be seconds, above 0.")


def _variables(_: Any, attribute: Any, value: Mapping[str, Any]) -> None:
    for name, content in value.items():
        if not _VARIABLE.match(name):
            raise SpecError(f"{name!r} is no name for an environment variable.")
        if content is not None and (not isinstance(content, str) or "\0" in content):
            raise SpecError(f"The environment variable {name} is {content!r}; it must be text.")


def _options(_: Any, attribute: Any, value: Mapping[str, Any]) -> None:
    for name, content in value.items():
        if content is not None and not isinstance(content, str | int | float | bool):
            raise SpecError(f"The option {name!r} is {content!r}; it must be a number, a text, or true or false.")


@frozen(kw_only=True)
class RunSpec:
    """One benchmark case, as it is asked for. Immutable; `attrs.evolve(spec, steps=5)` gives a changed copy.

    Raises:
        SpecError: a field has an impossible value.
        UnknownName: a field names something that does not exist.
    """

    framework: str = treatment("Deep-learning framework, by its plugin's name.", validator=_name)
    model: str = workload("Model to train.", validator=_name)
    topology: TopologySpec = treatment(
        "Nodes × devices per node, and the engine: 1n1d, 2n8d, 4n8d@slurm.",
        default=TopologySpec(1, 1),
        converter=TopologySpec.parse,
    )
    batch_size: int = workload("Samples per device and optimisation step.", 32, validator=_whole(1))
    accumulation: int = workload(
        "Micro-batches that one optimisation step accumulates gradients over; divides the batch size.",
        1,
        validator=_whole(1),
    )
    precision: str = treatment("fp32, tf32, amp-fp16 or amp-bf16.", "fp32", validator=_name)
    compiler: str = treatment("none, or one that the framework offers: inductor, xla, graph, …", "none", validator=_name)
    strategy: str = treatment(
        "How gradients meet: all_reduce, parameter_server, parameter_server_async, horovod, independent.",
        "all_reduce",
        validator=_name,
    )
    layout: str = treatment("Memory layout of images: auto (the faster), nchw or nhwc.", "auto", validator=_name)
    device: str = treatment("Kind of device: auto (a GPU where there is one), cpu, cuda, …", "auto", validator=_name)
    data: DataSpec = circumstance(
        "synthetic (made on the device), synthetic-host, images:FOLDER or text:FOLDER.",
        default=DataSpec("synthetic"),
        converter=DataSpec.parse,
    )
    learning_rate_policy: str = workload(
        "Learning rate inside the run: constant, or warmup (the recipe's linear ramp from zero).",
        "constant",
        validator=_one_of("constant", "warmup"),
    )
    seed: int = workload("Seed of the canonical weights and batches.", 0, validator=_whole(0))
    protocol: str = circumstance(
        "dlperf-v1 (20 / 100 / 7), quick (5 / 20 / 3) or adaptive.", "dlperf-v1", validator=_one_of(*PROTOCOLS)
    )
    warmup: int | None = circumstance("Warm-up steps, instead of the protocol's.", None, validator=_optional(_whole(0)))
    steps: int | None = circumstance("Measured steps, instead of the protocol's.", None, validator=_optional(_whole(1)))
    repeats: int | None = circumstance("Repeats, instead of the protocol's.", None, validator=_optional(_whole(1)))
    max_repeats: int | None = circumstance(
        "The most repeats that an adaptive run may take.", None, validator=_optional(_whole(1))
    )
    target: float | None = circumstance(
        "Stop repeating when the median is known within ± this fraction.", None, validator=_optional(_positive)
    )
    python: str | None = circumstance("Interpreter of an existing environment, instead of a managed one.", None)
    env: dict[str, str | None] = circumstance(
        "Variables for the workers, NAME=VALUE, or NAME to hand on this shell's.", {}, validator=_variables
    )
    options: dict[str, Scalar] = workload("Options of the model and of the framework's plugin.", {}, validator=_options)
    on_busy: str = circumstance(
        "When another process holds the device: wait, note (go on, and say so) or refuse.",
        "refuse",
        validator=_one_of("wait", "note", "refuse"),
    )
    deadlines: dict[str, float] = circumstance(
        "Seconds that a phase may take: start, compile, warmup, step, teardown.", {}, validator=_deadlines
    )

    def __attrs_post_init__(self) -> None:
        if self.batch_size % self.accumulation:
            raise SpecError(
                f"batch_size {self.batch_size} cannot be split into {self.accumulation} equal micro-batches; "
                "choose an accumulation that divides it."
            )
        self.resolved_protocol()

    @property
    def global_batch_size(self) -> int:
        """Samples per optimisation step over all devices."""
        return self.batch_size * self.topology.devices

    def resolved_protocol(self) -> Protocol:
        """The named protocol with this spec's own numbers in place of its.

        Raises:
            SpecError: `target` or `max_repeats` is given for a protocol that has a fixed number of repeats.
        """
        base = PROTOCOLS[self.protocol]
        if base.target is None and (self.target is not None or self.max_repeats is not None):
            raise SpecError(
                f"target and max_repeats belong to the adaptive protocol; {base.name} repeats a fixed number of times. "
                "Add protocol=adaptive, or leave them out."
            )
        repeats = self.repeats or base.repeats
        most = repeats if base.target is None else max(repeats, self.max_repeats or base.max_repeats)
        return attrs.evolve(
            base,
            warmup=base.warmup if self.warmup is None else self.warmup,
            steps=self.steps or base.steps,
            repeats=repeats,
            max_repeats=most,
            target=base.target if self.target is None else self.target,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, under the schema `run-spec`. Fields that hold their default are written as well."""
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
    def load(cls, path: str | Path) -> RunSpec:
        """Read a spec file: JSON, TOML, or YAML in its safe subset.

        Raises:
            DocumentError: the file cannot be read or parsed, or breaks the schema.
        """
        from dlperf_sdk import schema

        return cls.from_dict(schema.load_document(Path(path)))


SPEC_VERSION = "1.0"
"""Version of the schema `run-spec`: a change that old readers cannot follow raises the first number."""
