"""A throughput that somebody else measured and printed, in the words of a run spec."""

# ruff: noqa: RUF009 - workload(), factor() and context() make attrs fields, not default values

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.errors import UnknownName
from dlperf_sdk.spec.fields import Role, context, factor, workload
from dlperf_sdk.spec.values import Scalar, TopologySpec

FIGURE_VERSION = "1.0"

OPTION_ROLES: dict[str, Role] = {
    "clip_norm": "workload",
    "input_pipeline": "context",
    "loader_workers": "context",
    "loss_scale": "factor",
    "nccl": "factor",
    "parameter_device": "factor",
}
"""What a source may say of a case beyond the fields of a figure. `clip_norm` 0 says that nothing is clipped; an
option that is not there is one of which the source says nothing."""


@frozen
class Source:
    """Where a figure stands."""

    document: str
    """Its path in the repository, or its title."""
    line: int
    commit: str | None = None
    """Of the repository, where the document is in one."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def _options(_: Any, __: Any, value: Mapping[str, Scalar]) -> None:
    for name in value:
        if name not in OPTION_ROLES:
            raise UnknownName("option of a published figure", name, OPTION_ROLES)


@frozen(kw_only=True)
class PublishedFigure:
    """One published throughput. The fields that a run spec has, too, mean the same, and have the same roles.

    Raises:
        UnknownName: an option is none of `OPTION_ROLES`.
    """

    collection: str
    framework: str = factor("Framework, by the name of its plugin.")
    framework_version: str = context("As the source gives it.", "")
    implementation: str = context("Whose code was run.")
    model: str = workload("Model; `resnet50` is v1.5, other variants are `resnet50-v1` and `resnet50-v1b`.")
    printed_model: str
    """What the source calls the model."""
    topology: TopologySpec = factor("Nodes × devices per node.", converter=TopologySpec.parse)
    batch_size: int = workload("Samples per device.")
    precision: str = factor("fp32, amp-fp16, or fp16 where it was run without mixed precision.")
    compiler: str = factor("none or xla.")
    strategy: str = factor("How gradients meet.")
    layout: str | None = factor("Memory layout of images, where the source gives it.", None)
    device: str = factor("Kind of device.")
    hardware: str = factor("Model of the devices.")
    machine: str = context("Kind of machine, where the source gives it.", "")
    data: str = context("synthetic, synthetic-host, images or text.")
    options: Mapping[str, Scalar] = attrs.field(factory=dict, validator=_options)
    """What else the source says of the case, under the names of `OPTION_ROLES`."""
    throughput: float
    """Samples of all devices per second."""
    unit: str
    printed_speedup: float | None = None
    """Over one device, as the source prints it."""
    repeats: tuple[float, ...] = attrs.field(default=(), converter=tuple)
    """The throughputs whose median it is, where they are published and their median is the figure."""
    warmup: int | None = None
    steps: int | None = None
    repeat_count: int | None = None
    """How often the source says that it measured; None where it does not say, or says two things."""
    estimator: str = context(
        "elapsed: samples over elapsed time. mean-of-rates: biased upwards where steps vary. sum-of-step-times: "
        "over lines of all ranks. unknown.",
        "unknown",
    )
    date: str
    release: str
    """The source's own release that the figure belongs to."""
    source: Source
    footnotes: tuple[str, ...] = attrs.field(default=(), converter=tuple)

    @property
    def devices(self) -> int:
        """All devices."""
        return self.topology.devices

    @property
    def global_batch_size(self) -> int:
        """Samples per step over all devices."""
        return self.batch_size * self.devices

    def roles(self) -> dict[str, Role]:
        """Every field and option that describes the case, and how it bears on comparing."""
        fields = {
            field.name: field.metadata["role"]
            for field in attrs.fields(type(self))
            if "role" in field.metadata
        }
        return {**fields, **{name: OPTION_ROLES[name] for name in self.options}}

    def value(self, name: str) -> Any:
        """A field or an option; None for an option of which the source says nothing.

        Raises:
            UnknownName: it is neither.
        """
        if name in OPTION_ROLES:
            return self.options.get(name)
        if name not in FIELDS:
            raise UnknownName("field of a published figure", name, [*FIELDS, *OPTION_ROLES])
        return getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, under the schema `published`. What the source does not give is left out."""
        plain = attrs.asdict(self, recurse=False)
        plain["topology"] = str(self.topology)
        plain["options"] = dict(self.options)
        plain["source"] = {name: each for name, each in attrs.asdict(self.source).items() if each is not None}
        for name in ("repeats", "footnotes"):
            plain[name] = list(plain[name])
        said = {name: each for name, each in plain.items() if each not in (None, "", [], {})}
        return {"schema_version": FIGURE_VERSION, **said}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PublishedFigure:
        """The inverse of `to_dict`.

        Raises:
            DocumentError: the document breaks the schema `published`.
        """
        from dlperf_sdk.documents import schema

        schema.check("published", plain)
        return cls._of(plain)

    @classmethod
    def _of(cls, plain: Mapping[str, Any]) -> PublishedFigure:
        """From a document that is known to be valid: the SDK's own data, which the tests check."""
        fields = {name: value for name, value in plain.items() if name != "schema_version"}
        fields["source"] = Source(**fields["source"])
        return cls(**fields)


FIELDS = tuple(field.name for field in attrs.fields(PublishedFigure) if field.name != "options")
"""What `Published.where` filters by, beside the options."""
