"""`--batch-size max`: found with few probes, each in fresh processes, and remembered."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processes import processes_with

from dlperf_sdk import Matrix, RunSpec, campaign, dry_run, hookimpl, run
from dlperf_sdk.errors import SpecError
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.max_batch import budget, cache, resolve
from dlperf_sdk.max_batch.resolve import MAX_BATCH, RESERVE, cache_key, describe_search
from dlperf_sdk.max_batch.search import MAX_PROBES, Probe, SearchResult, find_max_batch, resolution
from dlperf_sdk.registry.plugins import Registry

MEBI = 2**20
SMALL = {"canonical_steps": 2, "warmup": 1, "steps": 3, "repeats": 1}
LIMIT = 600 * MEBI
"""Bytes for one process: enough for a Python with NumPy and its threads, and for some hundred samples of 2 MiB."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


# -- the search


@given(
    st.integers(0, 5000),
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.sampled_from(["exact", "none", "flat", "lying"]),
)
@example(1, 1, 0, "exact")
@example(64, 1000, 10**6, "lying")
def test_found_batch_fits_and_the_next_larger_does_not(limit, slope, base, model):
    """Whatever the memory model says: it only ever decides what is tried next."""
    peaks = {
        "exact": lambda size: base + slope * size,
        "none": lambda size: None,
        "flat": lambda size: base,
        "lying": lambda size: base + slope * (size % 7) ** 2,
    }[model]
    tried = []

    def probe(size):
        assert 1 <= size <= 4096
        tried.append(size)
        return Probe(size, size <= limit, peaks(size) if size <= limit else None)

    max_batch = find_max_batch(probe, base + slope * limit, 4096)
    assert len(set(tried)) <= MAX_PROBES
    if max_batch.size is not None and max_batch.size > 1:
        assert tried.pop() == max_batch.size  # it fitted, and fits again
    assert len(tried) == len(set(tried))
    if limit == 0:
        assert max_batch.size is None
    elif max_batch.exact:
        assert max_batch.size <= limit
        assert (
            max_batch.size == 4096
            or max_batch.size + resolution(max_batch.size) > min(limit, 4096)
            or (any(max_batch.size < item <= max_batch.size + resolution(max_batch.size) for item in tried))
        )
    if model == "exact" and limit:
        assert max_batch.exact
        assert len(tried) <= 5
    if model != "lying" and limit:
        assert max_batch.exact


def test_batch_that_fits_only_once_is_not_the_largest():
    tried = []

    def probe(size):
        tried.append(size)
        return Probe(size, size <= 60 and (size <= 57 or tried.count(size) == 1), 500 + 10 * size)

    max_batch = find_max_batch(probe, 500 + 600, 1000)
    assert max_batch.size <= 59
    assert tried[-1] == max_batch.size
    assert not probe(60).fits


def test_a_good_model_needs_four_probes_and_one_to_be_sure():
    tried = []

    def probe(size):
        tried.append(size)
        return Probe(size, size <= 777, 500 + 10 * size)

    assert find_max_batch(probe, 500 + 7770, 10**6).size == 777
    assert tried[:3] == [1, 16, 777]
    assert len(tried) == 5
    assert tried[-1] == 777


def test_few_probes_also_where_memory_is_as_a_framework_takes_it():
    """Bytes as torch 2.13 took them on two processes of a CPU: building ResNet-50 needs more than the first samples,
    and a size differs by some 4 MiB from one process to the next, which is half a sample."""
    chance, most = random.Random(1), 0
    for _ in range(200):

        def probe(size):
            peak = max(647.0, 626 + 8.47 * size) + chance.uniform(-4, 4)
            return Probe(size, peak <= 1144, int(peak * MEBI) if peak <= 1144 else None)

        max_batch = find_max_batch(probe, 1144 * MEBI, 2**20)
        assert 59 <= max_batch.size <= 61
        most = max(most, len(max_batch.probes))
        assert len(max_batch.probes) <= 11
    assert most >= 6  # it is no easier than it looks


