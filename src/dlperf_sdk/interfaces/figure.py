"""A published throughput, described by the fields of a run spec."""

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
"""What a source may state besides the fields of a figure. `clip_norm` 0 means that nothing is clipped; an option that
is absent is one that the source does not state."""


@frozen
class Source:
    """The place of a figure: a document and a line."""

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
    """The source's name of the model."""
    topology: TopologySpec = factor("Nodes × devices per node.", converter=TopologySpec.parse)
    batch_size: int = workload("Samples per device.")
    precision: str = factor("fp32, amp-fp16, or fp16 where it was run without mixed precision.")
    compiler: str = factor("none or xla.")
    strategy: str = factor("Gradient synchronization.")
    layout: str | None = factor("Memory layout of images, where the source gives it.", None)
    device: str = factor("Kind of device.")
    hardware: str = factor("Model of the devices.")
    machine: str = context("Kind of machine, where the source gives it.", "")
    data: str = context("synthetic, synthetic-host, images or text.")
    options: Mapping[str, Scalar] = attrs.field(factory=dict, validator=_options)
    """Further facts that the source states, under the names of `OPTION_ROLES`."""
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
    """The number of repeats that the source states; None where it states none, or two numbers."""
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
        """Devices of all nodes."""
        return self.topology.devices

    @property
    def global_batch_size(self) -> int:
        """Samples per step over all devices."""
        return self.batch_size * self.devices

    def roles(self) -> dict[str, Role]:
        """Return every field and option that describes the case, with its role in a comparison."""
        fields = {
            field.name: field.metadata["role"]
            for field in attrs.fields(type(self))
            if "role" in field.metadata
        }
        return {**fields, **{name: OPTION_ROLES[name] for name in self.options}}

    def value(self, name: str) -> Any:
        """Return a field or an option; None for an option that the source does not state.

        Raises:
            UnknownName: it is neither.
        """
        if name in OPTION_ROLES:
            return self.options.get(name)
        if name not in FIELDS:
            raise UnknownName("field of a published figure", name, [*FIELDS, *OPTION_ROLES])
        return getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, under the schema `published`, without what the source does not state."""
        plain = attrs.asdict(self, recurse=False)
        plain["topology"] = str(self.topology)
        plain["options"] = dict(self.options)
        plain["source"] = {
            name: value for name, value in attrs.asdict(self.source).items() if value is not None
        }
        for name in ("repeats", "footnotes"):
            plain[name] = list(plain[name])
        stated = {name: value for name, value in plain.items() if value not in (None, "", [], {})}
        return {"schema_version": FIGURE_VERSION, **stated}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PublishedFigure:
        """Check a document against the schema and build a figure; the inverse of `to_dict`.

        Raises:
            DocumentError: the document breaks the schema `published`.
        """
        from dlperf_sdk.documents import schema

        schema.check("published", plain)
        return cls.from_valid(plain)

    @classmethod
    def from_valid(cls, plain: Mapping[str, Any]) -> PublishedFigure:
        """Build a figure from a document that follows the schema `published`: that is not checked again."""
        fields = {name: value for name, value in plain.items() if name != "schema_version"}
        fields["source"] = Source(**fields["source"])
        return cls(**fields)


FIELDS = tuple(field.name for field in attrs.fields(PublishedFigure) if field.name != "options")
"""Names that `Figures.where` selects by, besides the options."""
