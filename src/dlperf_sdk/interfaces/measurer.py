"""A measurer: something that observes a run and adds metrics."""

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
    """Its name."""
    unit: str
    """Its unit."""
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
    """Input of a measurement: the finished repeats of one case, and a description of the case."""

    repeats: tuple[Repeat, ...]
    unit: str
    """Unit of the model's throughput."""
    batch_size: int
    """Samples per device and optimization step."""
    devices: int
    """On all nodes together."""
    device: str
    """Their kind: `cpu`, `cuda`, …"""
    precision: str
    flops_per_sample: int
    """Floating-point operations per sample and training step; a multiply-accumulate counts as two."""


class Measurer(ABC):
    """Adds metrics to a result. Registered in the group `dlperf_sdk.measurers`; every installed one is used.

    Facts that nobody could measure are absent, never zero.
    """

    name: ClassVar[str]
    """The name it is listed under; the entry point carries the same."""
    samplers: ClassVar[tuple[str, ...]] = ()
    """The samplers, as ``module:attribute``, that each agent runs beside its workers; standard library only."""

    @abstractmethod
    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return the metrics of a case from what was measured; none that was not measured; pure."""