@given(st.integers(1, 3000), st.integers(1, 400), st.integers(0, 400), st.integers(0, 2**32))
def test_noise_costs_probes_and_never_the_bounds(base, slope, noise, seed):
    chance, budget = random.Random(seed), 400_000

    def probe(size):
        peak = base + slope * size + chance.randint(-noise, noise)
        return Probe(size, peak <= budget, max(peak, 1) if peak <= budget else None)

    max_batch = find_max_batch(probe, budget, 2**20)
    assert len(max_batch.probes) <= MAX_PROBES + 12
    assert max_batch.size is not None
    assert base + slope * max_batch.size - noise <= budget
    beyond = max_batch.size + resolution(max_batch.size) * 8 + 2 * noise // slope + 2
    assert base + slope * beyond + noise > budget


# -- the field


def test_end_of_the_search_is_distinguished_from_the_memory_limit():
    ends = find_max_batch(lambda size: Probe(size, True, size), None, MAX_BATCH)
    assert "not the memory" in describe_search(ends, 1)
    assert "not the memory" not in describe_search(
        find_max_batch(lambda size: Probe(size, size < 100, size), None, MAX_BATCH), 1
    )


@pytest.mark.parametrize("value", ["maximum", "", 0, -1, 1.5, True, None])
def test_only_max_is_a_text(value):
    with pytest.raises(SpecError, match=r"or max\."):
        RunSpec(framework="numpy", model="linear", batch_size=value)


def test_a_plan_needs_a_number():
    spec = RunSpec(framework="numpy", model="linear", batch_size="max")
    assert spec.wants_max_batch
    assert RunSpec.from_dict(spec.to_dict()) == spec
    with pytest.raises(SpecError, match="found by measuring"):
        dry_run(spec)


# -- for real, under a limit that cannot hurt the machine


class Listener:
    def __init__(self):
        self.tried = []

    @hookimpl
    def dlperf_stage(self, stage, detail):
        if stage == "batch-size":
            self.tried.append(detail)


def measured(listener=None, **fields):
    fields = {"options": {"sample_bytes": 2 * MEBI}, "memory_limit": LIMIT, **SMALL, **fields}
    return run("faulty", "linear", store=None, observers=[listener] if listener else [], **fields)


