"""A result that was edited by hand fools neither `validate` nor `report`."""

import json
import shutil

import attrs
import pytest
import record_samples
from cli_fixtures import dlperf, isolated_directory  # noqa: F401 - fixtures
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.api import run
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import labels, result_page, results_table, terminal
from dlperf_sdk.results import metrics
from dlperf_sdk.results.consistency import check_directory, list_contradictions, list_own_contradictions
from dlperf_sdk.results.result import Imported, Result, Source, Verdict
from dlperf_sdk.results.store import ResultStore


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run's directory, by a real run."""
    store = tmp_path_factory.mktemp("store")
    result = run("numpy", "linear", batch_size=4, warmup=1, steps=5, repeats=2, store=store)
    assert result.ok
    return store / result.id


@pytest.fixture
def directory(measured, tmp_path):
    copy = tmp_path / "store" / measured.name
    shutil.copytree(measured, copy)
    return copy


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def checked(directory):
    return check_directory(directory, Registry().measurers())


def test_unedited_result_matches_its_records(directory):
    assert checked(directory) == ()
    assert list_contradictions(ResultStore(directory.parent).load(directory)) == ()


def test_a_result_of_a_time_before_a_verdict_is_as_its_records_say(directory):
    def older(document):
        document["verdicts"] = [item for item in document["verdicts"] if item["name"] != "as-requested"]

    edit(directory / "result.json", older)
    assert checked(directory) == ()
    assert list_contradictions(ResultStore(directory.parent).load(directory)) == ()


def metric(document, name):
    return next(item for item in document["metrics"] if item["name"] == name)


def faster(document):
    actual = metric(document, "throughput")
    actual["value"] *= 2
    actual["repeats"] = [2 * value for value in actual["repeats"]]


def passes(document):
    for verdict in document["verdicts"]:
        if verdict["name"] == "steady-state":
            verdict["outcome"] = "pass" if verdict["outcome"] != "pass" else "fail"


def shorter_windows(document):
    """In a document that holds its records itself."""
    faster(document)
    for repeat in document["repeats"]:
        for record in repeat["records"]:
            window = record["window"]
            window["end"] = window["start"] + (window["end"] - window["start"]) / 2


def one_repeat_less(document):
    document["repeats"].pop()


def another_batch(document):
    document["spec"]["batch_size"] = 8


def another_lock(document):
    document["environment"]["lock"] = "torch==99\n"


def another_workload(document):
    document["workload"]["parameters"] += 1


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (faster, "but the records give"),
        (
            lambda document: metric(document, "throughput").update(value=1e9),
            "throughput is 1000000000.0, but its repeats give",
        ),
        (
            lambda document: metric(document, "throughput").update(unit="img/s"),
            "throughput is in img/s, but the records",
        ),
        (
            lambda document: metric(document, "peak-host-memory").update(value=1.0, repeats=[]),
            "peak-host-memory is 1.0",
        ),
        (passes, "steady-state is"),
        (one_repeat_less, "Attempt 2 finished, but is not in the result."),
        (
            lambda document: document["repeats"].append(document["repeats"][0]),
            "Attempt 1 is in the result more than once",
        ),
        (
            lambda document: document["repeats"].__setitem__(0, 7),
            "Attempt 7 is in the result, but not among",
        ),
        (lambda document: document["repeats"].clear(), "Attempt 1 finished, but is not in the result."),
        (another_batch, "spec.json is another than the result's: batch_size: 4 is now 8"),
        (another_lock, "environment.json is another than the result's: lock: "),
        (another_workload, "The workload is another than plan.json's: parameters: "),
    ],
)
def test_an_edited_result_is_named(directory, change, output):
    edit(directory / "result.json", change)
    assert output in " ".join(checked(directory))


