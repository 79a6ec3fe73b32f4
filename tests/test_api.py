"""`run`: the same case however it is asked for, every way to fail, and nothing lost or left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import attrs
import pytest
from processes import processes_with

import dlperf_sdk
from dlperf_sdk import (
    Capabilities,
    Matrix,
    Measurer,
    Metric,
    ResultStore,
    campaign,
    dry_run,
    hookimpl,
    rerun,
    run,
)
from dlperf_sdk.errors import (
    CampaignError,
    Crashed,
    DlperfError,
    DocumentError,
    InvalidRecord,
    PluginError,
    RunFailed,
    SpecError,
    StoreError,
    TimedOut,
    UnknownName,
    Unsupported,
    UsageError,
)
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.planning.spec_arguments import spec_from
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.consistency import check_directory

QUICK = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1}


# -- what is asked


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One case, with its store."""
    store = tmp_path_factory.mktemp("store")
    result = run("numpy", "linear", topology="1n2d", store=store, **{**QUICK, "repeats": 2})
    return result, store


def as_file(folder, suffix):
    fields = {"framework": "numpy", "model": "linear", "topology": "1n2d", **QUICK, "repeats": 2}
    path = folder / f"case.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(fields))
    elif suffix == "toml":
        path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items()))
    else:
        path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items()))
    return path


