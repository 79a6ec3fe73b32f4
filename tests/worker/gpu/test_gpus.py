"""Which GPUs there are, who holds them, and which are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvml_library import FIRST, SECOND, FakeNvml, compiled, nvml  # noqa: F401

from dlperf_sdk.worker.gpu import gpus
from dlperf_sdk.worker.gpu.gpus import Choice, Gpu, Holder, choose, holders, list_gpus, visible


def made(count: int) -> list[Gpu]:
    return [
        Gpu(i, f"GPU-{i:08x}-0000", "NVIDIA H200", 2**37, "570", f"0000:{i:02x}:00.0", 0)
        for i in range(count)
    ]


FOUR = made(4)
UUIDS = tuple(gpu.uuid for gpu in FOUR)


def test_all_fields_come_from_the_driver(nvml: FakeNvml, tmp_path: Path) -> None:
    slot = tmp_path / "bus/pci/devices/0000:3c:00.0"
    slot.mkdir(parents=True)
    (slot / "numa_node").write_text("1\n")
    first, second = list_gpus(nvml.path, str(tmp_path))
    assert first == Gpu(0, FIRST, "NVIDIA H200", 150754820096, "570.86.15", "0000:3b:00.0", None)
    assert second == Gpu(1, SECOND, "NVIDIA H200", 150754820096, "570.86.15", "0000:3c:00.0", 1)
    assert "numa" not in gpus.describe(first)
    assert gpus.describe(second)["numa"] == 1
    (slot / "numa_node").write_text("-1\n")
    assert list_gpus(nvml.path, str(tmp_path))[1].numa is None


def test_hidden_and_lost_gpus_are_left_out(nvml: FakeNvml) -> None:
    nvml.set("fake_forbidden", 0)
    assert [gpu.uuid for gpu in list_gpus(nvml.path)] == [SECOND]
    nvml.set("fake_lost", 1)
    assert list_gpus(nvml.path) == []


@pytest.mark.parametrize("path", ["libno-such-library.so.1", "/dev/null"])
def test_no_gpus_without_a_driver(path: str) -> None:
    assert list_gpus(path) == []
    assert holders(FIRST, path) == []


def test_unloaded_driver_counts_as_missing(tmp_path: Path) -> None:
    assert list_gpus(compiled(tmp_path, "-DBROKEN")) == []


def test_old_driver_gives_the_fields_it_has(tmp_path: Path) -> None:
    old = compiled(tmp_path, "-DOLD")
    assert [gpu.memory for gpu in list_gpus(old)] == [150754820096] * 2


@pytest.mark.parametrize("count", [1, 2, 32, 33, 150])
def test_holders_are_named(nvml: FakeNvml, tmp_path: Path, count: int) -> None:
    (tmp_path / "4000").mkdir()
    (tmp_path / "4000" / "comm").write_text("python3\n")
    nvml.hold(1, count, 3 * 2**30)
    actual = holders(SECOND, nvml.path, str(tmp_path))
    assert len(actual) == count
    assert actual[0] == Holder(4000, "python3", 3 * 2**30)
    assert all(holder == Holder(4001, "of another user or container", None) for holder in actual[1:2])
    assert holders(FIRST, nvml.path, str(tmp_path)) == []


def test_memory_without_a_visible_process_has_an_unknown_holder(nvml: FakeNvml) -> None:
    nvml.hold(0, 0, 40 * 2**30)
    (actual,) = holders(FIRST, nvml.path)
    assert actual.pid == 0 and actual.bytes == 40 * 2**30
    nvml.hold(0, 0, 2**20)
    assert holders(FIRST, nvml.path) == []
    assert holders("GPU-unknown", nvml.path) == []


def test_survey_joins_all_of_it(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml.hold(0, 1, 2**30)
    assert gpus.survey(1, "refuse", nvml.path) == Choice((SECOND,), False, "")
    refused = gpus.survey(2, "refuse", nvml.path)
    assert refused.uuids == () and refused.busy
    assert "process 4000" in refused.message and FIRST in refused.message and "1.0 GiB" in refused.message
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpus.survey(1, "note", nvml.path).uuids == (FIRST,)


# ---- CUDA_VISIBLE_DEVICES --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "left"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("1,9,2", [1]),
        ("-1", []),
        ("0,0", [0]),
        ("NoDevFiles", []),
        (UUIDS[2], [2]),
        ("GPU-00000003", [3]),
        ("GPU-0000000", []),  # fits four: ambiguous
        ("²", []),
        ("GPU-00000001,2", [1, 2]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(variable: str | None, left: list[int]) -> None:
    assert [gpu.number for gpu in visible(FOUR, variable)] == left


@given(st.text(max_size=30))
def test_no_content_of_the_variable_is_an_error(variable: str) -> None:
    chosen = visible(FOUR, variable)
    assert len(set(chosen)) == len(chosen)


# ---- choosing --------------------------------------------------------------------------------

busy = st.dictionaries(st.sampled_from(UUIDS), st.just([Holder(7, "python", 2**30)]))


@given(st.integers(1, 6), busy, st.sampled_from(["wait", "note", "refuse"]))
def test_a_choice_is_all_or_nothing_and_prefers_idle_gpus(
    count: int, held: dict[str, list[Holder]], on_busy: str
) -> None:
    choice = choose(count, FOUR, held, on_busy)
    idle = len(FOUR) - len(held)
    assert len(choice.uuids) == len(set(choice.uuids)) and len(choice.uuids) in (0, count)
    assert set(choice.uuids) <= set(UUIDS)
    if idle >= count:
        assert not set(choice.uuids) & set(held) and choice.message == "" and not choice.busy
        assert choice.uuids
    elif count > len(FOUR):
        assert choice == Choice((), False, f"{count} GPUs are asked for, but this node has 4.")
    else:
        assert choice.busy and all(uuid in choice.message for uuid in held)
        assert bool(choice.uuids) == (on_busy == "note")


def test_least_used_gpu_is_taken_if_none_is_idle() -> None:
    held = {
        UUIDS[0]: [Holder(1, "a", None)],
        UUIDS[1]: [Holder(2, "b", 5)],
        UUIDS[2]: [Holder(3, "c", 3), Holder(4, "d", 1)],
        UUIDS[3]: [Holder(5, "e", 4 * 2**30)],
    }
    assert choose(2, FOUR, held, "note").uuids == (UUIDS[1], UUIDS[2])
    assert choose(3, FOUR, held, "note").uuids == UUIDS[1:]


def test_messages_read_well() -> None:
    held = {UUIDS[0]: [Holder(4242, "python3", 3 * 2**29)]}
    assert choose(1, FOUR[:1], held, "refuse").message == (
        "1 GPU is asked for, 0 idle. GPU 0 (NVIDIA H200, GPU-00000000-0000) is held by "
        "process 4242 (python3) with 1.5 GiB."
    )
    assert choose(2, FOUR, {}, "wait", "3").message == (
        "2 GPUs are asked for, but CUDA_VISIBLE_DEVICES=3 leaves 1."
    )


def test_this_machine_answers() -> None:
    """With a driver or without one: nothing is raised, and no GPU is named twice."""
    gpus = list_gpus()
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)
    for gpu in gpus:
        assert all(holder.name for holder in holders(gpu.uuid))
