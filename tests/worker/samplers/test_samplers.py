"""What agents sample: NVML through a compiled stand-in, RAPL and /proc through trees of files."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvml_library import FIRST, SECOND, FakeNvml, compiled, nvml  # noqa: F401

from dlperf_sdk.worker.agent.sampling import Sampling
from dlperf_sdk.worker.samplers import host, rapl
from dlperf_sdk.worker.samplers.nvml import Sampler as NvmlSampler

# ---- NVML ------------------------------------------------------------------------------------


def test_every_quantity_of_a_gpu_in_its_unit(nvml: FakeNvml) -> None:
    nvml.hold(1, 1, 12345)
    sampler = NvmlSampler((SECOND,), nvml.path)
    assert sampler.open()
    assert sampler.sample() == [
        ("energy", SECOND, "J", "counter", 5000.001),
        ("power", SECOND, "W", "gauge", 654.321),
        ("utilization", SECOND, "%", "gauge", 97.0),
        ("memory", SECOND, "B", "gauge", 12345.0),
        ("clock", SECOND, "MHz", "gauge", 1980.0),
        ("temperature", SECOND, "C", "gauge", 67.0),
        ("throttled", SECOND, "1", "gauge", 0.0),
        ("power-capped", SECOND, "1", "gauge", 0.0),
        ("processes", SECOND, "1", "gauge", 1.0),
    ]
    sampler.close()
    assert sampler.sample() == []


@pytest.mark.parametrize(
    ("reasons", "throttled", "capped"),
    [(0x1, 0, 0), (0x4, 0, 1), (0x8, 1, 0), (0x20, 1, 0), (0x44, 1, 1), (0x80, 1, 0), (0x100, 0, 0)],
)
def test_throttle_reasons(nvml: FakeNvml, reasons: int, throttled: int, capped: int) -> None:
    nvml.set("fake_reasons", reasons)
    sampler = NvmlSampler((FIRST,), nvml.path)
    sampler.open()
    values = {name: value for name, _, _, _, value in sampler.sample()}
    sampler.close()
    assert (values["throttled"], values["power-capped"]) == (throttled, capped)


def test_the_energy_counter_is_wider_than_32_bits(nvml: FakeNvml) -> None:
    nvml.set("fake_energy", 10**13)
    sampler = NvmlSampler((FIRST,), nvml.path)
    sampler.open()
    assert sampler.sample()[0][4] == 10**10
    sampler.close()


def test_lost_gpu_gives_no_samples_and_the_other_continues(nvml: FakeNvml) -> None:
    sampler = NvmlSampler((FIRST, SECOND), nvml.path)
    assert sampler.open()
    assert {device for _, device, *_ in sampler.sample()} == {FIRST, SECOND}
    nvml.set("fake_lost", 0)
    assert {device for _, device, *_ in sampler.sample()} == {SECOND}
    sampler.close()


def test_fields_that_an_old_driver_lacks_are_absent(tmp_path: Path) -> None:
    sampler = NvmlSampler((FIRST,), compiled(tmp_path, "-DOLD"))
    assert sampler.open()
    names = [name for name, *_ in sampler.sample()]
    assert "energy" not in names
    assert "power" in names and "memory" in names
    sampler.close()


def test_nothing_is_sampled_without_a_gpu_or_a_driver(nvml: FakeNvml, tmp_path: Path) -> None:
    assert not NvmlSampler(("cpu:0",), nvml.path).open()
    assert not NvmlSampler(("GPU-unknown",), nvml.path).open()
    assert not NvmlSampler((FIRST,), "libno-such-library.so.1").open()
    assert not NvmlSampler((FIRST,), compiled(tmp_path, "-DBROKEN")).open()


# ---- RAPL ------------------------------------------------------------------------------------


def zone(root: Path, place: str, name: str, energy: int, span: int = 262143328850) -> Path:
    folder = root / "class/powercap" / place
    folder.mkdir(parents=True)
    (folder / "name").write_text(name + "\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    (folder / "max_energy_range_uj").write_text(f"{span}\n")
    return folder


def test_packages_and_memory_are_sampled_and_their_parts_are_not(tmp_path: Path) -> None:
    for place, name in [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:1:0", "dram"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl-mmio:0", "package-0"),
    ]:
        zone(tmp_path, place, name, 1000)
    sampler = rapl.Sampler(("cpu:0",), str(tmp_path))
    assert sampler.open()
    assert [(name, device, unit, kind) for name, device, unit, kind, _ in sampler.sample()] == [
        ("energy", device, "J", "counter") for device in ("dram-0", "dram-1", "package-0", "package-1")
    ]


def test_dies_with_equal_names_are_separate(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    zone(tmp_path, "intel-rapl:1", "package-0", 1)
    sampler = rapl.Sampler((), str(tmp_path))
    sampler.open()
    assert [device for _, device, *_ in sampler.sample()] == ["package-0", "package-0-1"]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20), st.integers(0, 999))
def test_the_counter_never_falls_though_the_register_wraps(
    tmp_path_factory: pytest.TempPathFactory, growths: list[int], start: int
) -> None:
    folder = zone(tmp_path_factory.mktemp("sys"), "intel-rapl:0", "package-0", start, span=1000)
    sampler = rapl.Sampler((), str(folder.parent.parent.parent))
    sampler.open()
    register, whole = start, 0
    for growth in growths:
        register, whole = (register + growth) % 1000, whole + growth
        (folder / "energy_uj").write_text(str(register))
        assert sampler.sample()[0][4] == pytest.approx(whole / 1e6)


def test_a_zone_that_cannot_be_read_is_not_sampled(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 1)
    sampler = rapl.Sampler((), str(tmp_path))
    assert sampler.open()
    (folder / "energy_uj").write_text("no number\n")
    assert sampler.sample() == []
    (folder / "energy_uj").unlink()
    assert sampler.sample() == []
    assert not rapl.Sampler((), str(tmp_path)).open()
    assert not rapl.Sampler((), str(tmp_path / "nowhere")).open()


# ---- host ------------------------------------------------------------------------------------

STAT = "cpu  1000 200 300 8000 400 50 60 70 900 10\ncpu0 1 2 3\nintr 1\n"


def proc(root: Path, **files: str) -> str:
    for name, content in files.items():
        (root / name).write_text(content)
    return str(root)


def test_host_quantities(tmp_path: Path) -> None:
    meminfo = "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:   6000 kB\n"
    root = proc(tmp_path, stat=STAT, loadavg="1.50 1.00 0.50 2/300 999\n", meminfo=meminfo)
    sampler = host.Sampler((), root, ticks=100)
    assert sampler.open()
    # Guest time (900 and 10) is contained in user and nice time, and is not counted again.
    assert sampler.sample() == [
        ("cpu-busy", "host", "s", "counter", pytest.approx(16.1)),
        ("cpu-idle", "host", "s", "counter", pytest.approx(84.0)),
        ("cpu-steal", "host", "s", "counter", pytest.approx(0.7)),
        ("load", "host", "1", "gauge", 1.5),
        ("memory", "host", "B", "gauge", 10000 * 1024.0),
    ]


@pytest.mark.parametrize("broken", ["", "cpu 1 2\n", "cpu a b c d e f g h\n", "nonsense\n", "\x00\xff"])
def test_broken_sensors_are_absent_and_others_are_read(tmp_path: Path, broken: str) -> None:
    root = proc(tmp_path, stat=broken, loadavg="0.25 0 0\n", meminfo=broken)
    assert host.Sampler((), root).sample() == [("load", "host", "1", "gauge", 0.25)]


def test_nothing_there_nothing_sampled(tmp_path: Path) -> None:
    assert not host.Sampler((), str(tmp_path)).open()


def test_this_machines_busy_time_grows_when_it_works() -> None:
    sampler = host.Sampler(())
    before = {name: value for name, _, _, _, value in sampler.sample()}
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = {name: value for name, _, _, _, value in sampler.sample()}
    # Time is counted in ticks of a hundredth of a second, per processor.
    assert after["cpu-busy"] - before["cpu-busy"] >= 0.2 - 0.02 * (os.cpu_count() or 1)


# ---- what becomes of the samples ---------------------------------------------------------------


class Faltering:
    """A sampler whose quantity cannot be measured now and then."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._values = iter((1.0, math.nan, None, math.inf, 2.0))

    def open(self) -> bool:
        return True

    def sample(self) -> list[tuple[str, str, str, str, float]]:
        return [("power", "host", "W", "gauge", next(self._values))]

    def close(self) -> None:
        pass


def test_sample_that_is_not_a_number_is_absent() -> None:
    sampling = Sampling([f"{__name__}:Faltering"], ("cpu:0",), 0)
    for look in range(4):
        sampling.sample_if_due(look)
    power, _ = sampling.close()
    assert power["values"] == [1.0, 2.0]
    assert len(power["times"]) == 2
