"""A published throughput, described by the fields of a run spec."""

# ruff: noqa: RUF009 - workload(), factor() and context() make attrs fields, not default values

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.field_types import SampleCount, Schema, WrittenAs, text
from dlperf_sdk.documents.json_values import check_plain
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.spec.fields import Role, context, factor, workload
from dlperf_sdk.spec.stated_protocol import StatedProtocol
from dlperf_sdk.spec.values import Scalar, TopologySpec

FIGURE_VERSION = "1.0"


def _line(shortest: int, longest: int) -> Schema:
    """Return the constraint of a text without line breaks.

    The line breaks are listed because engines of regular expressions disagree on what `.` excludes.
    """
    length = f"{shortest} to {longest}" if shortest else f"at most {longest}"
    return text(rf"^[^\n\r\u2028\u2029]{{{shortest},{longest}}}$", f"a line of {length} characters")


ShortName = Annotated[
    str,
    text(
        "^[a-z0-9][a-z0-9._-]{0,127}$",
        "a name (lower-case letters and digits, and '.', '_' and '-' behind the first) of at most 128 characters",
    ),
]
Line = Annotated[str, _line(1, 128)]
OptionalLine = Annotated[str, _line(0, 128)]
Throughput = Annotated[float, Schema(exclusiveMinimum=0, maximum=1e15)]
StepCount = Annotated[int, Schema(minimum=1, maximum=100_000)]


@frozen(kw_only=True)
class FigureOptions:
    """Properties of a case that a run spec has no field for; absent if the source does not state them."""

    clip_norm: Annotated[float, Schema(minimum=0, maximum=1e9)] | None = workload(
        "Common norm that gradients are clipped to; 0: they are not clipped.", None
    )
    input_pipeline: OptionalLine | None = context("Program that reads and prepares the samples.", None)
    loader_workers: Annotated[int, Schema(minimum=0, maximum=1_000_000)] | None = context(
        "Processes that load samples, per node.", None
    )
    loss_scale: OptionalLine | None = factor("Loss scaling.", None)
    nccl: bool | None = factor("Whether NCCL was used.", None)
    parameter_device: OptionalLine | None = factor("Device that holds the parameters.", None)


OPTION_ROLES: dict[str, Role] = {field.name: field.metadata["role"] for field in attrs.fields(FigureOptions)}
"""Option of a published figure → its role in comparisons."""


