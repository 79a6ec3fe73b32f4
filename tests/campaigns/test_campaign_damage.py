"""What a resume makes of a directory that is no longer what its controllers left."""

from __future__ import annotations

import errno
import importlib
import inspect
import json
import os
import shutil
import signal

import attrs
import pytest
from test_runner import events_of_resuming, small

from dlperf_sdk import campaign, hookimpl, resume
from dlperf_sdk.campaigns.campaign_directory import open_campaign
from dlperf_sdk.campaigns.case_steps import read_environment
from dlperf_sdk.campaigns.journal import MOST_DAMAGES, MOST_LINES, Journal, lock
from dlperf_sdk.campaigns.status import status
from dlperf_sdk.errors import DocumentError, PluginError, SpecError, StoreError, Unavailable
from dlperf_sdk.execution import case
from dlperf_sdk.registry.plugins import Registry

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small campaign that is complete; nobody writes into it."""
    directory = tmp_path_factory.mktemp("whole") / "it"
    assert campaign(small(seed=[1, 2]), directory).exit_code == 0
    return directory


@pytest.fixture
def copy(tmp_path, whole):
    """A copy of it, elsewhere."""
    return shutil.copytree(whole, tmp_path / "copy")


def first_run(directory):
    return directory / "runs" / open_campaign(directory).cases[0].id


def altered(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def count(events, kind):
    return [entry["event"] for entry in events].count(kind)


def is_settled(directory):
    """Complete, with as many repeats as were asked for, and with nothing to say or to do."""
    events = events_of_resuming(directory)
    assert not [
        e for e in events if e["event"] in ("problem", "attempt-started", "attempt-lost", "concluded")
    ]
    assert {(item.finished, item.ok) for item in status(open_campaign(directory)).cases.values()} == {
        (2, True)
    }


def test_a_journal_of_empty_lines_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"\n" * (MOST_LINES + 1))
    with pytest.raises(StoreError, match="Remove it"):
        Journal(path).read()


def test_a_copied_directory_is_a_campaign_of_its_own(copy):
    is_settled(copy)


def test_a_directory_that_fails_in_the_middle_ends_the_campaign_which_can_be_resumed(tmp_path):
    directory = tmp_path / "it"

    class Saboteur:
        @hookimpl
        def dlperf_repeat_started(self, attempt):
            (first_run(directory) / "attempts").write_text("")

    with pytest.raises(Unavailable, match=r"Not a directory.*What is finished is kept.*campaign resume"):
        campaign(small(seed=[1]), directory, observers=[Saboteur()])
    (first_run(directory) / "attempts").unlink()
    assert resume(directory).exit_code == 0


def test_ctrl_c_is_reported_when_nothing_can_be_written(tmp_path):
    directory = tmp_path / "it"

    class Saboteur:
        @hookimpl
        def dlperf_repeat_started(self, attempt):
            journal = directory / "journal.jsonl"
            journal.unlink()
            journal.mkdir()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        campaign(small(seed=[1]), directory, observers=[Saboteur()])


def test_an_attempt_that_was_altered_is_set_aside_and_taken_again(copy):
    run = first_run(copy)

    def more(record):
        record["samples"] *= 2

    altered(run / "attempts" / "2" / "rank-0.json", more)
    events = events_of_resuming(copy)
    (output,) = {
        entry["text"].partition(" It lies")[0] for entry in events if entry["event"] == "problem"
    } - {"its result has other repeats than its directory, and is made again"}
    assert output == "Attempt 2 is not what it was when it had ended."
    assert (copy / "set-aside" / f"{run.name}-attempt-2-1" / "attempt.json").is_file()
    assert count(events, "attempt-started") == 1
    assert [repeat.attempt for repeat in open_campaign(copy).store.load(run.name).repeats] == [1, 3]
    is_settled(copy)


@pytest.mark.parametrize("file", ["attempt.json", "rank-0.json"])
def test_an_attempt_that_cannot_be_read_is_set_aside_and_taken_again(copy, file):
    run = first_run(copy)
    (run / "attempts" / "1" / file).write_text('{"half')
    events = events_of_resuming(copy)
    assert any("Attempt 1 cannot be read" in e["text"] for e in events if e["event"] == "problem")
    assert (copy / "set-aside" / f"{run.name}-attempt-1-1").is_dir()
    assert [repeat.attempt for repeat in open_campaign(copy).store.load(run.name).repeats] == [2, 3]
    is_settled(copy)


def test_an_attempt_that_is_gone_is_taken_again(copy):
    shutil.rmtree(first_run(copy) / "attempts" / "1")
    events = events_of_resuming(copy)
    assert any(e["text"] == "repeat 1 is gone, and is taken again" for e in events if e["event"] == "problem")
    assert count(events, "attempt-started") == 1
    is_settled(copy)


def test_result_that_contradicts_its_records_is_recomputed(copy):
    run = first_run(copy)
    before = json.loads((run / "result.json").read_text())["metrics"]

    def faster(result):
        for metric in result["metrics"]:
            if metric["name"].startswith("throughput"):
                metric["value"] *= 2
                metric["repeats"] = [2 * item for item in metric["repeats"]]

    altered(run / "result.json", faster)
    events = events_of_resuming(copy)
    (output,) = [entry["text"] for entry in events if entry["event"] == "problem"]
    assert output.startswith("its result is not what its records give, and is made again: throughput is ")
    assert (count(events, "attempt-started"), count(events, "concluded")) == (0, 1)
    assert json.loads((run / "result.json").read_text())["metrics"] == before
    is_settled(copy)


BREAKS = {
    "a plan that no plugin gives": ("dlperf_sdk.execution.case.make_plan", PluginError("It is gone.")),
    "a spec that no longer fits": ("dlperf_sdk.execution.case.make_plan", SpecError("It does not fit.")),
    "an environment": ("dlperf_sdk.execution.case.prepare_case", PluginError("It is gone.")),
    "a full disk": ("dlperf_sdk.planning.bundle.build", OSError(errno.ENOSPC, "No space left on device")),
    "a package": ("dlperf_sdk.planning.bundle.build", PluginError("It is gone.")),
}


@pytest.mark.parametrize(("place", "error"), BREAKS.values(), ids=BREAKS.keys())
def test_a_failure_of_one_case_does_not_end_the_campaign(tmp_path, monkeypatch, place, error):
    """The first case that comes to it fails, and the other one is measured."""
    name, _, attribute = place.rpartition(".")
    real, errors = getattr(importlib.import_module(name), attribute), [error]

    def fail_once(*args, **kwargs):
        if errors:
            raise errors.pop()
        return real(*args, **kwargs)

    monkeypatch.setattr(place, fail_once)
    outcome = campaign(small(seed=[1, 2]), tmp_path / "it", interleave=False, retry={"unavailable": 0})
    failed, fine = sorted(outcome.results(), key=lambda result: result.ok)
    assert (failed.status, fine.status) == ("unavailable", "ok")
    assert str(error.args[-1]) in failed.failure.message
    assert outcome.exit_code == 5


def test_a_result_that_breaks_its_schema_does_not_end_the_campaign(tmp_path, monkeypatch):
    """Its case is a failure of its own, and its attempts are kept."""
    real, breaks = case.summarize, [{"started_at": "yesterday"}]

    def summarize(one, finished_at):
        return attrs.evolve(real(one, finished_at), **(breaks.pop() if breaks else {}))

    monkeypatch.setattr(case, "summarize", summarize)
    outcome = campaign(small(seed=[1, 2]), tmp_path / "it", interleave=False)
    failed, fine = sorted(outcome.results(), key=lambda result: result.ok)
    assert (failed.status, fine.status) == ("invalid-record", "ok")
    assert "was not written" in failed.failure.message
    assert (outcome.directory.store.directory / failed.id / "attempts/1/attempt.json").exists()


def test_a_measurer_that_goes_missing_does_not_end_the_campaign(tmp_path, monkeypatch):
    real, errors = Registry.measurers, [PluginError("The measurer is gone.")]

    def measurers(self):
        if errors and stack_has("begin_case"):
            raise errors.pop()
        return real(self)

    monkeypatch.setattr(Registry, "measurers", measurers)
    outcome = campaign(small(seed=[1, 2]), tmp_path / "it", interleave=False, retry={"unavailable": 0})
    failed, fine = sorted(outcome.results(), key=lambda result: result.ok)
    assert (failed.status, fine.status) == ("unavailable", "ok")
    assert "The measurer is gone." in failed.failure.message


def stack_has(function):
    """Return True if a function of this name is being called."""
    return any(frame.function == function for frame in inspect.stack())


DAMAGES = {
    "no time": ("case-started", "time", None),
    "no time of an end": ("attempt-ended", "time", None),
    "no time of a session": ("session", "time", None),
    "unknown case": ("attempt-ended", "case", "another"),
    "unknown case that is concluded": ("concluded", "case", "another"),
    "no attempt": ("attempt-ended", "attempt", None),
    "attempt as text": ("attempt-ended", "attempt", "1"),
    "unknown status": ("attempt-ended", "status", "splendid"),
    "throughput as text": ("attempt-ended", "throughput", "fast"),
    "throughput beyond bounds": ("attempt-ended", "throughput", float("nan")),
    "seconds as a list": ("attempt-ended", "seconds", [1]),
    "notes as a number": ("attempt-ended", "notes", 3),
    "case as a list": ("attempt-ended", "case", []),
    "no status": ("concluded", "status", None),
    "ok as text": ("concluded", "ok", "yes"),
    "no host": ("session", "host", None),
    "changes as text": ("session", "changes", "many"),
}


def write_damaged(journal, event, field, value):
    """Change a field of the first entry of a kind, or leave it out; the value is the number of its line."""
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    number = next(i for i, entry in enumerate(entries) if entry["event"] == event)
    if value is None:
        del entries[number][field]
    else:
        entries[number][field] = value
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return number + 1


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_line_of_the_journal_is_skipped_and_rebuilt_from_the_attempts(copy, damage):
    journal = copy / "journal.jsonl"
    number = write_damaged(journal, *damage)
    (described,) = status(open_campaign(copy)).damages
    assert described.startswith(f"{journal}:{number}: The line is skipped: its field '{damage[1]}' is")
    events = events_of_resuming(copy)
    (output,) = [entry["text"] for entry in events if entry["event"] == "problem"]
    assert output.startswith(described)
    assert count(events, "attempt-started") == count(events, "attempt-lost") == 0
    progress = status(open_campaign(copy)).cases.values()
    assert {(item.finished, item.ok, item.status) for item in progress} == {(2, True, "ok")}


def test_many_damaged_lines_are_counted_and_reported_once(copy):
    journal = copy / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b"{}\n" * 300)
    damages = status(open_campaign(copy)).damages
    assert len(damages) == MOST_DAMAGES + 1
    assert damages[-1] == f"{journal}: 280 further lines are skipped."
    assert count(events_of_resuming(copy), "problem") == MOST_DAMAGES + 1
    assert count(events_of_resuming(copy), "problem") == 0


def test_journal_line_that_is_not_json_is_reported(copy):
    journal = copy / "journal.jsonl"
    journal.write_bytes(b"\0\0{\n" + journal.read_bytes())
    (output,) = [entry["text"] for entry in events_of_resuming(copy) if entry["event"] == "problem"]
    assert output.startswith(f"{journal}:1: The line is skipped: it is not JSON.")


def test_a_journal_that_is_a_pipe_is_refused(copy):
    (copy / "journal.jsonl").unlink()
    os.mkfifo(copy / "journal.jsonl")
    with pytest.raises(StoreError, match="is not a file"):
        status(open_campaign(copy))


@pytest.mark.timeout(60)  # whoever opens the pipe waits for a writer
@pytest.mark.parametrize("folder", ["runs", "set-aside"])
def test_a_campaign_is_not_written_through_a_link(copy, tmp_path, folder):
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(copy / folder, ignore_errors=True)
    (copy / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=f"{folder} is a symbolic link"):
        resume(copy)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_lock_that_is_a_pipe_is_refused(copy):
    (copy / "lock").unlink(missing_ok=True)
    os.mkfifo(copy / "lock")
    assert status(open_campaign(copy)).state != "running"
    with pytest.raises(StoreError, match="lock is not a file, but a pipe or a device"), lock(copy / "lock"):
        raise AssertionError


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"stamp": None},
        {"source": 1.5},
        {"overridden": [1]},
        {"settings": {"cooldown": "1"}},
        {"settings": {"interleave": 1}},
        {"settings": {"retry": {"crashed": True}}},
        {"settings": {"missing": None}},
    ],
    ids=str,
)
def test_campaign_with_values_of_wrong_types_is_refused(copy, change):
    altered(copy / "campaign.json", lambda document: document.update(change))
    with pytest.raises(DocumentError, match=r"campaign\.json does not describe a campaign"):
        open_campaign(copy)


def test_a_lock_that_may_only_be_read_is_seen(copy):
    """Of somebody else's campaign, to look at its status."""
    with open_campaign(copy).lock():
        (copy / "lock").chmod(0o400)
        opened = []
        real = os.open

        def note(path, flags, *rest, **named):
            opened.append(flags & (os.O_WRONLY | os.O_RDWR))
            return real(path, flags, *rest, **named)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "open", note)
            assert open_campaign(copy).is_locked()
    assert not any(opened)


def test_unreadable_recorded_versions_do_not_stop_a_campaign(tmp_path):
    path = tmp_path / "environment.json"
    assert read_environment(path) == {}
    path.write_text('{"lock": "a==1"')
    assert read_environment(path) == {}
    path.write_text('{"lock": "a==1"}')
    assert read_environment(path) == {"lock": "a==1"}