def test_an_edited_result_that_holds_its_records_is_named(directory):
    whole = ResultStore(directory.parent).load(directory).to_dict()
    (directory / "result.json").write_text(json.dumps(whole))
    assert checked(directory) == ()
    edit(directory / "result.json", shorter_windows)
    assert "Attempt 1 is another than its records: records[0].window.end: " in " ".join(checked(directory))


def test_edited_records_are_named(directory):
    edit(directory / "attempts/2/rank-0.json", lambda record: record.update(samples=10**6))
    actual = " ".join(checked(directory))
    assert "throughput is" in actual and "complete-records is pass, but by the records fail" in actual


def test_result_without_records_is_reported(directory, tmp_path):
    alone = tmp_path / "alone" / "result.json"
    alone.parent.mkdir()
    shutil.copy(directory / "result.json", alone)
    result = ResultStore(alone.parent).load(alone)
    (output,) = list_contradictions(result)
    assert "The records of attempt 1, which belong to" in output and "attempts/1/attempt.json" in output
    assert list_own_contradictions(result) == ()
    with pytest.raises(DocumentError, match="records of attempt 1"):
        result.to_dict()
    with pytest.raises(DocumentError, match="not in this document, but beside it"):
        Result.from_dict(json.loads(alone.read_text())).repeats[0]


def test_failed_attempt_is_not_a_repeat(directory):
    failure = {"kind": "crashed", "message": "It broke."}
    edit(directory / "attempts/2/attempt.json", lambda event: event.update(status="crashed", failure=failure))
    output = " ".join(list_contradictions(ResultStore(directory.parent).load(directory)))
    assert "counts attempt 2 among its repeats, but that is attempt 2, with the status crashed" in output
    assert "Attempt 2 is in the result, but not among the finished attempts." in checked(directory)


@pytest.mark.parametrize("name", ["attempts/1/rank-0.json", "spec.json", "plan.json", "environment.json"])
def test_unreadable_records_are_named(directory, name):
    (directory / name).write_text("{")
    assert any(name.rpartition("/")[2] in output or "attempts/1" in output for output in checked(directory))


@pytest.mark.parametrize("processes", [None, 3, "trainer", {}, [1], [[]]], ids=str)
def test_a_plan_that_does_not_say_its_processes_is_named(directory, processes):
    edit(directory / "plan.json", lambda document: document.update(processes=processes))
    (output,) = checked(directory)
    assert output.startswith("plan.json does not list the processes, but: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def places(value, keys=()):
    """The keys to a document, and to each of its parts."""
    yield keys
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*keys, key))


FILES = ("plan.json", "spec.json", "environment.json", "attempts/1/attempt.json", "attempts/1/rank-0.json")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_edit_is_reported_or_irrelevant(directory, data):
    path = directory / data.draw(st.sampled_from(FILES))
    before = path.read_text()
    document = whole = {"": json.loads(before)}
    *keys, last = data.draw(st.sampled_from([*places(whole)][1:]))
    for key in keys:
        document = document[key]
    document[last] = data.draw(JSON)
    path.write_text(json.dumps(whole[""]))
    try:
        assert all(isinstance(output, str) for output in checked(directory))
    finally:
        path.write_text(before)


def test_metrics_without_attempts_come_from_nowhere(directory):
    shutil.rmtree(directory / "attempts")
    actual = checked(directory)
    assert "There are metrics, but no finished attempt that they could come from." in actual


# -- the result alone


def of_records(**changes):
    """A result that its records bear out."""
    repeats = record_samples.repeats(3, ranks=2)
    spec = {"topology": "1n2d", "batch_size": 4, "warmup": 2, "steps": 20, "repeats": 3, "canonical_steps": 3}
    rates = [metrics.throughput(repeat) for repeat in repeats]
    created = a_result(
        fields=spec, id="case", repeats=repeats, metrics=(metrics.metric("throughput", "img/s", rates),)
    )
    return attrs.evolve(created, **changes)