@frozen
class Source:
    """Document that printed a figure."""

    document: Annotated[str, _line(1, 512)]
    """Path of the document in the repository, or its title."""
    line: Annotated[int, Schema(minimum=1, maximum=1_000_000_000)]
    """Line of the figure, counted from 1."""
    commit: Annotated[str, text("^[0-9a-f]{40}$", "40 hexadecimal digits")] | None = None
    """Commit of the repository, if the document is in one."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def _options(_: Any, __: Any, value: Mapping[str, Scalar]) -> None:
    for name in value:
        if name not in OPTION_ROLES:
            raise UnknownName("option of a published figure", name, OPTION_ROLES)


@frozen(kw_only=True)
class PublishedFigure:
    """One published throughput. A field that exists in run specs as well has the same meaning and role as there.

    Raises:
        UnknownName: An option is none of `OPTION_ROLES`.
        SpecError: The topology's text cannot be parsed.
    """

    collection: ShortName
    """The collection that the figure belongs to."""
    framework: ShortName = factor("Framework, by the name of its plugin.")
    framework_version: OptionalLine = context("As the source gives it.", "")
    implementation: Line = context("Whose code was run.")
    model: ShortName = workload(
        "Model; `resnet50` is v1.5, other variants are `resnet50-v1` and `resnet50-v1b`."
    )
    printed_model: Line
    """Name of the model in the source."""
    topology: Annotated[
        TopologySpec,
        Schema(
            type="string",
            pattern="^[1-9][0-9]{0,5}n[1-9][0-9]{0,5}d$",
            expected="NODESnDEVICESd, both from 1 to 999999, such as 1n1d or 2n8d",
        ),
    ] = factor("Nodes × devices per node.", converter=TopologySpec.parse)
    batch_size: SampleCount = workload("Samples per device and optimization step.")
    precision: ShortName = factor("Precision, by its name in a run spec.")
    compiler: ShortName = factor("none or xla.")
    strategy: ShortName = factor("Gradient synchronization.")
    layout: ShortName | None = factor("Memory layout of images, if the source gives it.", None)
    device: ShortName = factor("Kind of device.")
    hardware: Line = factor("Model of the devices.")
    machine: OptionalLine = context("Kind of machine, if the source gives it.", "")
    data: ShortName = context("Data source, by its name in a run spec.")
    options: Annotated[Mapping[str, Scalar], WrittenAs(FigureOptions)] = attrs.field(
        factory=dict, validator=_options
    )
    """Further properties of the case that the source states."""
    throughput: Throughput
    """Samples of all devices per second."""
    unit: Annotated[str, Schema(enum=["img/s", "seq/s"])]
    """Unit of the throughput."""
    printed_speedup: Annotated[float, Schema(exclusiveMinimum=0, maximum=1e9)] | None = None
    """Speedup over one device that the source prints."""
    repeats: Annotated[tuple[Throughput, ...], Schema(maxItems=100_000)] = attrs.field(
        default=(), converter=tuple
    )
    """The throughputs whose median the figure is, if they are published."""
    warmup: Annotated[int, Schema(minimum=0, maximum=100_000)] | None = None
    """Steps before the window; null if the source does not state them."""
    steps: StepCount | None = None
    """Steps in the window; null if the source does not state them."""
    repeat_count: StepCount | None = None
    """Number of measurements that the source states; null if it states none, or two different numbers."""
    estimator: Annotated[str, Schema(enum=["elapsed", "mean-of-rates", "sum-of-step-times", "unknown"])] = (
        context(
            "elapsed: samples over elapsed time. mean-of-rates: biased upwards where steps vary. sum-of-step-times: "
            "over lines of all ranks. unknown."
        )
    )
    date: Annotated[str, text("^[0-9]{4}(-[0-9]{2})?$", "a year, or a year and a month: 2020 or 2020-07")]
    """Year, or year and month."""
    release: Line
    """The source's own release that the figure belongs to."""
    source: Source
    """Document that printed the figure."""
    footnotes: Annotated[
        tuple[Annotated[str, _line(0, 1024)], ...],
        Schema(maxItems=100),
    ] = attrs.field(default=(), converter=tuple)
    """Remarks that a reader of the figure needs."""

    @property
    def devices(self) -> int:
        """Number of devices on all nodes together."""
        return self.topology.devices

    @property
    def global_batch_size(self) -> int:
        """Samples per optimization step over all devices."""
        return self.batch_size * self.devices

    @property
    def protocol(self) -> StatedProtocol:
        """Numbers of steps and repeats, as far as the source states them."""
        return StatedProtocol(self.warmup, self.steps, self.repeat_count)

    def roles(self) -> dict[str, Role]:
        """Return name → role of each field and option that has a role in comparisons.

        Options that the source does not state are left out, and so are fields without a role, such as `throughput`.
        """
        fields = {
            field.name: field.metadata["role"]
            for field in attrs.fields(type(self))
            if "role" in field.metadata
        }
        return {**fields, **{name: OPTION_ROLES[name] for name in self.options}}

    def value(self, name: str) -> Any:
        """Return the value of a field or an option; None for an option that the source does not state.

        Args:
            name: Name of a field of this class, or of a field of `FigureOptions`.

        Raises:
            UnknownName: The name is neither a field nor an option.
        """
        if name in OPTION_ROLES:
            return self.options.get(name)
        if name not in FIELDS:
            raise UnknownName("field of a published figure", name, [*FIELDS, *OPTION_ROLES])
        return getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON values that follow the schema `published`.

        Values that are None or empty are left out.
        """
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
        """Return the figure that a JSON document describes; the inverse of `to_dict`.

        Args:
            plain: The document, JSON values by the names of the fields; see the schema `published`.

        Raises:
            DocumentError: The document is not plain JSON data, or breaks the schema `published`.
            UnknownName: An option is none of `OPTION_ROLES`.
        """
        from dlperf_sdk.documents import schema

        check_plain(plain, "The published figure")
        schema.check("published", plain)
        return cls.from_valid(plain)

    @classmethod
    def from_valid(cls, plain: Mapping[str, Any]) -> PublishedFigure:
        """Return the figure that a valid JSON document describes.

        Args:
            plain: The document, JSON values by the names of the fields. It is not checked against the schema
                `published`.

        Raises:
            UnknownName: An option is none of `OPTION_ROLES`.
        """
        fields = {name: value for name, value in plain.items() if name != "schema_version"}
        fields["source"] = Source(**fields["source"])
        return cls(**fields)


FIELDS = tuple(field.name for field in attrs.fields(PublishedFigure) if field.name != "options")
"""Names that `Figures.filter` selects by, besides the options."""
