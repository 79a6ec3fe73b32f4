"""Shares of the cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker.agent.affinity import (
    core_count,
    cpus_by_numa,
    parse_cpu_list,
    set_aside,
    share,
    thread_variables,
)

sizes = st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any)


def nodes(lengths: list[int]) -> dict[int, tuple[int, ...]]:
    """NUMA nodes with so many processors each."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return {
        i: tuple(range(start, start + n)) for i, (start, n) in enumerate(zip(starts, lengths, strict=True))
    }


def straddling(shares: list[tuple[int, ...]], lengths: list[int]) -> int:
    home = {cpu: node for node, cpus in nodes(lengths).items() for cpu in cpus}
    return sum(len({home[cpu] for cpu in cpus}) > 1 for cpus in shares)


@given(sizes, st.data())
def test_shares_hold_every_processor_once_and_are_fair(lengths: list[int], data: st.DataObject) -> None:
    total = sum(lengths)
    count = data.draw(st.integers(1, total))
    shares = [share(nodes(lengths), index, count) for index in range(count)]
    assert [cpu for cpus in shares for cpu in cpus] == list(range(total))
    assert {len(cpus) for cpus in shares} <= {total // count, -(-total // count)}


@given(sizes, st.data())
def test_no_share_straddles_two_nodes_if_a_fair_division_can_avoid_it(
    lengths: list[int], data: st.DataObject
) -> None:
    """Against trying all ways to cut each node into the two fair sizes."""
    total = sum(lengths)
    count = data.draw(st.integers(1, total))
    least, most = total // count, -(-total // count)
    reachable = {0}
    for n in (n for n in lengths if n):
        ways = {a + b for a in range(n + 1) for b in range(n + 1) if a * least + b * most == n}
        reachable = {before + here for before in reachable for here in ways}
    shares = [share(nodes(lengths), index, count) for index in range(count)]
    assert (straddling(shares, lengths) == 0) == (count in reachable)


@given(sizes, st.integers(1, 200))
def test_more_workers_than_processors_share_them_evenly(lengths: list[int], more: int) -> None:
    total = sum(lengths)
    count = total + more
    shares = [share(nodes(lengths), index, count) for index in range(count)]
    assert all(len(cpus) == 1 for cpus in shares)
    users = [shares.count((cpu,)) for cpu in range(total)]
    assert max(users) - min(users) <= 1


@pytest.mark.parametrize(
    ("lengths", "count", "expected"),
    [
        ([4, 4], 2, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ([4, 4], 4, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        ([4, 4], 3, [(0, 1), (2, 3, 4), (5, 6, 7)]),
        ([2, 2, 2, 2], 2, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ([5, 3], 3, [(0, 1), (2, 3, 4), (5, 6, 7)]),
        ([2], 1, [(0, 1)]),
        # Started one after another, they keep both busy from the first on.
        ([1, 1], 5, [(0,), (1,), (0,), (1,), (0,)]),
    ],
)
def test_examples(lengths: list[int], count: int, expected: list[tuple[int, ...]]) -> None:
    assert [share(nodes(lengths), index, count) for index in range(count)] == expected


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_a_worker_that_does_not_exist_has_no_share(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="no worker"):
        share({0: (0, 1)}, index, count)
    with pytest.raises(ValueError, match="no worker"):
        share({0: ()}, 0, 1)


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_are_read_as_the_kernel_writes_them(cpus: set[int]) -> None:
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    text = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
    assert parse_cpu_list(text + "\n") == cpus


def tree(root: Path, per_node: dict[int, str], siblings: dict[int, str]) -> str:
    for node, cpus in per_node.items():
        folder = root / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    for cpu, text in siblings.items():
        folder = root / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    return str(root)


def test_hardware_threads_of_one_core_are_neighbors(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, counted as Linux does: the second threads come last."""
    pairs = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    root = tree(tmp_path, {0: "0-1,4-5", 1: "2-3,6-7"}, pairs)
    actual = cpus_by_numa(root, range(8))
    assert actual == {0: (0, 4, 1, 5), 1: (2, 6, 3, 7)}
    for index in range(4):
        assert core_count(share(actual, index, 4), root) == 1
    assert core_count(range(8), root) == 4


def test_only_allowed_processors_are_shared(tmp_path: Path) -> None:
    root = tree(tmp_path, {0: "0-3", 1: "4-7"}, {})
    assert cpus_by_numa(root, [2, 3, 4, 9]) == {0: (2, 3, 9), 1: (4,)}
    assert cpus_by_numa(root, [5]) == {1: (5,)}


def test_without_nodes_everything_is_on_one(tmp_path: Path) -> None:
    assert cpus_by_numa(str(tmp_path), [3, 1]) == {0: (1, 3)}


def test_this_machine() -> None:
    actual = cpus_by_numa()
    assert {cpu for cpus in actual.values() for cpu in cpus} == os.sched_getaffinity(0)


def test_thread_variables() -> None:
    assert thread_variables(3) == {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "PASSIVE"}
    assert thread_variables(0)["OMP_NUM_THREADS"] == "1"


@given(st.integers(1, 16), st.integers(0, 8), st.integers(1, 2))
def test_a_share_is_divided_by_cores_or_used_by_all(cores: int, helpers: int, threads: int) -> None:
    cpus = tuple(range(cores * threads))

    def core(root: str, cpu: int) -> int:
        return cpu // threads

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dlperf_sdk.worker.agent.affinity._core", core)
        own, others = set_aside(cpus, helpers)
    assert len(others) == helpers
    if helpers < cores:
        assert sorted([*own, *(cpu for each in others for cpu in each)]) == list(cpus)
        assert all(len(each) == threads for each in others)
    else:
        assert {own, *others} == {cpus}
