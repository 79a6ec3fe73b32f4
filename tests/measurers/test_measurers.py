"""What the built-in measurers make of records and samples."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import counter, gauge, measured, record, repeat, repeats, replica

from dlperf_sdk.errors import UnknownName
from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.measurers import series
from dlperf_sdk.measurers.flops import Flops
from dlperf_sdk.measurers.memory import Memory
from dlperf_sdk.measurers.peaks import _TABLE, peak
from dlperf_sdk.measurers.power import Power
from dlperf_sdk.measurers.step_time import StepTime
from dlperf_sdk.measurers.throughput import Throughput
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import InputQueue, Repeat, Series, Window
from dlperf_sdk.worker.request import resolve

ALL = [type(measurer) for measurer in Registry().measurers()]


def summary(measurer: Measurer, case: Measured) -> dict[str, Metric]:
    actual = measurer.summarize(case)
    assert len({metric.name for metric in actual}) == len(actual)
    return {metric.name: metric for metric in actual}


@pytest.mark.parametrize("measurer", ALL)
def test_no_metric_without_repeats(measurer: type[Measurer]) -> None:
    assert measurer().summarize(measured(())) == ()


@pytest.mark.parametrize("measurer", ALL)
def test_the_samplers_it_names_exist(measurer: type[Measurer]) -> None:
    for reference in measurer.samplers:
        sampler = resolve(reference)(("cpu:0",))
        assert callable(sampler.open) and callable(sampler.sample) and callable(sampler.close)


def test_throughput_and_per_device() -> None:
    actual = summary(Throughput(), measured(repeats(7, ranks=2)))
    assert actual["throughput"].value == pytest.approx(2 * 80 / 2.0)
    assert actual["throughput-per-device"].value == pytest.approx(40.0)
    assert actual["throughput"].unit == "img/s"
    assert actual["throughput"].low is not None
    assert "skipped-steps" not in actual


def test_skipped_steps_are_counted_and_shown() -> None:
    actual = summary(Throughput(), measured(repeats(3, skipped_steps=2), precision="amp-fp16"))
    assert actual["skipped-steps"].value == 2
    none = summary(Throughput(), measured(repeats(3), precision="amp-fp16"))
    assert none["skipped-steps"].value == 0


def test_step_times_are_those_of_the_slowest_and_name_their_clock() -> None:
    times = tuple(0.1 + 0.001 * step for step in range(100))
    case = tuple(
        Repeat(a, (record(0, a, times), record(1, a, tuple(reversed(times)), clock="event")))
        for a in range(2)
    )
    actual = summary(StepTime(), measured(case))
    slowest = sorted(max(pair) for pair in zip(times, reversed(times), strict=True))
    assert actual["step-time-median"].value == pytest.approx((slowest[49] + slowest[50]) / 2)
    assert actual["step-time-p99"].value == pytest.approx(slowest[98] + 0.01 * (slowest[99] - slowest[98]))
    assert "blocking, event" in actual["step-time-median"].note
    assert actual["data-wait"].unit == "%"


def test_percentiles_that_the_steps_do_not_reach_are_absent() -> None:
    assert "step-time-p99" not in summary(StepTime(), measured(repeats(step_times=(0.1,) * 99)))
    assert "step-time-p90" not in summary(StepTime(), measured(repeats(step_times=(0.1,) * 9)))


def test_the_rate_of_queues_is_that_of_all_processes_and_their_depth_the_lowest() -> None:
    def case(*queues: InputQueue | None) -> Measured:
        repeats = (
            Repeat(a, tuple(record(rank, a, input_queue=queue) for rank, queue in enumerate(queues)))
            for a in range(2)
        )
        return measured(tuple(repeats))

    actual = summary(StepTime(), case(InputQueue(20, 0.5, 40), InputQueue(10, 1.0, 15)))
    assert (actual["input-rate"].value, actual["input-rate"].unit) == (4 * (20 / 0.5 + 10 / 1.0), "img/s")
    assert actual["input-queue-depth"].value == 1.5
    for unknown in (None, InputQueue(0, 0.0, 0)):
        names = set(summary(StepTime(), case(InputQueue(20, 0.5, 40), unknown)))
        assert not names & {"input-rate", "input-queue-depth"} and "data-wait" in names


def test_memory_is_that_of_the_largest_process() -> None:
    actual = summary(Memory(), measured(repeats(3, ranks=4)))
    assert actual["peak-host-memory"].value == 1003
    assert actual["peak-device-memory"].value == 2003


def test_device_memory_that_a_process_cannot_tell_is_absent() -> None:
    case = (Repeat(0, (record(0), record(1, peak_device_memory=None))),)
    assert set(summary(Memory(), measured(case))) == {"peak-host-memory"}


def test_flops_and_mfu() -> None:
    actual = summary(Flops(), measured(repeats(3), precision="amp-bf16", flops_per_sample=10**12))
    assert actual["flops-per-device"].value == pytest.approx(40 * 1e12)
    assert actual["mfu"].value == pytest.approx(100 * 40e12 / 989.5e12)
    assert "data sheet" in actual["mfu"].note and "1 multiply-accumulate = 2 FLOP" in actual["mfu"].note


@pytest.mark.parametrize(
    "devices", [["AMD EPYC"], [], ["NVIDIA H200", "NVIDIA H100 PCIe"], "NVIDIA H200", None]
)
def test_no_mfu_without_a_known_peak(devices: object) -> None:
    actual = summary(Flops(), measured(repeats(3, facts={"devices": devices}), precision="amp-bf16"))
    assert set(actual) == {"flops-per-device"}


def test_a_model_without_arithmetic_has_no_flops() -> None:
    assert Flops().summarize(measured(repeats(3), flops_per_sample=0)) == ()


@pytest.mark.parametrize(
    ("device", "precision", "flops"),
    [
        ("NVIDIA H200", "amp-bf16", 989.5e12),
        ("NVIDIA H100 80GB HBM3", "amp-fp16", 989.5e12),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156e12),
        ("NVIDIA A100-SXM4-40GB", "fp32", 19.5e12),
        ("Tesla V100-SXM2-16GB", "amp-fp16", 125e12),
        ("Tesla V100-SXM2-16GB", "fp32", 15.7e12),
    ],
)
def test_peaks(device: str, precision: str, flops: float) -> None:
    known = peak(device, precision)
    assert known is not None and known.flops == flops


def test_no_peaks_for_formats_that_a_device_lacks() -> None:
    assert peak("Tesla V100-SXM2-16GB", "amp-bf16") is None
    assert peak("Tesla T4", "tf32") is None
    with pytest.raises(UnknownName, match="no precision named 'fp8'"):
        peak("NVIDIA H200", "fp8")


def test_the_table_is_dense_throughout() -> None:
    """A sparse figure among them would break the ratios that hold in every tensor core: 16-bit is twice
    tf32."""
    for rates, source in _TABLE.values():
        assert source
        assert set(rates) <= {"fp32", "tf32", "fp16", "bf16"}
        assert rates.get("bf16", rates["fp16"]) == rates["fp16"]
        if "tf32" in rates:
            assert rates["fp16"] / rates["tf32"] == pytest.approx(2, rel=0.02)


# ---- series ---------------------------------------------------------------------


@settings(deadline=None)  # the machine may be busy
@given(st.floats(0, 1e4), st.floats(0.05, 2.0), st.floats(0, 30), st.floats(1, 20))
def test_a_steady_counter_grows_by_its_rate_times_the_window(
    rate: float, step: float, offset: float, length: float
) -> None:
    window = Window(50 + offset, 50 + offset + length)
    energy = counter("energy", "GPU-0", rate, 40.0, 110.0, step)
    grown = series.growth(energy, window)
    on_a_look = {window.start, window.end} & set(energy.times)
    if step > series.COARSEST * length * 1.001 and not on_a_look:
        assert grown is None
    elif step < series.COARSEST * length * 0.999:
        assert grown == pytest.approx(rate * length, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(0, 1000), min_size=30, max_size=30), st.floats(0, 0.8), st.floats(1.5, 2.0))
def test_the_energy_of_two_windows_is_the_energy_of_both(
    values: list[float], start: float, middle: float
) -> None:
    power = gauge("power", "GPU-0", tuple(values), 0.0, 0.1)
    first = series.integral(power, Window(start, middle))
    second = series.integral(power, Window(middle, 2.85))
    whole = series.integral(power, Window(start, 2.85))
    assert first is not None and second is not None and whole is not None
    assert first + second == pytest.approx(whole)
    assert min(values) * (2.85 - start) <= whole * (1 + 1e-9) + 1e-9


def test_a_window_outside_the_looks_is_not_extrapolated() -> None:
    energy = counter("energy", "GPU-0", 100.0, 100.0, 102.0, 0.1)
    assert series.growth(energy, Window(99.9, 101.0)) is None
    assert series.growth(energy, Window(101.0, 102.1)) is None
    assert series.growth(energy, Window(100.0, 102.0)) == pytest.approx(200.0)


def test_reset_counter_gives_no_metric() -> None:
    energy = counter("energy", "GPU-0", 100.0, 100.0, 102.0, 0.1)
    reset = attrs.evolve(energy, values=(*energy.values[:10], *(0.0,) * (len(energy.values) - 10)))
    assert series.growth(reset, Window(100.2, 101.8)) is None


def test_gauge_with_a_gap_gives_no_metric() -> None:
    whole = gauge("power", "GPU-0", (300.0,) * 21, 100.0, 0.1)
    stored = [i for i in range(21) if not 8 <= i <= 13]
    holed = Series(
        0, "power", "GPU-0", "W", "gauge", tuple(whole.times[i] for i in stored), (300.0,) * len(stored)
    )
    assert series.integral(whole, Window(100.1, 101.9)) == pytest.approx(540.0)
    assert series.integral(holed, Window(100.1, 101.9)) is None
    assert series.integral(whole, Window(101.0, 101.0)) is None


# ---- power ---------------------------------------------------------------------


def sampled(ranks: int, *actual: Series, nodes: int = 1) -> tuple[Repeat, ...]:
    records = tuple(record(rank, node=rank % nodes) for rank in range(ranks))
    return (Repeat(0, records, actual),)


def test_device_energy_comes_from_the_counter() -> None:
    energy = [counter("energy", f"GPU-{i}", 300.0 + i, 99.0, 103.0, 0.1) for i in range(2)]
    power = [gauge("power", f"GPU-{i}", (1.0,) * 41, 99.0, 0.1) for i in range(2)]
    actual = summary(Power(), measured(sampled(2, *energy, *power)))
    assert actual["device-energy"].value == pytest.approx(601.0 * 2.0)
    assert actual["device-energy-per-sample"].value == pytest.approx(601.0 * 2.0 / 160)
    assert actual["device-power"].value == pytest.approx(601.0)
    assert "energy counter" in actual["device-energy"].note


def test_device_energy_without_a_counter_is_integrated_power() -> None:
    ramp = tuple(100.0 + 10 * i for i in range(41))
    actual = summary(Power(), measured(sampled(1, gauge("power", "GPU-0", ramp, 99.0, 0.1))))
    assert actual["device-energy"].value == pytest.approx(2.0 * (200 + 400) / 2)
    assert "integrated" in actual["device-energy"].note


def test_metric_missing_on_one_device_is_absent() -> None:
    energy = counter("energy", "GPU-0", 300.0, 99.0, 103.0, 0.1)
    assert summary(Power(), measured(sampled(2, energy))) == {}


def test_unsampled_metric_is_absent() -> None:
    assert Power().summarize(measured(repeats(3))) == ()


def test_the_same_device_name_on_another_node_is_another_device() -> None:
    records = tuple(record(rank, node=rank, replicas=(replica(rank, device="GPU-X"),)) for rank in range(2))
    energies = tuple(counter("energy", "GPU-X", 100.0 * (n + 1), 99.0, 103.0, 0.1, node=n) for n in range(2))
    actual = summary(Power(), measured((Repeat(0, records, energies),)))
    assert actual["device-power"].value == pytest.approx(300.0)


def test_host_energy_is_packages_and_memory_of_every_node() -> None:
    def node(number: int) -> list[Series]:
        zones = (("package-0", 100.0), ("package-1", 90.0), ("dram-0", 10.0))
        return [counter("energy", zone, rate, 99.0, 103.0, 0.1, number) for zone, rate in zones]

    whole = summary(Power(), measured(sampled(2, *node(0), *node(1), nodes=2)))
    assert whole["host-power"].value == pytest.approx(400.0)
    assert "device-energy" not in whole
    assert summary(Power(), measured(sampled(2, *node(0), nodes=2))) == {}
    # A node that only serves has no window; without it, the whole is not known.
    assert summary(Power(), measured(sampled(1, *node(0), *node(1)))) == {}


def test_host_utilization_is_the_busy_share_of_all_processors() -> None:
    rates = {"cpu-busy": 3.0, "cpu-idle": 0.5, "cpu-steal": 0.5}
    actual = summary(
        Power(),
        measured(
            sampled(1, *(counter(name, "host", rate, 99.0, 103.0, 0.1) for name, rate in rates.items()))
        ),
    )
    assert actual["host-utilization"].value == pytest.approx(75.0)
    assert actual["host-steal"].value == pytest.approx(12.5)


def test_utilization_clock_and_throttling_are_means_over_the_window() -> None:
    # Idle before the window, busy within: 100 to 102 is the window.
    busy = tuple(0.0 if i < 10 else 90.0 for i in range(41))
    slowed = tuple(1.0 if i >= 20 else 0.0 for i in range(41))
    case = sampled(
        1,
        gauge("utilization", "GPU-0", busy, 99.0, 0.1),
        gauge("clock", "GPU-0", (1980.0,) * 41, 99.0, 0.1),
        gauge("throttled", "GPU-0", slowed, 99.0, 0.1),
    )
    actual = summary(Power(), measured(case))
    assert actual["device-utilization"].value == pytest.approx(90.0)
    assert actual["device-clock"].value == pytest.approx(1980.0)
    assert actual["device-throttled"].value == pytest.approx(52.5, abs=1)


def test_one_repeat_without_samples_leaves_the_metric_out() -> None:
    energy = counter("energy", "GPU-0", 300.0, 99.0, 103.0, 0.1)
    case = (repeat(0, series=(energy,)), repeat(1))
    assert "device-energy" not in summary(Power(), measured(case))
    assert "device-energy" in summary(Power(), measured(case[:1]))