def test_result_that_matches_its_records_is_unchanged():
    assert list_contradictions(of_records()) == ()
    assert labels.outcome(of_records(), ()).text == "ok"


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": (Metric("throughput", "img/s", 1e6),)},
        {"metrics": (Metric("throughput-per-device", "img/s", 1e6),)},
        {"metrics": (Metric("other", "s", 2.0, repeats=(1.0, 1.0)),)},
        {"metrics": (Metric("other", "s", 1.0, 0.9, 1.1, repeats=(1.0, 1.0)),)},
        {"verdicts": (Verdict("replicas-equal", "integrity", "fail", ""),)},
        {"repeats": record_samples.repeats(3, ranks=2, deviation=0.5), "verdicts": ()},
        {"repeats": (attrs.evolve(record_samples.repeat(), records=()),)},
    ],
)
def test_a_report_marks_a_result_that_contradicts_itself(changes):
    result = of_records(**changes)
    assert list_contradictions(result)
    alone = terminal.text_of(result_page.page(result), width=200)
    assert "failed validation" in alone and "This file contradicts itself" in alone
    beside = terminal.text_of(results_table.pages([result, of_records()]), width=200)
    assert "failed validation: " in beside and "the file contradicts itself" in beside


def test_an_imported_result_claims_no_verdict_and_a_log_for_each_repeat():
    source = Source("a.log", "0" * 64, 3)
    throughput = Metric("throughput", "img/s", 2.0, repeats=(1.0, 3.0))
    fine = attrs.evolve(
        a_result(),
        metrics=(throughput,),
        verdicts=(),
        imported=Imported("dllogger", "1", "DLLogger", "…", (source, source)),
    )
    assert list_contradictions(fine) == ()
    assert (
        "imported from 1 logs"
        in list_contradictions(
            attrs.evolve(fine, imported=Imported("dllogger", "1", "DLLogger", "…", (source,)))
        )[0]
    )
    claimed = attrs.evolve(fine, verdicts=(Verdict("finite-loss", "integrity", "pass", ""),))
    assert "finite-loss is pass, but an imported result" in list_contradictions(claimed)[0]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(any_results())
def test_every_valid_result_can_be_checked(result):
    assert all(isinstance(output, str) for output in list_contradictions(result))


# -- the command


def test_validate_a_run_and_a_store(dlperf, directory):
    store = directory.parent
    for path in (directory, store):
        code, out, err = dlperf("validate", str(path))
        assert (code, err) == (0, "")
        assert "nothing contradicts it" in " ".join(out.split())
    shutil.copytree(directory, store / "edited")
    edit(store / "edited/result.json", faster)
    code, out, _ = dlperf("validate", str(store), "--json")
    assert code == 1
    actual = {item["run"]: item for item in json.loads(out)["runs"]}
    assert actual[directory.name] == {
        "run": directory.name,
        "valid": True,
        "contradictions": [],
        "error": None,
    }
    assert not actual["edited"]["valid"]
    assert "but the records give" in " ".join(actual["edited"]["contradictions"])
    (store / "edited/result.json").write_text("{")
    code, out, _ = dlperf("validate", str(store))
    assert code == 2 and "not valid JSON" in " ".join(out.split())
    (store / "edited/result.json").unlink()
    code, out, _ = dlperf("validate", str(store))
    assert code == 2 and "has no result.json" in " ".join(out.split())


def test_validate_a_file_that_contradicts_itself(dlperf, directory):
    path = directory / "result.json"
    edit(path, faster)
    code, out, _ = dlperf("validate", str(path))
    assert code == 1 and "contradicts itself" in " ".join(out.split())
    code, out, _ = dlperf("validate", str(path), "--json")
    assert code == 1 and json.loads(out)["valid"] is False and json.loads(out)["contradictions"]


def test_validate_an_empty_directory(dlperf, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, err = dlperf("validate", str(tmp_path / "empty"))
    assert (code, out) == (2, "")
    assert "There are no results in" in " ".join(err.split())