@pytest.mark.parametrize("suffix", ["json", "toml", "yaml"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_asks_for_the_same_as_names(tmp_path, kept, suffix, kind):
    assert spec_from(kind(as_file(tmp_path, suffix))) == kept[0].spec


def test_every_way_to_ask_plans_the_same(tmp_path, kept):
    spec = kept[0].spec
    plans = [
        dry_run("numpy", "linear", topology="1n2d", **{**QUICK, "repeats": 2}),
        dry_run("numpy", "linear", topology=spec.topology, data=spec.data, **{**QUICK, "repeats": 2}),
        dry_run(spec),
        dry_run(spec.to_dict()),
        dry_run({"framework": "numpy", "model": "linear", "topology": "1n2d", **QUICK, "repeats": 2}),
        dry_run(as_file(tmp_path, "toml")),
        dry_run(attrs.evolve(spec, repeats=5), repeats=2),
    ]
    assert all(plan == plans[0] for plan in plans)


def test_a_spec_and_a_file_measure_the_same_facts(tmp_path, kept):
    """Not only planned: run. What may differ from run to run is left out."""

    def lasting(result):
        return [fact for fact in result.facts if fact.name not in ("cpus", "thread_variables")]

    again = run(as_file(tmp_path, "yaml"), store=None)
    assert again.ok
    assert lasting(again) == lasting(kept[0])
    assert [verdict.name for verdict in again.verdicts] == [verdict.name for verdict in kept[0].verdicts]


@pytest.mark.parametrize(
    ("arguments", "fields", "error", "output"),
    [
        (("nump", "linear"), {}, UnknownName, "Did you mean 'numpy'"),
        (("numpy", "linea"), {}, UnknownName, "Did you mean 'linear'"),
        (("numpy", "linear"), {"batchsize": 3}, UnknownName, "Did you mean 'batch_size'"),
        (
            ("numpy", "linear"),
            {"output": "here"},
            UnknownName,
            "no argument named 'output'. Did you mean 'store'",
        ),
        (("numpy", "linear"), {"raise_on_error": True}, UnknownName, "Did you mean 'raise_on_failure'"),
        (("numpy", "linear"), {"topology": "1n2d@locale"}, UnknownName, "Did you mean 'local'"),
        (("numpy", "linear"), {"options": {"feature": 3}}, UnknownName, "Did you mean 'features'"),
        (("numpy", "linear"), {"batch_size": 0}, UsageError, "batch_size"),
        (("numpy", "linear"), {"topology": "0n1d"}, SpecError, "topology"),
        (("case.toml",), {}, UsageError, "case.toml"),
        (({"framework": "numpy"},), {}, UsageError, "model"),
        (({"framework": "numpy", "model": "linear"}, "linear"), {}, UsageError, "already names its model"),
    ],
)
def test_invalid_arguments_are_raised_and_leave_nothing(
    tmp_path, monkeypatch, arguments, fields, error, output
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=output):
        run(*arguments, **fields)
    assert list(tmp_path.iterdir()) == []


# -- what comes back


def test_the_numbers_follow_from_the_records(kept):
    result, _ = kept
    assert (result.status, result.ok, result.exit_code) == ("ok", True, 0)
    rates = [
        sum(record.samples for record in repeat.records)
        / max(record.window.seconds for record in repeat.records)
        for repeat in result.repeats
    ]
    throughput = result.metric("throughput")
    assert throughput.repeats == pytest.approx(rates)
    assert throughput.value == pytest.approx(statistics.median(rates))
    assert throughput.low is None
    facts = {fact.name: fact for fact in result.facts}
    assert len(facts) == len(result.facts)
    assert facts["precision"].observed == "fp32"
    assert facts["topology"].requested == "1n2d"
    assert facts["features"].observed == 16
    assert facts["features"].role == "workload"
    assert facts["repeats"].observed == 2
    assert facts["clock"].observed == "blocking"
    assert result.workload.global_batch_size == 8
    assert result.environment.kind == "running"
    assert len(result.hardware) == 1


def test_the_store_holds_everything(kept):
    result, folder = kept
    store = ResultStore(folder)
    assert store.ids() == (result.id,)
    loaded = store.load(result.id)
    assert loaded.to_dict() == result.to_dict()
    files = {
        str(path.relative_to(folder / result.id))
        for path in (folder / result.id).rglob("*")
        if path.is_file()
    }
    assert files >= {
        "spec.json",
        "plan.json",
        "environment.json",
        "lock.txt",
        "result.json",
        *(
            f"attempts/{k}/{name}"
            for k in (1, 2)
            for name in ("attempt.json", "rank-0.json", "rank-1.json", "rank-0.log")
        ),
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder / result.id).rglob("*"))
    assert load_spec(folder / result.id / "spec.json") == result.spec
    assert [attempt.repeat for attempt in store.recover(result.id).attempts] == list(result.repeats)


def test_nothing_is_kept_without_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run("numpy", "linear", store=None, **QUICK).ok
    assert list(tmp_path.iterdir()) == [tmp_path / "scratch"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_case_can_be_run_again_in_its_own_environment(tmp_path, kept):
    result, _ = kept
    again = rerun(result, store=tmp_path, allow=["lock"])
    assert again.ok, again.failure
    assert again.id != result.id
    assert again.spec == result.spec
    assert _numpy(again.environment.lock) == _numpy(result.environment.lock)


def test_rerun_installs_nothing_when_the_plugins_lock_cannot_be_read(tmp_path, kept, monkeypatch):
    """Without that lock, the packages that the plugin lacks cannot be named."""
    (tmp_path / "lock.txt").write_text("not a requirement\n")
    declared = EnvironmentSpec(python=">=3.7", requirements=("numpy",), lock=tmp_path / "lock.txt")
    monkeypatch.setattr("dlperf_numpy.framework.NumPy.environment", lambda *args: declared)
    with pytest.raises(PluginError, match="'not a requirement', which is not a requirement"):
        rerun(kept[0], store=tmp_path)


def _numpy(lock):
    return next(line for line in lock.splitlines() if line.startswith("numpy=="))


def test_result_without_an_environment_cannot_be_rerun():
    refused = run("numpy", "linear", precision="amp-bf16", store=None)
    with pytest.raises(UsageError, match="has no environment to repeat it in"):
        rerun(refused, store=None)


# -- failures


def test_a_case_that_is_refused_is_a_result(tmp_path):
    result = run("numpy", "resnet50", store=tmp_path)
    assert (result.status, result.ok, result.exit_code) == ("unsupported", False, 4)
    assert "numpy has no implementation of resnet50" in result.failure.message
    assert result.workload is None
    assert ResultStore(tmp_path).load(result.id).to_dict() == result.to_dict()
    assert check_directory(tmp_path / result.id, Registry().measurers()) == ()
    with pytest.raises(Unsupported) as caught:
        run("numpy", "resnet50", store=None, raise_on_failure=True)
    assert caught.value.result.status == "unsupported"
    with pytest.raises(Unsupported):
        dry_run("numpy", "resnet50")


@pytest.mark.parametrize(
    ("error", "output"),
    [
        (DocumentError("cat.jpg is not a JPEG."), "cat.jpg is not a JPEG."),
        (
            OSError(28, "No space left on device"),
            "The data synthetic cannot be prepared: No space left on device.",
        ),
        (PermissionError(13, "Permission denied", "/x/a.txt"), "Permission denied (/x/a.txt)."),
    ],
)
def test_data_that_cannot_be_used_is_a_failed_case(tmp_path, monkeypatch, error, output):
    """Not an error of the caller's, which would end a campaign and leave a run without a result."""

    def broken(*_, **__):
        raise error

    monkeypatch.setattr("dlperf_sdk.data.prepare", broken)
    result = run("numpy", "linear", store=tmp_path, **QUICK)
    assert (result.status, result.exit_code) == ("unavailable", 4)
    assert output in result.failure.message
    assert ResultStore(tmp_path).load(result.id).status == "unavailable"


@pytest.mark.parametrize("batch_size", [8, "max"])
def test_a_mistyped_data_folder_is_refused_before_anything_is_stored(tmp_path, batch_size):
    requested = {"data": "images:/nowhere", "python": "/nowhere/bin/python", "store": tmp_path / "store"}
    with pytest.raises(SpecError, match="data=images:/nowhere does not exist"):
        run("numpy", "linear", **requested, **{**QUICK, "batch_size": batch_size})
    assert not (tmp_path / "store").exists()


def test_a_node_without_a_required_program_fails_before_any_worker_starts(tmp_path):
    here = {"name": "mine", "required_programs": lambda self, spec: ("sh", "no-such-compiler")}
    registry = Registry({"frameworks": {"mine": type("Mine", (type(Registry().framework("numpy")),), here)}})
    result = run(
        "mine", "linear", batch_size=4, warmup=1, steps=5, repeats=2, store=tmp_path, registry=registry
    )
    assert result.failure.kind == "environment"
    assert "lacks no-such-compiler, which the case needs beside its environment" in result.failure.message
    assert result.repeats == ()


def test_a_mistyped_data_folder_of_a_campaign_is_refused_before_anything_is_stored(tmp_path):
    here = {
        "name": "mine",
        "capabilities": Capabilities(data={"images"}),
        "trainers": {"resnet50": "never:Reached"},
    }
    registry = Registry({"frameworks": {"mine": type("Mine", (type(Registry().framework("numpy")),), here)}})
    fields = {"framework": "mine", "model": "resnet50", **QUICK}
    with pytest.raises(CampaignError, match="data=images:/nowhere does not exist"):
        campaign(
            Matrix(fields=fields, axes={"data": ["synthetic", "images:/nowhere"]}),
            tmp_path / "campaign",
            registry=registry,
        )
    assert not (tmp_path / "campaign").exists()


@pytest.mark.parametrize("model", ["linear", "resnet50"])
def test_a_campaign_checks_the_data_folder_before_the_plan_as_a_run_does(tmp_path, model):
    """Here the plan fails, too: the model has no such data, or the framework no such model."""
    fields = {"framework": "numpy", "model": model, "data": "images:/nowhere", **QUICK}
    with pytest.raises(SpecError) as one:
        run(fields, store=tmp_path / "store")
    with pytest.raises(CampaignError) as several:
        campaign(Matrix(fields=fields, axes={"seed": [0]}), tmp_path / "store")
    assert str(several.value) == str(one.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("data", ["synthetic:/tmp", "synthetic-host:/tmp"])
def test_a_folder_where_none_belongs_is_refused_at_once(tmp_path, data):
    with pytest.raises(SpecError, match="takes no folder"):
        run("numpy", "linear", data=data, store=tmp_path / "store", **QUICK)
    assert not (tmp_path / "store").exists()


@pytest.mark.usefixtures("without_reference")
def test_failing_case_keeps_its_finished_repeats(tmp_path):
    """The second repeat hangs; the first is a result with an exit code of its own."""
    result = run(
        "faulty",
        "linear",
        options={"fault": "hang-step-second"},
        deadlines={"step": 0.4},
        store=tmp_path,
        **{**QUICK, "repeats": 3},
    )
    assert (result.status, result.exit_code) == ("timeout", 5)
    assert re.search(r'dlperf_faulty/worker.py", line \d+ in step', result.failure.traceback)
    assert [repeat.attempt for repeat in result.repeats] == [1]
    assert result.metric("throughput").value > 0
    assert result.verdict("complete-records").outcome == "fail"
    attempts = ResultStore(tmp_path).recover(result.id).attempts
    assert [attempt.status for attempt in attempts] == ["ok", "timeout"]
    with pytest.raises(TimedOut):
        result.raise_for_status()


def test_a_failure_is_raised_on_request():
    with pytest.raises(Crashed, match="the fault that was asked for") as caught:
        run("faulty", "linear", options={"fault": "exception"}, store=None, raise_on_failure=True, **QUICK)
    assert caught.value.result.failure.type == "RuntimeError"
    assert caught.value.result.environment is not None


VERDICTS = [
    ("nan", "1n1d", "finite-loss"),
    ("drift", "1n2d", "replicas-equal"),
    ("other-precision", "1n1d", "precision-effective"),
    ("imprecise", "1n1d", "precision-effective"),
    ("nan-deviation", "1n1d", "precision-effective"),
    ("other-rank", "1n2d", "complete-records"),
    ("no-falling", "1n1d", "loss-falls"),
]


@pytest.mark.usefixtures("without_reference")
@pytest.mark.parametrize(("fault", "topology", "verdict"), VERDICTS, ids=[fault for fault, *_ in VERDICTS])
def test_each_fault_is_caught_by_its_verdict(fault, topology, verdict):
    result = run("faulty", "linear", topology=topology, options={"fault": fault}, store=None, **QUICK)
    assert result.status == "ok", result.failure
    assert (result.ok, result.exit_code) == (False, 1)
    failed = {one.name for one in result.verdicts if one.outcome == "fail" and one.kind == "integrity"}
    assert failed == {verdict}


def test_samples_are_counted_and_not_taken_from_the_trainer():
    result = run("faulty", "linear", options={"fault": "fewer-samples"}, store=None, **QUICK)
    assert result.ok, result.verdicts
    counted = result.spec.global_batch_size * result.spec.resolved_protocol().steps
    assert {record.samples for repeat in result.repeats for record in repeat.records} == {counted}


FAILURES = [
    ("exception", "crashed", "the fault that was asked for"),
    ("unsupported", "unsupported", "This cannot be done here."),
    ("out-of-memory", "out-of-memory", "Use a smaller batch size"),
    ("exit", "invalid-record", "left no readable record"),
    ("system-exit", "crashed", "left with exit code 3 in phase 'measure', and left no readable record"),
    ("exception-at-the-end", "crashed", "had written its record, and then left with exit code 1"),
    ("real-time-signal", "crashed", "was ended by SIG40"),
    ("huge-record", "invalid-record", "bytes, and 67108864 are read"),
    ("deep-record", "invalid-record", "nested"),
    ("nan-record", "invalid-record", "NaN is not a finite number"),
    ("infinite-record", "invalid-record", "1e999 is not a finite number"),
    ("half-record", "invalid-record", "cannot be read"),
    ("text-record", "invalid-record", "is not an object"),
    ("no-record", "invalid-record", "left no readable record"),
    ("other-attempt", "invalid-record", "attempt 7 in attempt 1"),
    ("odd-record", "invalid-record", "breaks the protocol"),
    ("odd-facts", "crashed", "not JSON serializable"),
    ("neither-record", "invalid-record", "states neither success nor a failure"),
    ("odd-failure", "invalid-record", "rank-0 reported a failure of an unknown kind"),
]


@pytest.mark.usefixtures("without_reference")
@pytest.mark.parametrize(("fault", "kind", "output"), FAILURES, ids=[fault for fault, *_ in FAILURES])
def test_each_fault_is_a_failure_of_its_kind(tmp_path, fault, kind, output):
    result = run("faulty", "linear", options={"fault": fault}, store=tmp_path, **QUICK)
    assert (result.status, result.ok, result.exit_code) == (kind, False, 4)
    assert output in result.failure.message
    assert result.repeats == ()
    assert ResultStore(tmp_path).load(result.id).failure == result.failure
    assert not processes_with(result.id)


@pytest.mark.usefixtures("without_reference")
def test_a_huge_log_is_bounded(tmp_path):
    result = run("faulty", "linear", options={"fault": "huge-log"}, store=tmp_path, **QUICK)
    assert result.ok
    log = tmp_path / result.id / "attempts" / "1" / "rank-0.log"
    assert 200_000 < log.stat().st_size < 300_000
    assert log.read_text().rstrip().endswith("the end of a long log")


@pytest.mark.usefixtures("without_reference")
def test_a_framework_may_leave_out_a_finalisation_that_would_abort(tmp_path):
    """Its record is whole by then; what it asked to be done at the exit is done."""
    result = run("faulty", "linear", options={"fault": "aborting-finalisation"}, store=tmp_path, **QUICK)
    assert result.ok
    log = (tmp_path / result.id / "attempts" / "1" / "rank-0.log").read_text()
    assert log.rstrip().endswith("the exit functions have run")


@pytest.mark.usefixtures("without_reference")
def test_services_are_part_of_a_run(tmp_path):
    result = run("faulty", "linear", topology="1n2d", store=tmp_path, **QUICK)
    assert result.ok
    assert [exit.role for exit in result.repeats[0].exits].count("service") == 1
    assert "serving" in (tmp_path / result.id / "attempts/1/service-0.log").read_text()


# -- adaptive


@pytest.mark.usefixtures("without_reference")
def test_adaptive_run_stops_at_its_target():
    fields = {**QUICK, "target": 0.5, "repeats": 6, "max_repeats": 12}
    result = run("faulty", "linear", store=None, protocol="adaptive", options={"fault": "slow"}, **fields)
    assert result.status == "ok"
    assert result.stopping.rule == "adaptive"
    assert result.stopping.met
    assert 6 <= len(result.repeats) <= 12
    assert (
        result.metric("throughput").low
        <= result.metric("throughput").value
        <= result.metric("throughput").high
    )


@pytest.mark.long
@pytest.mark.usefixtures("without_reference")
def test_adaptive_run_reports_a_missed_target():
    result = run(
        "faulty",
        "linear",
        store=None,
        protocol="adaptive",
        options={"fault": "noisy"},
        **{**QUICK, "target": 0.01, "repeats": 6, "max_repeats": 6},
    )
    assert result.status == "ok"
    assert not result.stopping.met
    assert (
        "repeats for ±1.00 % were planned from the first 6, and at most 6 are allowed"
        in result.stopping.detail
    )


# -- plugins that fail beside the run


def test_a_measurers_mistake_costs_no_result():
    class Broken(Measurer):
        name = "broken"

        def summarize(self, measured):
            raise KeyError("cores")

    class Wrong(Measurer):
        name = "wrong"

        def summarize(self, measured):
            return (Metric("wrong", "1", "many"), Metric(3, "1", 1.0))

    class Fine(Measurer):
        name = "fine"

        def summarize(self, measured):
            return (Metric("fine", "1", 1.0),)

    result = run(
        "numpy",
        "linear",
        store=None,
        registry=Registry({"measurers": {"broken": Broken, "wrong": Wrong, "fine": Fine}}),
        **QUICK,
    )
    assert result.ok
    assert result.metric("fine").value == 1.0
    assert any(
        "The measurer broken failed, its metrics are missing: KeyError" in note for note in result.notes
    )
    assert any("The measurer wrong failed, its metrics are missing" in note for note in result.notes)
    assert result.metric("wrong") is None


def _launcher(lines):
    """A registry whose launcher `odd` says these lines in place of an agent's."""

    class Odd(Local):
        name = "odd"

        def launch(self, job):
            from contextlib import contextmanager

            @contextmanager
            def launched():
                yield iter([line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines])

            return launched()

    return Registry({"topologies": {"odd": Odd}})


GOOD_END = {"event": "ended", "status": "ok", "failure": None}


@pytest.mark.usefixtures("without_reference")
@pytest.mark.parametrize(
    ("lines", "kind", "output"),
    [
        ([], "lost-node", "was not started"),
        ([b"\xff\xfe", b"[" * 10**6, b"null", b'"ended"', b'{"event": 3}'], "lost-node", "was not started"),
        (
            [{"event": "diagnostics", "text": "no such image"}],
            "lost-node",
            "Last output: no such image",
        ),
        ([GOOD_END], "invalid-record", "no repeat was returned"),
        ([{"event": "ended"}], "invalid-record", "breaks the protocol"),
        ([{"event": "agents-ready"}], "invalid-record", "breaks the protocol"),
        ([{"event": "worker-started", "attempt": 1}], "invalid-record", "breaks the protocol"),
        (
            [{"event": "attempt-ended", "attempt": "1/../..", "failure": None}],
            "invalid-record",
            "attempt's number",
        ),
        ([{"event": "log", "attempt": 1, "name": "../../x", "text": ""}], "invalid-record", "log"),
        (
            [{"event": "attempt-ended", "attempt": 1, "failure": None, "records": 3}],
            "invalid-record",
            "breaks the protocol",
        ),
        ([{**GOOD_END, "failure": {"kind": "nonsense", "message": "x"}}], "crashed", "x"),
        ([{"event": "something-new"}, GOOD_END], "invalid-record", "no repeat"),
    ],
)
def test_whatever_a_launcher_brings_back_is_a_typed_result(tmp_path, lines, kind, output):
    result = run("numpy", "linear", topology="1n1d@odd", registry=_launcher(lines), store=tmp_path, **QUICK)
    assert result.status == kind
    assert output in result.failure.message
    assert ResultStore(tmp_path).load(result.id).status == kind
    inside = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert inside == {result.id}


@pytest.mark.usefixtures("without_reference")
def test_a_record_that_is_refused_ends_the_run(tmp_path):
    """The other repeats would be refused as well: hours of them."""
    messages = []

    class Watching:
        @hookimpl
        def dlperf_repeat_started(self, attempt):
            messages.append(attempt)

    result = run(
        "faulty",
        "linear",
        options={"fault": "other-attempt"},
        store=tmp_path,
        observers=[Watching()],
        **{**QUICK, "repeats": 5},
    )
    assert result.status == "invalid-record"
    assert len(messages) <= 2
    with pytest.raises(InvalidRecord):
        result.raise_for_status()


# -- the store


@pytest.mark.parametrize("place", ["a file", "read-only"])
def test_unwritable_store_is_reported_before_anything_starts(tmp_path, place):
    store = tmp_path / "store"
    if place == "a file":
        store.write_text("")
    else:
        store = Path("/proc/dlperf-results")
    started = []

    class Watching:
        @hookimpl
        def dlperf_run_started(self, plan):
            started.append(plan)

    with pytest.raises(StoreError):
        run("numpy", "linear", store=store, observers=[Watching()], **QUICK)
    assert not started


def test_a_store_that_fails_on_the_way_ends_everything(tmp_path):
    """Its directory becomes a file after the first repeat has started."""

    class Saboteur:
        @hookimpl
        def dlperf_repeat_started(self, attempt):
            folder = next(tmp_path.iterdir()) / "attempts"
            folder.write_text("")

        @hookimpl
        def dlperf_error(self, failure):
            messages.append(failure)

        @hookimpl
        def dlperf_result(self, result):
            messages.append(result)

    messages = []
    result = run("numpy", "linear", store=tmp_path, observers=[Saboteur()], **{**QUICK, "repeats": 3})
    assert (result.status, result.exit_code, len(result.repeats)) == ("unavailable", 5, 1)
    assert "attempts/1/rank-0.json cannot be written: Not a directory" in result.failure.message
    assert messages == [result.failure, result]
    assert result.metric("throughput").value > 0
    assert not processes_with(result.id)


def test_a_result_that_cannot_be_written_is_handed_back(tmp_path):
    """Of hours of measuring the last write fails."""

    class Saboteur:
        @hookimpl
        def dlperf_repeat_ended(self, attempt):
            (next(tmp_path.iterdir()) / "result.json" / "in the way").mkdir(parents=True)

    result = run("numpy", "linear", store=tmp_path, observers=[Saboteur()], **QUICK)
    assert (result.status, result.exit_code, len(result.repeats)) == ("unavailable", 5, QUICK["repeats"])
    assert "result.json cannot be written" in result.failure.message
    assert len(ResultStore(tmp_path).recover(result.id).attempts) == QUICK["repeats"]


def test_two_runs_at_once_in_one_store(tmp_path):
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(run("numpy", "linear", topology="1n2d", store=tmp_path, **QUICK))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.status for result in results] == ["ok", "ok"]
    assert set(ResultStore(tmp_path).ids()) == {result.id for result in results}
    for result in results:
        assert ResultStore(tmp_path).load(result.id).to_dict() == result.to_dict()


# -- what ends a controller


def controller(tmp_path, after):
    """A process that runs a case of many repeats, and says when some have finished."""
    script = tmp_path / "controller.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from dlperf_sdk import hookimpl, run

            class Watching:
                @hookimpl
                def dlperf_repeat_ended(self, attempt):
                    print("ended", attempt, flush=True)

                @hookimpl
                def dlperf_step_progress(self, attempt, phase):
                    print("progress", attempt, phase, flush=True)

            try:
                run("faulty", "linear", topology="1n2d", batch_size=4, warmup=1, steps=5, repeats=9,
                    options={{"fault": "hang-step-second"}}, store={str(tmp_path / "store")!r}, observers=[Watching()])
            except KeyboardInterrupt:
                sys.exit(99)
            """
        )
    )
    # With their scratch directory in it, the command lines of workers can be told from others' as well.
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=variables
    )
    for line in process.stdout:
        if line.split() == after:
            return process
    raise AssertionError(f"the controller ended with {process.wait()}")


def gone(marker, seconds=15.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not processes_with(marker):
            return True
        time.sleep(0.05)
    return False


def test_a_folder_for_temporary_files_removed_during_a_run_is_named(tmp_path, monkeypatch, without_reference):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)

    class Cleaner:
        @hookimpl
        def dlperf_repeat_ended(self):
            if folder.exists():
                folder.rename(tmp_path / "removed")  # at once, while a worker may be starting

    result = run(
        "numpy",
        "linear",
        store=tmp_path / "store",
        observers=[Cleaner()],
        **{**QUICK, "steps": 2000, "repeats": 3},
    )
    assert result.status == "unavailable"
    assert "was removed during the run. Set TMPDIR" in result.failure.message
    assert result.failure.node == 0
    assert len(result.repeats) == 1


def test_ctrl_c_keeps_finished_repeats_and_leaves_no_process(tmp_path):
    with controller(tmp_path, after=["progress", "2", "measure"]) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 99
    store = ResultStore(tmp_path / "store")
    result = store.load(store.ids()[0])
    assert (result.status, result.exit_code) == ("interrupted", 130)
    assert [repeat.attempt for repeat in result.repeats] == [1]
    assert result.metric("throughput") is not None
    assert "finished repeats are kept" in result.failure.message
    # Everything had been waited for when the controller ended.
    assert not processes_with(str(tmp_path))


def test_a_controller_that_is_killed_loses_no_finished_repeat(tmp_path):
    with controller(tmp_path, after=["progress", "2", "measure"]) as process:
        process.kill()
    store = ResultStore(tmp_path / "store")
    run_id = store.ids()[0]
    with pytest.raises(DlperfError, match="no result"):
        store.load(run_id)
    recovered = store.recover(run_id)
    assert recovered.spec.framework == "faulty"
    assert [(attempt.attempt, attempt.status) for attempt in recovered.attempts] == [(1, "ok")]
    assert len(recovered.attempts[0].records) == 2
    assert recovered.unreadable == ()
    assert (tmp_path / "store" / run_id / "environment.json").exists()
    assert gone(str(tmp_path))


def test_spec_is_stored_before_the_environment_is_created(tmp_path, monkeypatch):
    """To make an environment takes minutes, and a controller may die in them."""

    def die(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dlperf_sdk.environments.prepare", die)
    with pytest.raises(KeyboardInterrupt):
        run("numpy", "linear", store=tmp_path, **QUICK)
    folder = next(tmp_path.iterdir())
    assert load_spec(folder / "spec.json").framework == "numpy"
    assert ResultStore(tmp_path).load(folder.name).status == "interrupted"


def test_a_run_failed_is_caught_by_its_root():
    with pytest.raises(RunFailed):
        run("numpy", "linear", compiler="xla", store=None, raise_on_failure=True)
    assert issubclass(dlperf_sdk.RunFailed, dlperf_sdk.DlperfError)