@pytest.mark.long
def test_largest_batch_is_found_with_few_probes_and_cached():
    listener = Listener()
    result = measured(listener, batch_size="max")
    assert result.ok, result.failure
    actual = result.spec.batch_size
    assert 100 < actual < 300
    assert len(listener.tried) <= 6
    assert any(f"batch_size max is {actual}" in note for note in result.notes)
    beyond = measured(batch_size=actual + 2 * resolution(actual) + 2 + LIMIT // RESERVE // (2 * MEBI))
    assert beyond.status == "out-of-memory"
    again = Listener()
    assert measured(again, batch_size="max").spec.batch_size == actual
    assert again.tried == []
    other = Listener()
    smaller = measured(other, batch_size="max", memory_limit=LIMIT - 100 * MEBI)
    assert other.tried
    assert actual - smaller.spec.batch_size == pytest.approx(50, abs=8)
    assert not processes_with(result.id)


@pytest.mark.long
def test_under_data_parallel_each_process_has_its_limit():
    """And it is searched for anew: what fits beside a neighbor need not be what fits alone."""
    listener = Listener()
    result = measured(listener, batch_size="max", topology="1n2d")
    assert result.ok, result.failure
    assert 100 < result.spec.batch_size < 300
    assert 3 <= len(listener.tried) <= 6


def test_result_reports_that_nothing_fits():
    result = measured(batch_size="max", options={"sample_bytes": LIMIT})
    assert (result.status, result.exit_code) == ("out-of-memory", 4)
    assert "Not even a batch of 1 fits" in result.failure.message


def test_a_probe_that_fails_otherwise_ends_the_search():
    result = measured(batch_size="max", options={"fault": "exception"})
    assert result.status == "crashed"
    assert any("failed for another reason than memory" in note for note in result.notes)
    assert run("numpy", "linear", batch_size="max", precision="amp-bf16", store=None).status == "unsupported"


@pytest.mark.long
def test_campaign_searches_once_and_reuses_the_batch_size(tmp_path):
    fields = {**SMALL, "repeats": 2, "memory_limit": LIMIT, "options": {"sample_bytes": 2 * MEBI}}
    matrix = Matrix(fields={**fields, "model": "linear", "batch_size": "max"}, axes={"framework": ["faulty"]})
    outcome = campaign(matrix, tmp_path / "it")
    assert outcome.exit_code == 0
    (result,) = outcome.results()
    assert len(result.repeats) == 2
    assert result.spec.batch_size > 100
    assert any("batch_size max is" in note for note in result.notes)


def test_cached_size_of_another_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("HERE", "secret")
    environments = (
        {},
        {"container": "podman:torch:2.12"},
        {"container": "podman:torch:2.13"},
        {"container": "podman:torch:2.13", "container_mounts": "/opt/libraries"},
        {"container": "podman:torch:2.13", "container_devices": "/dev/kfd"},
        {"env": {"MALLOC_ARENA_MAX": "1"}},
        {"env": {"MALLOC_ARENA_MAX": "2"}},
        {"env": {"HERE": None}},
    )
    keys = [json.dumps(cache_key(dry_run("numpy", "linear", **fields), None)) for fields in environments]
    assert len(set(keys)) == len(environments)
    assert not any("secret" in key for key in keys)
    monkeypatch.setenv("HERE", "another")
    assert json.dumps(cache_key(dry_run("numpy", "linear", env={"HERE": None}), None)) not in keys


def test_damaged_cache_is_ignored():
    key = {"device": "cpu"}
    assert cache.read(key) is None
    cache.write(key, 12, 4)
    assert cache.read(key)["size"] == 12
    (path,) = cache.directory().iterdir()
    assert path.stat().st_mode & 0o077 == 0
    for damaged in (
        {"size": "huge"},
        {"key": key, "size": 12},
        {"key": key, "size": True, "probes": 4},
        {"key": key, "size": 12, "probes": "4"},
    ):
        path.write_text(json.dumps(damaged))
        assert cache.read(key) is None


def test_an_impossible_size_in_the_cache_is_searched_for_again(monkeypatch):
    """Else the case would fail until the entry is removed by hand."""
    searches = []

    def search(*arguments):
        searches.append(arguments)
        return SearchResult(3, (), True)

    monkeypatch.setattr(resolve, "find_max_batch", search)
    monkeypatch.setattr(budget, "process_memory", lambda plan: None)
    spec = RunSpec(framework="numpy", model="linear", batch_size="max")
    key = cache_key(dry_run("numpy", "linear", batch_size=1), None)
    for size, found, count in ((MAX_BATCH + 1, 3, 1), (10**300, 3, 2), (MAX_BATCH, MAX_BATCH, 2)):
        cache.write(key, size, 4)
        assert resolve.resolve_max_batch(spec, Observers({}), Registry())[0].batch_size == found
        assert len(searches) == count


def test_released_memory_of_a_step_counts():
    """The limit holds at the peak; what is allocated when the window has ended says little about it."""
    script = (
        "import mmap; from dlperf_sdk.worker import memory; before = memory.facts(1)['allocated_memory']; "
        "taken = mmap.mmap(-1, 300 * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); taken.close(); "
        "print(memory.facts(1)['allocated_memory'] - before, memory.facts(None))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown, none = answer.stdout.split(maxsplit=1)
    assert int(grown) == pytest.approx(300 * MEBI, abs=16 * MEBI)
    assert none.strip() == "{}"


def test_an_rlimit_bounds_the_search():
    """In a process of its own, so that the limit cannot touch this one."""
    script = (
        "import resource; from dlperf_sdk.max_batch import budget; "
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, resource.getrlimit(resource.RLIMIT_AS)[1])); "
        "print(budget.host_memory(1))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(answer.stdout) <= 3 * 2**30
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    assert budget.host_memory(2) <= budget.host_memory(1)
