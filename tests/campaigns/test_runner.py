"""Campaigns, carried out: each case once, each repeat once, whatever happens to the controller."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest
from processes import processes_with
from record_samples import counter, repeat

from dlperf_sdk import Matrix, campaign, hookimpl, resume
from dlperf_sdk.campaigns import estimate, host_info, machine_load, order, planning
from dlperf_sdk.campaigns.campaign import Settings, expand_cases, make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign, open_campaign
from dlperf_sdk.campaigns.case_progress import CaseProgress, read_progress
from dlperf_sdk.campaigns.journal import Journal
from dlperf_sdk.campaigns.status import status
from dlperf_sdk.cli import main
from dlperf_sdk.errors import SpecError, StoreError, UnknownName
from dlperf_sdk.registry.plugins import Registry

SMALL = {"model": "linear", "batch_size": 4, "canonical_steps": 2, "warmup": 1, "steps": 4, "repeats": 2}


def small(**axes):
    return Matrix(fields=SMALL, axes={"framework": ["numpy"], **axes})


def entries_of(directory):
    return Journal(directory / "journal.jsonl").read()


# -- the order


def test_repeats_are_interleaved_in_an_order_of_their_own():
    ids = [f"case-{i}" for i in range(12)]
    finished, taken = dict.fromkeys(ids, 0), []
    while finished:
        item = order.choose_next_case(ids, finished, seed=1, interleave=True)
        taken.append(item)
        finished[item] += 1
        if finished[item] == 3:
            del finished[item]
    rounds = [taken[i : i + 12] for i in (0, 12, 24)]
    assert [sorted(item) for item in rounds] == [sorted(ids)] * 3
    assert len({tuple(item) for item in rounds} | {tuple(ids)}) == 4
    assert rounds[0] == order.order_round(ids, 1, 1) != order.order_round(ids, 2, 1)


def test_case_after_case_where_that_is_wanted():
    ids = ["a", "b"]
    first = order.choose_next_case(ids, {"a": 0, "b": 0}, 0, False)
    assert order.choose_next_case(ids, {"a": 1, "b": 1}, 0, False) == first


# -- the journal


def test_a_half_written_last_line_is_cut_off(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("one", case="a")
    with journal.path.open("ab") as file:
        file.write(b'{"event": "tw')
    assert [entry["event"] for entry in journal.read()] == ["one"]
    journal.append("three")
    assert [entry["event"] for entry in journal.read()] == ["one", "three"]
    assert journal.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"{" * 9000, b"", b"\n\n[]\n\xff\xfe\n"])
def test_junk_in_a_journal_costs_nothing_else(tmp_path, junk):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("one")
    with journal.path.open("ab") as file:
        file.write(junk)
    journal.append("two")
    assert [entry["event"] for entry in journal.read()] == ["one", "two"]


def test_full_disk_is_reported_and_leaves_no_partial_line(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    (tmp_path / "journal.jsonl").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"cannot be written"):
        Journal(tmp_path / "journal.jsonl").append("one")


# -- what is executed


def test_campaign_directory_executes_only_allowed_programs(tmp_path):
    asked_for = make_campaign(
        Matrix(fields={**SMALL, "repeats": 1, "env": {"MINE": "1"}}, axes={"framework": ["numpy"]})
    )
    when, entries = planning.plan_campaign(asked_for, Registry())
    create_campaign(tmp_path / "it", asked_for, entries, when)
    with pytest.raises(SpecError, match=r"campaign\.json sets the variable MINE, .* --allow MINE \("):
        resume(tmp_path / "it")
    assert main(["campaign", "resume", str(tmp_path / "it"), "--quiet"]) == 2
    assert not (tmp_path / "it" / "journal.jsonl").exists()
    assert resume(tmp_path / "it", allow=["MINE"]).exit_code == 0


# -- the estimate


def test_estimate_follows_finished_attempts():
    cases = list(expand_cases(make_campaign(small(batch_size=[4, 8], seed=[1, 2])), "s"))
    progress = read_progress(cases, [])
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(
        8 * estimate.default_seconds(cases[0].spec)
    )
    progress[cases[0].id].apply(
        {
            "event": "attempt-ended",
            "attempt": 1,
            "status": "ok",
            "throughput": 1.0,
            "seconds": 3.0,
            "time": "",
        }
    )
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(7 * 3.0)
    assert estimate.remaining_seconds(progress.values(), Settings(cooldown=2.0)) == pytest.approx(7 * 5.0)
    again = {
        "event": "attempt-ended",
        "attempt": 2,
        "status": "ok",
        "throughput": 1.0,
        "seconds": 3.0,
        "time": "",
    }
    progress[cases[0].id].apply(again)
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(6 * 3.0)
    progress[cases[0].id].apply({"event": "concluded", "status": "ok"})
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(6 * 3.0)
    assert estimate.remaining_seconds([CaseProgress(cases[0], status="timeout")], Settings()) == 0


def test_planned_time_follows_another_campaigns_durations():
    cases = list(expand_cases(make_campaign(small(batch_size=[4, 8])), "s"))
    assert estimate.total_seconds(cases, [], Settings()) == pytest.approx(
        4 * estimate.default_seconds(cases[0].spec)
    )
    before = list(expand_cases(make_campaign(small(batch_size=[4, 16])), "earlier"))
    known = read_progress(before, [])
    for item, seconds in zip(before, (3.0, 5.0), strict=True):
        about = {"attempt": 1, "status": "ok", "throughput": 1.0, "seconds": seconds, "time": ""}
        known[item.id].apply({"event": "attempt-ended", **about})
    # Batch 4 as it took itself; batch 8 as the cases of its kind: the median of 3, 3 (in the plan) and 5.
    assert estimate.total_seconds(cases, known.values(), Settings()) == pytest.approx(2 * 3.0 + 2 * 3.0)
    assert estimate.total_seconds(cases, known.values(), Settings(cooldown=1.0)) == pytest.approx(
        2 * 4.0 + 2 * 4.0
    )


def test_searches_and_traces_take_time_too():
    """In steps: a repeat of 2 + 3 + 15, a probe of 1 + 1 + 2, a trace of 2 + 3 + 5."""
    steps = {"canonical_steps": 2, "warmup": 3, "steps": 15, "repeats": 2}
    cases = list(
        expand_cases(make_campaign(small(batch_size=["max", 8], **{k: [v] for k, v in steps.items()})), "s")
    )
    progress = read_progress(cases, [])
    repeat, probe, traced = (estimate.START + estimate.STEP * count for count in (20, 4, 10))
    repeats = 4 * repeat
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(repeats + 8 * probe)
    with_traces = estimate.remaining_seconds(progress.values(), Settings(trace=True))
    assert with_traces == pytest.approx(repeats + 8 * probe + 2 * traced)
    progress[cases[0].id].apply({"event": "case-started", "batch_size": 64, "time": ""})
    assert estimate.remaining_seconds(progress.values(), Settings()) == pytest.approx(repeats)


@pytest.mark.long
def test_the_plan_command_estimates_from_a_campaign(tmp_path, done, capfd):
    _, directory, _ = done
    path = tmp_path / "more.yaml"
    path.write_text(f"name: more\nfields: {json.dumps(SMALL)}\naxes: {{framework: [numpy], seed: [1, 5]}}\n")
    assert main(["campaign", "plan", str(path), "--json"]) == 0
    guess = json.loads(capfd.readouterr().out)["seconds_guessed"]
    assert main(["campaign", "plan", str(path), "--measured", str(directory), "--json"]) == 0
    assert 0 < json.loads(capfd.readouterr().out)["seconds_guessed"] < guess
    assert main(["campaign", "plan", str(path), "--measured", str(directory)]) == 0
    assert f"by the 4 repeats in {directory}" in " ".join(capfd.readouterr().out.split()).replace("- ", "-")
    assert main(["campaign", "plan", str(path), "--measured", str(tmp_path)]) == 2
    assert "There is no campaign in" in capfd.readouterr().err


# -- a whole campaign

KINDS = ["out-of-memory", "timeout", "unsupported", "ok", "crashed"]


class Listener:
    """What an observer hears."""

    def __init__(self):
        self.results, self.repeats, self.started = [], [], []

    @hookimpl
    def dlperf_run_started(self, run_id, directory):
        self.started.append((run_id, sorted(path.name for path in Path(directory).glob("*.json"))))

    @hookimpl
    def dlperf_repeat_ended(self, run_id, attempt, status):
        self.repeats.append((run_id, attempt, status))

    @hookimpl
    def dlperf_result(self, run_id, result):
        self.results.append(result)


@pytest.fixture(scope="module")
def listener():
    """The observer of the campaign that is `done`."""
    return Listener()


@pytest.fixture(scope="module")
def done(tmp_path_factory, listener):
    """A campaign in which some cases fail in each way."""
    directory = tmp_path_factory.mktemp("campaign") / "it"
    matrix = Matrix(
        fields=SMALL,
        axes={"framework": ["numpy"], "seed": [1, 2]},
        include=[
            {"framework": "faulty", "options": {"fault": "out-of-memory"}},
            {"framework": "faulty", "options": {"fault": "hang-step"}, "deadlines": {"step": 0.5}},
            {"framework": "faulty", "options": {"fault": "exception"}},
            {"framework": "numpy", "precision": "amp-bf16"},
        ],
    )
    received = []
    outcome = campaign(matrix, directory, observers=[listener], watch=received.append, seed=7)
    return outcome, directory, received


def test_each_failure_stands_in_the_report_as_such(done, capfd):
    outcome, directory, _ = done
    assert outcome.ended == "complete"
    assert outcome.exit_code == 5
    results = {result.id: result for result in outcome.results()}
    assert sorted(result.status for result in results.values()) == sorted(
        ["ok", "ok", "out-of-memory", "timeout", "crashed", "unsupported"]
    )
    for result in results.values():
        assert (len(result.repeats) == 2) == (result.status == "ok")
    assert main(["report", *(str(directory / "runs" / name) for name in results)]) in (0, 5)
    output = " ".join(capfd.readouterr().out.split())
    for words in (
        "ran out of memory",
        "which is its deadline",
        "the fault that was asked for",
        "does not offer",
    ):
        assert words in output


def test_a_crash_is_tried_again_and_running_out_of_memory_is_not(done):
    outcome, directory, _ = done
    failures = {item.case.spec.options.get("fault"): item for item in outcome.cases.values()}
    assert failures["exception"].failures == {"crashed": 2}
    assert failures["out-of-memory"].failures == {"out-of-memory": 1}
    assert failures["hang-step"].failures == {"timeout": 1}
    crashed = outcome.directory.store.load(failures["exception"].case.id)
    assert sum("failed (crashed)" in note for note in crashed.notes) == 2
    attempts = directory / "runs" / crashed.id / "attempts"
    assert sorted(path.name for path in attempts.iterdir()) == ["1", "2"]


def test_journal_is_complete_and_order_follows_the_seed(done):
    outcome, directory, received = done
    entries = entries_of(directory)
    assert [entry["event"] for entry in entries] == [entry["event"] for entry in received]
    started = [entry["case"] for entry in entries if entry["event"] == "case-started"]
    assert started == order.order_round([case.id for case in outcome.directory.cases], 7, 1)
    assert entries[-1]["event"] == "ended"
    assert received[-1]["left"] == 0


def test_its_directory_is_its_owner_s_and_holds_ordinary_runs(done):
    _, directory, _ = done
    assert all(path.stat().st_mode & 0o077 == 0 for path in directory.rglob("*"))
    document = json.loads((directory / "campaign.json").read_text())
    assert {item["id"] for item in document["cases"]} == {
        path.name for path in (directory / "runs").iterdir()
    }


def test_resuming_a_complete_campaign_changes_nothing(done):
    _, directory, _ = done
    before = {path: path.read_bytes() for path in (directory / "runs").rglob("*") if path.is_file()}
    assert resume(directory).exit_code == 5
    assert {path: path.read_bytes() for path in (directory / "runs").rglob("*") if path.is_file()} == before


def test_status_reports_progress(done, capfd):
    _, directory, _ = done
    assert main(["campaign", "status", str(directory), "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert output["state"] == "complete"
    assert output["counts"] == {"ok": 2, "out-of-memory": 1, "timeout": 1, "crashed": 1, "unsupported": 1}
    assert main(["campaign", "status", str(directory)]) == 0
    assert "complete" in capfd.readouterr().out


def test_a_second_campaign_in_the_same_directory_is_refused(done):
    _, directory, _ = done
    with pytest.raises(StoreError, match="campaign resume"):
        campaign(small(), directory)
    with pytest.raises(StoreError, match="no campaign"):
        resume(directory / "runs")


def test_two_controllers_cannot_carry_out_one_campaign(done, capfd):
    _, directory, _ = done
    stored = open_campaign(directory)
    code = f"from dlperf_sdk import resume; resume({str(directory)!r})"
    with stored.lock():
        assert status(stored).state == "running"
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f"another controller (process {os.getpid()} on " in answer.stderr
    assert status(stored).state == "complete"


def test_a_setting_that_is_none():
    with pytest.raises(UnknownName, match="Did you mean 'cooldown'"):
        campaign(small(), cooldwn=3)
    with pytest.raises(UnknownName, match="Did you mean 'timeout'"):
        Settings(retry={"timout": 1})


# -- what changed, and what was damaged


def damaged(directory, done):
    import shutil

    shutil.copytree(done[1], directory)
    return directory


def test_changes_since_the_last_session_are_reported_and_recorded(tmp_path, done):
    directory = damaged(tmp_path / "it", done)
    lines = (directory / "journal.jsonl").read_text().splitlines()
    session = json.loads(lines[0])
    session["host"]["dlperf-sdk"] = "0.0.1"
    session["host"]["machine"]["boot_id"] = "another"
    # As if it had been stopped after its first repeats.
    first = [
        line
        for line in lines[1:]
        if json.loads(line)["event"] in ("case-started", "attempt-started")
        or json.loads(line).get("attempt") == 1
    ]
    (directory / "journal.jsonl").write_text("\n".join([json.dumps(session), *first]) + "\n")
    for path in (directory / "runs").glob("*-numpy-*"):
        (path / "result.json").unlink()
    received = []
    outcome = resume(directory, watch=received.append)
    assert outcome.exit_code == 5
    changes = next(entry for entry in received if entry["event"] == "session")["changes"]
    assert any(change.startswith("dlperf-sdk: 0.0.1 before") for change in changes)
    assert "The machine was rebooted." in changes
    result = next(item for item in outcome.results() if item.status == "ok")
    assert any("dlperf-sdk: 0.0.1 before" in note for note in result.notes)


@pytest.mark.long
def test_damaged_attempts_are_measured_again(tmp_path, done):
    directory = damaged(tmp_path / "it", done)
    fine = [item.case.id for item in done[0].cases.values() if item.status == "ok"]
    (directory / "runs" / fine[0] / "result.json").write_text("{")
    (directory / "runs" / fine[0] / "attempts" / "2" / "rank-0.json").write_text("{}")
    import shutil

    shutil.rmtree(directory / "runs" / fine[1])
    received = []
    outcome = resume(directory, watch=received.append)
    problems = {entry["case"]: entry["text"] for entry in received if entry["event"] == "problem"}
    assert set(problems) == set(fine)
    assert "its directory is gone" in problems[fine[1]]
    for item in fine:
        result = outcome.directory.store.load(item)
        assert result.ok, result
        assert len(result.repeats) == 2
    assert [entry["case"] for entry in received if entry["event"] == "attempt-ended"].count(fine[0]) == 1


def test_changes_are_sentences():
    before = {"a": 1, "machine": {"gpus": [{"driver": "1"}]}}
    now = {"a": 1, "machine": {"gpus": [{"driver": "2"}], "kernel": "6"}}
    assert host_info.describe_changes(before, now) == [
        "machine.gpus[0].driver: 1 before, 2 now.",
        "machine.kernel: absent before, 6 now.",
    ]
    assert (
        host_info.describe_changes(host_info.describe_host(Registry()), host_info.describe_host(Registry()))
        == []
    )


def events_of_resuming(directory, **how):
    received = []
    resume(directory, watch=received.append, **how)
    return received


@pytest.mark.long
def test_attempts_of_another_spec_are_set_aside_and_measured_again(tmp_path, done):
    """Whoever edits campaign.json gets no mixture of two specs."""
    directory = damaged(tmp_path / "it", done)
    document = json.loads((directory / "campaign.json").read_text())
    fine = next(id for id, item in done[0].cases.items() if item.status == "ok")
    next(item for item in document["cases"] if item["id"] == fine)["spec"]["steps"] = 6
    (directory / "campaign.json").write_text(json.dumps(document))
    problems = [entry["case"] for entry in events_of_resuming(directory) if entry["event"] == "problem"]
    assert problems == [fine]
    result = open_campaign(directory).store.load(fine)
    assert result.spec.steps == 6
    assert [len(record.step_times) for repeat in result.repeats for record in repeat.records] == [6, 6]
    assert (directory / "set-aside" / f"{fine}-1" / "result.json").is_file()
    again = events_of_resuming(directory)
    assert not [entry for entry in again if entry["event"] in ("problem", "attempt-started")]


# -- failed cases, tried again


@pytest.mark.long
def test_failed_cases_are_retried_on_request(tmp_path, done):
    directory = damaged(tmp_path / "it", done)
    before = {id: item.status for id, item in done[0].cases.items()}
    received = events_of_resuming(directory, retry=["out-of-memory"])
    (again,) = [entry["case"] for entry in received if entry["event"] == "attempt-started"]
    assert before[again] == "out-of-memory"
    stored = open_campaign(directory)
    result = stored.store.load(again)
    assert result.status == "out-of-memory"
    assert any("Retried as requested" in note for note in result.notes)
    assert [attempt.attempt for attempt in stored.store.recover(again).attempts] == [1, 2]
    received = events_of_resuming(directory, retry=["failed"])
    tried = [before[entry["case"]] for entry in received if entry["event"] == "retried"]
    assert sorted(tried) == ["crashed", "out-of-memory", "timeout", "unsupported"]
    assert [entry["case"] for entry in received if entry["event"] == "concluded"].count(again) == 1
    assert {id: item.status for id, item in status(stored).cases.items()} == before
    quiet = events_of_resuming(directory)
    assert not [entry for entry in quiet if entry["event"] in ("retried", "attempt-started", "problem")]


def test_a_retry_that_was_killed_is_gone_on_with(tmp_path, done):
    """The old result still lies there, and must not stand for the new one."""
    directory = damaged(tmp_path / "it", done)
    failed = next(id for id, item in done[0].cases.items() if item.status == "out-of-memory")
    Journal(directory / "journal.jsonl").append("retried", case=failed, notes=[])
    assert status(open_campaign(directory)).counts["pending"] == 1
    received = events_of_resuming(directory)
    for event in ("attempt-started", "concluded"):
        assert [entry["case"] for entry in received if entry["event"] == event] == [failed]


def test_command_retries_failures_of_known_kinds(tmp_path, done, capfd):
    directory = damaged(tmp_path / "it", done)
    assert main(["campaign", "resume", str(directory), "--retry", "unsupported", "out-of-memory"]) == 5
    assert capfd.readouterr().err.count("Retried as requested") == 2
    assert main(["campaign", "resume", str(directory), "--retry", "lost-node"]) == 5
    assert "No case has ended in lost-node: no case is retried." in capfd.readouterr().err
    assert main(["campaign", "resume", str(directory), "--retry", "timout"]) == 2
    assert "Did you mean 'timeout'" in capfd.readouterr().err


# -- limits, rest and load


@pytest.mark.long
def test_a_case_may_take_only_so_long(tmp_path):
    fields = {**SMALL, "repeats": 1, "framework": "faulty"}
    matrix = Matrix(fields=fields, include=[{"options": {"fault": "hang-step"}}, {"seed": 3}])
    started_at = time.monotonic()
    outcome = campaign(matrix, tmp_path / "it", case_limit=10.0)
    assert time.monotonic() - started_at < 60
    by_fault = {item.case.spec.options.get("fault"): item for item in outcome.cases.values()}
    assert by_fault["hang-step"].status == "timeout"
    assert by_fault[None].status == "ok"
    assert not processes_with(outcome.directory.stamp)


@pytest.mark.long
def test_campaign_limit_stops_the_campaign_which_can_be_resumed(tmp_path):
    matrix = Matrix(fields={**SMALL, "repeats": 1}, axes={"framework": ["numpy"], "seed": [1, 2]})
    outcome = campaign(matrix, tmp_path / "it", campaign_limit=0.01)
    assert (outcome.ended, outcome.exit_code) == ("time-limit", 5)
    assert status(outcome.directory).state == "stopped"
    document = json.loads((tmp_path / "it" / "campaign.json").read_text())
    document["settings"]["campaign_limit"] = None
    (tmp_path / "it" / "campaign.json").write_text(json.dumps(document))
    assert resume(tmp_path / "it").exit_code == 0


def test_a_neighbor_is_noticed():
    burn = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    before = machine_load.take_snapshot()
    neighbor = subprocess.Popen(["/bin/sh", "-c", 'exec "$0" -c "$1" &', sys.executable, burn])
    neighbor.wait()  # what it started is no child of ours any more
    try:
        time.sleep(0.4)
        actual = machine_load.foreign_load(before, machine_load.take_snapshot())
        assert actual.share > 0.05
        assert machine_load.wait_for_quiet(0.001, 0.0).share > 0.001
        assert "other processes used" in machine_load.note(actual, "During repeat 1")
    finally:
        for line in processes_with("end = time.monotonic() + 30"):
            assert "python" in line
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if burn.encode() in words:
                    os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.long
def test_own_processes_are_not_counted_as_other_load():
    before = machine_load.take_snapshot()
    burn = "import time; end = time.process_time() + 1\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    after = machine_load.take_snapshot()
    ours = after.own_seconds - before.own_seconds
    assert ours >= 1.0
    assert (
        machine_load.foreign_load(before, after).share * (after.taken_at - before.taken_at) * os.cpu_count()
        <= after.busy - before.busy - 0.9
    )


def sampled(**rates):
    """Series of nodes over 10 s, whose counters grow so much a second: `busy0=1.0` is of node 0."""
    return tuple(
        counter(f"cpu-{name[:-1]}", "host", rate, 0.0, 10.0, 1.0, node=int(name[-1]))
        for name, rate in rates.items()
    )


def test_load_on_other_nodes_is_what_their_agents_measured():
    one = {"busy0": 3.0, "idle0": 1.0, "steal0": 0.0, "own0": 3.0}
    other = {"busy1": 3.0, "idle1": 1.0, "steal1": 0.0, "own1": 1.0}
    measured = repeat(series=sampled(**one, **other))
    nodes = [{"boot_id": "a"}, {"boot_id": "b"}]
    assert machine_load.foreign_load_by_node(measured, nodes, "elsewhere") == {0: 0.0, 1: pytest.approx(0.5)}
    # The controller looks at its own machine itself; nodes that share one are no strangers to each other.
    assert machine_load.foreign_load_by_node(measured, nodes, "b") == {0: 0.0}
    assert machine_load.foreign_load_by_node(measured, [{"boot_id": "a"}] * 2, "elsewhere") == {}
    assert machine_load.foreign_load_by_node(measured, [{}, {}], "elsewhere") == {}
    del other["own1"]
    measured = repeat(series=sampled(**one, **other))
    assert machine_load.foreign_load_by_node(measured, nodes, None) == {0: 0.0}
    assert "50 % of the cores of node 1" in machine_load.describe_node_load(1, 0.5, "During repeat 2")


def test_agent_separates_its_own_load_from_other_load(done):
    """The real thing: the agent's series of a repeat, seen as if it were another machine's."""
    outcome, _, _ = done
    result = next(item for item in outcome.results() if item.status == "ok")
    for stored_repeat in result.repeats:
        grown = {
            s.name: s.values[-1] - s.values[0]
            for s in stored_repeat.series
            if s.device == "host" and s.unit == "s"
        }
        assert 0.0 < grown["cpu-own"] <= grown["cpu-busy"] + 0.1
        share = machine_load.foreign_load_by_node(stored_repeat, result.hardware, "another machine")[0]
        whole = grown["cpu-busy"] + grown["cpu-idle"] + grown["cpu-steal"]
        assert share == pytest.approx(max(0.0, grown["cpu-busy"] - grown["cpu-own"]) / whole)


@pytest.mark.long
def test_load_on_another_node_and_other_processes_on_a_device_are_noted(tmp_path, monkeypatch):
    """Its agent, and nobody else, can tell: the controller is made to take itself for another machine."""
    real = host_info.describe_host
    monkeypatch.setattr(
        "dlperf_sdk.campaigns.runner.describe_host",
        lambda registry: {**real(registry), "machine": {**real(registry)["machine"], "boot_id": "another"}},
    )
    monkeypatch.setattr(
        machine_load, "foreign_load_by_node", lambda *about: messages.append(about) or {0: 0.43}
    )
    monkeypatch.setattr(machine_load, "count_device_processes", lambda repeat: {(0, "GPU-7"): 1})
    messages = []
    outcome = campaign(small(), tmp_path / "it")
    (result,) = outcome.results()
    assert sum("other processes used 43 % of the cores of node 0" in note for note in result.notes) == 2
    assert [here for _, _, here in messages] == ["another"] * 2
    assert [note for note in result.notes if "GPU-7" in note] == [
        f"During repeat {number}, another process computed on GPU-7 of node 0." for number in (1, 2)
    ]


def test_observers_hear_of_every_case(done, listener):
    outcome, _, received = done
    assert sorted(result.id for result in listener.results) == sorted(outcome.cases)
    ended = [entry for entry in received if entry["event"] == "attempt-ended"]
    assert listener.repeats == [(entry["case"], entry["attempt"], entry["status"]) for entry in ended]
    assert len(set(listener.repeats)) == len(listener.repeats)
    # Once for each time that a case is begun, which one that failed is anew; never for one that is refused.
    failed = {id: sum(item.failures.values()) for id, item in outcome.cases.items()}
    begun = {id: max(1, failed[id]) for id, item in outcome.cases.items() if item.status != "unsupported"}
    assert Counter(id for id, _ in listener.started) == begun
    assert all({"spec.json", "plan.json"} <= {*names} for _, names in listener.started)


@pytest.mark.long
def test_an_adaptive_protocol_decides_after_every_repeat(tmp_path):
    fields = {**SMALL, "protocol": "adaptive", "repeats": 2, "max_repeats": 3, "target": 1e-9}
    outcome = campaign(Matrix(fields=fields, axes={"framework": ["numpy"]}), tmp_path / "it")
    (result,) = outcome.results()
    assert len(result.repeats) == 3
    assert (result.stopping.rule, result.stopping.met) == ("adaptive", False)


# -- killed

CONTROLLER = textwrap.dedent(
    """
    import sys
    from dlperf_sdk import resume
    sys.exit(resume(sys.argv[1]).exit_code)
    """
)


def kept_with(directory, matrix):
    what = make_campaign(matrix, seed=11)
    stamp, entries = planning.plan_campaign(what, Registry())
    return create_campaign(directory, what, entries, stamp)


def essence(directory):
    """What a campaign comes to, but for times: the cases, their status, their repeats, and every loss to the bit."""
    stored = open_campaign(directory)
    actual = {}
    for case in stored.cases:
        result = stored.store.load(case.id)
        losses = [
            [
                (record.rank, record.samples, [replica.losses for replica in record.replicas])
                for record in repeat.records
            ]
            for repeat in result.repeats
        ]
        attempts = [attempt.attempt for attempt in stored.store.recover(case.id).attempts]
        verdicts = {
            verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"
        }
        numbers = [repeat.attempt for repeat in result.repeats]
        actual[case.id.removeprefix(stored.stamp)] = (result.status, numbers, attempts, losses, verdicts)
    return actual


def kill_and_resume(directory, kills):
    """SIGKILL the controller at random moments, resume it each time, let it end; the value is how often it was hit.

    The moments are told by the journal, a few lines on and a little later, so that a fast machine is hit as often as
    a slow one.
    """
    chance, hits = random.Random(5), 0
    stamp = open_campaign(directory).stamp
    while hits < kills:
        until = len(entries_of(directory)) + chance.randint(2, 7)
        with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(directory)]) as controller:
            while controller.poll() is None and len(entries_of(directory)) < until:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.4))
            ended = controller.poll() is not None
            controller.kill()
        if ended:
            break
        hits += 1
    answer = subprocess.run([sys.executable, "-c", CONTROLLER, str(directory)], timeout=500, check=False)
    assert not processes_with(stamp)
    return hits, answer.returncode


@pytest.mark.long
def test_a_campaign_that_is_killed_ends_as_one_that_is_not(tmp_path):
    matrix = Matrix(
        fields={**SMALL, "deadlines": {"step": 2.0}},
        axes={"framework": ["numpy"], "seed": [1]},
        include=[
            {"framework": "faulty", "options": {"fault": "out-of-memory"}},
            {"framework": "numpy", "precision": "amp-bf16"},
        ],
    )
    kept_with(tmp_path / "calm", matrix)
    assert resume(tmp_path / "calm").exit_code == 5
    kept_with(tmp_path / "hit", matrix)
    assert kill_and_resume(tmp_path / "hit", 2) == (2, 5)
    assert essence(tmp_path / "hit") == essence(tmp_path / "calm")
    ended = [(e["case"], e["attempt"]) for e in entries_of(tmp_path / "hit") if e["event"] == "attempt-ended"]
    assert len(set(ended)) == len(ended)


def test_ctrl_c_ends_everything_and_prints_how_to_resume(tmp_path):
    path = tmp_path / "matrix.yaml"
    fields = json.dumps({**SMALL, "framework": "faulty", "options": {"fault": "hang-step"}})
    path.write_text(f"name: mine\nfields: {fields}\naxes: {{seed: [1, 2]}}\n")
    directory = tmp_path / "it"
    command = [sys.executable, "-m", "dlperf_sdk", "campaign", "run", str(path), "--output", str(directory)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        deadline = time.monotonic() + 60
        while not any(e["event"] == "attempt-started" for e in entries_of(directory)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        controller.send_signal(signal.SIGINT)
        _, output = controller.communicate(timeout=60)
    assert controller.returncode == 130
    assert f"dlperf campaign resume {directory}" in " ".join(output.split())
    assert entries_of(directory)[-1]["event"] == "interrupted"
    assert not processes_with(open_campaign(directory).stamp)


@pytest.mark.framework
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_torch_and_numpy_killed_ten_times(tmp_path):
    """Twenty-five cases, two frameworks and a faulty one, ten kills, ten resumes."""
    tiny = {"batch_size": 1, "canonical_steps": 2, "warmup": 1, "steps": 2, "repeats": 2, "device": "cpu"}
    torch = {"framework": "torch", "model": "resnet50", "batch_size": 2, "options": {"image_size": 32}}
    toy = {"framework": "numpy", "model": "linear"}
    faulty = {"framework": "faulty", "model": "linear"}
    matrix = Matrix(
        fields=tiny,
        include=[
            {**toy, "batch_size": 4 * i, "topology": topology}
            for i in range(1, 11)
            for topology in ("1n1d", "1n2d")
        ]
        + [
            {**faulty, "options": {"fault": "out-of-memory"}},
            {**faulty, "options": {"fault": "hang-step"}, "deadlines": {"step": 2.0}},
            {**toy, "precision": "amp-bf16"},
            torch,
            {**torch, "batch_size": 4},
        ],
    )
    assert len(matrix) >= 24
    kept_with(tmp_path / "calm", matrix)
    calm = resume(tmp_path / "calm")
    assert [item.status for item in calm.cases.values() if item.case.spec.framework == "torch"] == ["ok"] * 2
    kept_with(tmp_path / "hit", matrix)
    assert kill_and_resume(tmp_path / "hit", 10) == (10, 5)
    assert essence(tmp_path / "hit") == essence(tmp_path / "calm")
