"""Histories from a store: which runs are one case, in which order, and what differs at a change."""

import attrs
import pytest
from result_samples import a_result, fact

from dlperf_sdk.analysis import history as module
from dlperf_sdk.analysis.history import load_histories
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.index import Index
from dlperf_sdk.results.result import Verdict
from dlperf_sdk.results.store import ResultStore

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")


def put(store, number, value, version="2.4", fields=None, **changes):
    """Write a run of day `number` with a throughput, a version of the framework and the label `commit`."""
    fields = {"labels": {"commit": f"c{number // 2}"}, **(fields or {})}
    result = a_result(
        id=f"202501{number + 1:02}T000000Z-run-{number:06}",
        fields=fields,
        started_at=f"2025-01-{number + 1:02}T00:00:00+00:00",
        metrics=(Metric("throughput", "img/s", value, value - 1, value + 1, (value,) * 7, "samples"),),
        **changes,
    )
    result = attrs.evolve(result, facts=(*result.facts, fact("framework_version", "context", version)))
    store.open_run(result.id).write_result(result)
    return result


def test_a_change_names_the_versions_and_labels_that_differ(store):
    for number in range(20):
        slow = number >= 10
        put(store, number, (90.0 if slow else 100.0) + 0.1 * (number % 3), "2.5" if slow else "2.4")
    (history,) = load_histories(Index(store))
    (change,) = history.changes
    assert change.before.id.endswith("000009")
    assert change.after.id.endswith("000010")
    assert change.ratio == pytest.approx(0.9, abs=0.002)
    assert change.percent == "−10.0 %"
    assert change.differences == ("framework_version 2.4 → 2.5", "commit c4 → c5")
    assert [len(level.runs) for level in history.levels] == [10, 10]
    assert history.unit == "img/s"
    assert history.hardware == "EPYC, 2 processors"


def test_labels_and_repeats_make_no_other_case_but_hardware_and_settings_do(store):
    put(store, 0, 100.0)
    put(store, 1, 100.0, fields={"labels": {"commit": "x", "branch": "main"}, "repeats": 3})
    put(store, 2, 100.0, fields={"precision": "tf32"})
    put(store, 3, 100.0, hardware=({"cpu": {"model": "Xeon", "usable": 2}},))
    put(store, 4, 100.0, fields={"steps": 7})
    histories = load_histories(Index(store))
    assert sorted(len(history.runs) for history in histories) == [1, 1, 1, 2]
    assert len({history.key for history in histories}) == 4


def test_invalid_runs_are_listed_and_no_part_of_a_level(store):
    for number in range(12):
        put(store, number, 100.0 + number % 3)
    failed = Verdict("replicas-equal", "integrity", "fail", "Replicas differ.")
    put(store, 12, 1.0, verdicts=(failed,))
    put(store, 13, float("nan"))
    (history,) = load_histories(Index(store))
    assert [run.problem for run in history.runs[-2:]] == ["replicas-equal", "no valid throughput"]
    assert len(history.valid) == 12
    assert len(history.levels) == 1
    assert history.newest.throughput is None


def test_the_order_of_versions_and_labels(store):
    for number, (version, commit) in enumerate([("2.10", "b"), ("2.9", "a"), ("2.10", "b"), ("odd", "a")]):
        put(store, number, 100.0, version, fields={"labels": {"commit": commit}})
    put(store, 9, 100.0, fields={"labels": {}})
    (by_version,) = load_histories(Index(store), "framework_version")
    assert [run.value("framework_version") for run in by_version.runs] == [
        "odd",
        "2.4",
        "2.9",
        "2.10",
        "2.10",
    ]
    (by_commit,) = load_histories(Index(store), "commit")
    assert [run.value("commit") for run in by_commit.runs] == ["b", "b", "a", "a"]
    assert by_commit.omitted == 1
    with pytest.raises(UnknownName, match="commit"):
        load_histories(Index(store), "comit")


def test_a_history_has_the_newest_runs(store, monkeypatch):
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    for number in range(5):
        put(store, number, 100.0)
    (history,) = load_histories(Index(store))
    assert [run.day for run in history.runs] == ["2025-01-03", "2025-01-04", "2025-01-05"]
    assert history.omitted == 2


def test_a_run_that_failed_early_belongs_to_the_only_hardware_of_its_case(store):
    put(store, 0, 100.0)
    put(store, 1, 100.0, hardware=(), verdicts=(Verdict("replicas-equal", "integrity", "fail", ""),))
    (history,) = load_histories(Index(store))
    assert len(history.runs) == 2
