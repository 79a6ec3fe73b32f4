"""The interface of measurers: plugins that turn records and samples into metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar

from attrs import frozen

from dlperf_sdk.documents.field_types import Real, Schema

if TYPE_CHECKING:
    from dlperf_sdk.results.records import Repeat


@frozen
class Metric:
    """One number of a result."""

    name: str
    """Name of the metric."""
    unit: str
    """Unit of the value."""
    value: Real
    """Median over the repeats."""
    low: Real | None = None
    """Lower end of the distribution-free interval of the median; null below six repeats."""
    high: Real | None = None
    """Upper end of that interval."""
    repeats: Annotated[tuple[Real, ...], Schema(maxItems=10_000_000)] = ()
    """One value per repeat, in order."""
    note: str = ""
    """Convention or source that is needed to read the number."""


@frozen
class Measured:
    """Input of a measurer: the finished repeats of one case, and the properties of the case."""

    repeats: tuple[Repeat, ...]
    """The finished repeats, in the order in which they were measured."""
    unit: str
    """Unit of the model's throughput."""
    batch_size: int
    """Samples per device and optimization step."""
    devices: int
    """Number of devices on all nodes together."""
    device: str
    """Kind of the devices: `cpu`, `cuda`, …"""
    precision: str
    """Name of the precision."""
    flops_per_sample: int
    """Floating-point operations per sample and training step; a multiply-accumulate counts as two."""


class Measurer(ABC):
    """A plugin that adds metrics to a result.

    Registered in the group `dlperf_sdk.measurers`; every installed one is used.
    """

    name: ClassVar[str]
    """Name in listings; the entry point carries the same."""
    samplers: ClassVar[tuple[str, ...]] = ()
    """Samplers that each agent runs beside its workers, as ``module:attribute``. They use the standard library only."""

    @abstractmethod
    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return the metrics that can be computed from the repeats, in the order in which they are to be listed.

        A quantity that was not measured has no metric; it is never reported as zero. The method has no side
        effects.

        Args:
            measured: The repeats, and the properties of the case.

        Returns:
            The metrics; empty if nothing can be computed.
        """
