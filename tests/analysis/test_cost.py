"""What a sample costs: the arithmetic, the interval, and that what was not measured is said not to be."""

import json
import math

import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401 - fixtures
from hypothesis import given
from hypothesis import strategies as st
from result_samples import a_result

from dlperf_sdk.analysis import Price, cost
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Verdict

SEVEN = tuple(100.0 + step for step in range(7))
THROUGHPUT = Metric("throughput", "img/s", 103.0, 100.0, 106.0, SEVEN)


def result(*metrics, **changes):
    return a_result(metrics=(THROUGHPUT, *metrics), **changes)


def test_the_price_of_a_million_samples():
    """2 devices at 3.6 an hour are 0.002 a second; at 103 img/s a million take 9708.7 s."""
    actual = cost(result(), price=Price(per_device_hour=3.6, currency="EUR")).price
    assert actual.value == pytest.approx(0.002 * 1e6 / 103)
    assert (actual.low, actual.high) == (pytest.approx(0.002 * 1e6 / 106), pytest.approx(0.002 * 1e6 / 100))
    assert actual.unit == "EUR per million samples"
    assert actual.basis == "3.6 EUR per device and hour, × 2"


def test_a_node_has_its_price_whatever_is_in_it():
    actual = cost(result(fields={"topology": "2n8d"}), price=Price(per_node_hour=36)).price
    assert actual.value == pytest.approx(0.02 * 1e6 / 103)
    assert actual.unit == "USD per million samples"


def test_measured_energy_takes_precedence_over_stated_watts():
    device = Metric(
        "device-energy-per-sample", "J", 2.0, repeats=tuple(1.7 + 0.1 * step for step in range(7))
    )
    host = Metric("host-energy-per-sample", "J", 1.0, repeats=tuple(1.3 - 0.1 * step for step in range(7)))
    actual = cost(result(device, host), watts=9999, per_kwh=0.36, currency="EUR")
    assert actual.price is None
    # The sum is 3 in every repeat.
    assert (actual.energy.value, actual.energy.low, actual.energy.high) == pytest.approx((3.0, 3.0, 3.0))
    assert actual.energy.basis == "measured: device and host"
    assert actual.energy_price.value == pytest.approx(3.0 / 3.6e6 * 0.36 * 1e6)
    assert actual.energy_price.unit == "EUR per million samples"


def test_stated_watts_are_labeled_as_stated():
    actual = cost(result(), watts=206.0)
    assert actual.energy.value == pytest.approx(412 / 103)
    assert actual.energy.low == pytest.approx(412 / 106)
    assert "not measured: 206 W per device, × 2, as given" in actual.energy.basis
    assert actual.energy_price is None


def test_unknown_values_are_none():
    actual = cost(result(), price=Price(per_device_hour=1), per_kwh=0.3)
    assert actual.energy is None and actual.energy_price is None


def test_one_repeat_has_no_interval():
    one = a_result(metrics=(Metric("throughput", "img/s", 103.0, repeats=(103.0,)),))
    actual = cost(one, price=Price(per_device_hour=1), watts=1)
    assert (actual.price.low, actual.price.high, actual.energy.low) == (None, None, None)


def test_a_published_figure_has_a_cost_too():
    figure = (
        Registry().collection("dlperf-v1.0").figures.filter(framework="oneflow", topology="4n8d").figures[0]
    )
    actual = cost(figure, price=Price(per_node_hour=3600))
    assert actual.price.value == pytest.approx(4e6 / figure.throughput)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_sample_cost_matches_hourly_cost(amount, rate):
    case = a_result(metrics=(Metric("throughput", "img/s", rate),))
    actual = cost(case, price=Price(per_device_hour=amount))
    assert actual.price.value * rate * 3600 / 1e6 == pytest.approx(2 * amount)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "2"])
def test_prices_and_watts_are_numbers_above_0(value):
    for created in (
        lambda: Price(per_device_hour=value),
        lambda: cost(result(), watts=value),
        lambda: cost(result(), per_kwh=value),
    ):
        with pytest.raises(AnalysisError, match="must be a number above 0"):
            created()


def test_a_price_is_one_price_in_one_currency():
    for words in ({}, {"per_device_hour": 1, "per_node_hour": 1}):
        with pytest.raises(AnalysisError, match="give one of the two"):
            Price(**words)
    with pytest.raises(AnalysisError, match="three capitals"):
        Price(per_device_hour=1, currency="euro")
    with pytest.raises(AnalysisError, match="the energy in EUR"):
        cost(result(), price=Price(per_device_hour=1), per_kwh=1, currency="EUR")


@pytest.mark.parametrize(
    "broken",
    [
        a_result(metrics=()),
        a_result(metrics=(Metric("throughput", "img/s", math.nan),)),
        a_result(verdicts=(Verdict("finite-loss", "integrity", "fail", ""),)),
        result(Metric("device-energy-per-sample", "J", math.nan)),
    ],
)
def test_result_without_valid_throughput_has_no_cost(broken):
    with pytest.raises(AnalysisError):
        cost(broken, price=Price(per_device_hour=1))


def test_the_command(dlperf, stored):
    ours = stored(metrics=(THROUGHPUT,))
    words = ["cost", "--per-device-hour", "3.6", "--currency", "EUR", "--watts", "206", "--per-kwh", "0.3"]
    code, out, err = dlperf(*words)
    assert (code, err) == (0, "")
    shown = " ".join(out.split())
    assert "19.42 EUR per million samples 18.87 – 20.00" in shown
    assert "4.000 J per sample" in shown and "as given" in shown
    code, out, _ = dlperf(*words, "--json")
    (item,) = json.loads(out)["costs"]
    assert item["id"] == ours.id and item["price"]["value"] == pytest.approx(19.417, rel=1e-4)
    code, _, err = dlperf("cost")
    assert code == 2 and "No price is given" in err
    code, _, err = dlperf("cost", "--per-device-hour", "0")
    assert code == 2 and "above 0" in err


def test_command_lists_results_without_cost(dlperf, stored):
    stored(metrics=())
    code, out, err = dlperf("cost", "--per-device-hour", "1", "--json")
    assert code == 5
    assert json.loads(out)["costs"] == []
    assert "has no throughput" in err
