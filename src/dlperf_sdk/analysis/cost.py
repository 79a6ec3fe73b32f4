"""Cost of a sample: money, by the price of an hour, and energy, as measured or from given watts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.result import Result
from dlperf_sdk.worker.estimate import median, median_interval

MILLION = 1_000_000
JOULES_PER_KWH = 3_600_000
_MEASURED = ("device-energy-per-sample", "host-energy-per-sample")
"""Metrics in joules: of all devices, and of the processors and memory of all nodes."""


def _price(_: Any, attribute: Any, value: Any) -> None:
    if value is not None:
        _positive(attribute.name.replace("_", " "), value)


def _currency(_: Any, __: Any, value: Any) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{3}", value):
        raise AnalysisError(f"The currency is {format_value(value)}; write three capitals: EUR, USD, CNY.")


@frozen(kw_only=True)
class Price:
    """Price of an hour of a device, or of a node with all of its devices.

    Raises:
        AnalysisError: Both prices or neither are given, a price is not a number above 0, or the currency is not
            three capital letters.
    """

    per_device_hour: float | None = field(default=None, validator=_price)
    """Price of an hour of one device; None if the price is that of a node."""
    per_node_hour: float | None = field(default=None, validator=_price)
    """Price of an hour of one node with all of its devices; None if the price is that of a device."""
    currency: str = field(default="USD", validator=_currency)
    """Currency, as three capital letters."""

    def __attrs_post_init__(self) -> None:
        if (self.per_device_hour is None) == (self.per_node_hour is None):
            raise AnalysisError("A price is of a device or of a node for an hour: give one of the two.")

    def total_per_hour(self, case: Case) -> float:
        """Return the price of an hour of all devices of a case, in `currency`.

        It is `per_device_hour` times the number of devices, or `per_node_hour` times the number of nodes.
        """
        if self.per_device_hour is not None:
            return self.per_device_hour * case.topology.devices
        return (self.per_node_hour or 0.0) * case.topology.nodes


@frozen
class Quantity:
    """A value, with its interval if there is one."""

    value: float
    low: float | None
    """Lower end of the interval; None below six repeats."""
    high: float | None
    """Upper end of the interval of at least 95 % of the median over the repeats; None below six repeats."""
    unit: str
    """Unit of the value: `J per sample`, or a currency `per million samples`."""
    basis: str
    """Method of computation, as a phrase."""


@frozen
class Cost:
    """Cost of the samples of one case. The parts are not added up: the price of an hour may include the energy."""

    case: Case
    price: Quantity | None
    """Money per million samples, by the price of an hour; None if no price was given."""
    energy: Quantity | None
    """Joules per sample; None if the energy was not measured and no watts were given."""
    energy_price: Quantity | None
    """Money per million samples, for the energy; None without energy, or without the price of a kWh."""


def cost(
    source: Case | Result | PublishedFigure,
    *,
    price: Price | None = None,
    per_kwh: float | None = None,
    watts: float | None = None,
    currency: str | None = None,
) -> Cost:
    """Compute the cost of a case's samples.

    - Money per million samples: price of an hour × devices (or nodes) ÷ (3600 s × throughput) × 1,000,000.
    - Joules per sample: if measured, the energy of devices and processors in the window of a repeat ÷ its samples;
      otherwise watts × devices ÷ throughput.
    - Money per million samples for the energy: joules ÷ 3,600,000 × price of a kWh × 1,000,000.

    The lower end of a cost's interval is computed from the upper end of the throughput's interval, and vice versa.

    Args:
        source: The case.
        price: Price of an hour; None: `Cost.price` is None.
        per_kwh: Price of a kWh; None: `Cost.energy_price` is None.
        watts: Power of a device with its share of the rest of the node. Used only if no energy was measured.
        currency: Currency of `per_kwh`, as three capital letters; None: that of `price`, else USD.

    Returns:
        The three amounts above, in this order, as `price`, `energy` and `energy_price`. An amount is None if the price
        or the energy that it needs is not known.

    Raises:
        AnalysisError: `Case.from_source` refuses the source; the source's measured energy is negative, not finite or
            not in joules; `per_kwh` or `watts` is not above 0; the currency is not three capital letters; or `currency`
            differs from that of `price`.
    """
    case = Case.from_source(source)
    for name, value in (("per_kwh", per_kwh), ("watts", watts)):
        if value is not None:
            _positive(name, value)
    of_price = None if price is None else price.currency
    if currency is not None:
        _currency(None, None, currency)
        if of_price not in (None, currency):
            raise AnalysisError(f"The hour is priced in {of_price}, the energy in {currency}: convert one.")
    money = currency or of_price or "USD"
    energy = _energy(case, source, watts)
    return Cost(
        case,
        None if price is None else _hours(case, price),
        energy,
        None if energy is None or per_kwh is None else _price_energy(energy, per_kwh, money),
    )


def _hours(case: Case, price: Price) -> Quantity:
    a_second = price.total_per_hour(case) / 3600
    unit_name, count = (
        ("device", case.topology.devices) if price.per_device_hour else ("node", case.topology.nodes)
    )
    amount = price.per_device_hour or price.per_node_hour
    basis = f"{amount:g} {price.currency} per {unit_name} and hour, × {count}"
    return _convert_rate(case, MILLION * a_second, f"{price.currency} per million samples", basis)


def _convert_rate(case: Case, amount: float, unit: str, basis: str) -> Quantity:
    """Convert an amount per second into one per sample."""
    low, high = median_interval(case.repeats) or (None, None)
    return Quantity(
        amount / case.throughput,
        None if high is None else amount / high,
        None if low is None else amount / low,
        unit,
        basis,
    )


def _energy(case: Case, source: Any, watts: float | None) -> Quantity | None:
    metrics = () if not isinstance(source, Result) else map(source.metric, _MEASURED)
    measured = [metric for metric in metrics if metric is not None]
    if measured:
        return _sum_energies(case, measured)
    if watts is None:
        return None
    basis = f"not measured: {watts:g} W per device, × {case.topology.devices}, as given"
    return _convert_rate(case, watts * case.topology.devices, "J per sample", basis)


def _sum_energies(case: Case, parts: Sequence[Metric]) -> Quantity:
    for part in parts:
        if part.unit != "J" or not math.isfinite(part.value) or part.value < 0:
            raise AnalysisError(
                f"The {part.name} of {case.name} is {part.value} {part.unit}, which is no energy."
            )
    # Sum repeat by repeat if all parts have repeats: the median of sums is not the sum of medians.
    lengths = {len(part.repeats) for part in parts}
    sums = [math.fsum(joules) for joules in zip(*(part.repeats for part in parts), strict=False)]
    if len(lengths) > 1 or not sums:
        value, interval = math.fsum(part.value for part in parts), None
    else:
        value, interval = median(sums), median_interval(sums)
    low, high = interval or (None, None)
    names = " and ".join(part.name.removesuffix("-energy-per-sample") for part in parts)
    return Quantity(value, low, high, "J per sample", f"measured: {names}")


def _price_energy(energy: Quantity, per_kwh: float, currency: str) -> Quantity:
    factor = MILLION / JOULES_PER_KWH * per_kwh
    return Quantity(
        energy.value * factor,
        None if energy.low is None else energy.low * factor,
        None if energy.high is None else energy.high * factor,
        f"{currency} per million samples",
        f"{per_kwh:g} {currency} a kWh; {energy.basis}",
    )


def _positive(name: str, value: Any) -> None:
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    if not fine or not math.isfinite(value) or value <= 0:
        raise AnalysisError(f"{name} is {format_value(value)}; it must be a number above 0.")
