"""What comes back from a machine without dlperf is somebody else's: it can be wrong or hostile in every way."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.cli import remote_runs
from dlperf_sdk.documents import schema
from dlperf_sdk.documents.field_types import LONGEST_NOTE
from dlperf_sdk.documents.reading import open_file
from dlperf_sdk.errors import (
    DlperfError,
    DocumentError,
    InvalidRecord,
    SpecError,
    StoreError,
    Unavailable,
    UsageError,
)
from dlperf_sdk.execution import case_record, packing, replay
from dlperf_sdk.execution.case_record import MOST_NOTES
from dlperf_sdk.interfaces.topology import Submission
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.consistency import check_directory
from dlperf_sdk.worker.agent import link


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The events of a real run of two replicas, carried back."""
    place = tmp_path_factory.mktemp("elsewhere")
    spec = RunSpec(
        framework="numpy", model="linear", topology="1n2d", batch_size=4, warmup=1, steps=5, repeats=2
    )
    packing.pack(spec, place / "case.pyz")
    command = [sys.executable, "-I", str(place / "case.pyz"), "run", "-o", str(place / "out")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in (place / "out" / "events.jsonl").read_bytes().splitlines()]


def ingested(events, folder):
    lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    return replay.replay(lines, folder / "store")


def changed(events, kind, **fields):
    """The same events, the first of a kind with other fields."""
    actual = [dict(event) for event in events]
    next(event for event in actual if event["event"] == kind).update(fields)
    return actual


def attempt(events):
    return json.loads(json.dumps(next(event for event in events if event["event"] == "attempt-ended")))


def test_replayed_stream_is_a_result(told, tmp_path):
    result = ingested(told, tmp_path)
    assert (result.status, len(result.repeats)) == ("ok", 2)
    assert result.environment.kind == "given"
    assert "\nnumpy==" in result.environment.lock


def test_a_long_note_is_cut(told, tmp_path):
    note = {"event": "note", "node": 0, "text": "busy " * 200_000}
    result = ingested([*told[:2], note, *told[2:]], tmp_path)
    assert result.status == "ok"
    (cut,) = (text for text in result.notes if "busy" in text)
    assert (len(cut), cut[-1]) == (LONGEST_NOTE, "…")


@pytest.mark.parametrize(
    "name", ["../../outside", "/tmp/outside", "..", ".", "", "a/b", "a\0b", "x" * 300, "-o", 3, None, ["a"]]
)
def test_a_run_names_no_place_outside_of_the_store(told, tmp_path, name):
    with pytest.raises(DlperfError):
        ingested(changed(told, "case", id=name), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"store"}
    assert not any((tmp_path / "store").glob("*"))


@pytest.mark.parametrize("name", ["../../../outside", "/tmp/outside", "rank-0/../../x", "rank-x", "", None])
def test_a_log_names_no_place_of_its_own(told, tmp_path, name):
    result = ingested(changed(told, "log", name=name), tmp_path)
    assert result.failure.kind == "invalid-record"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    written = [Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    assert not any("outside" in str(path) for path in written)


@pytest.mark.parametrize("kind", ["attempt-started", "progress", "attempt-ended", "something-else"])
@pytest.mark.parametrize("number", [[], {}, [0], None, "0", 1e400])
def test_invalid_attempt_number_is_not_an_internal_error(told, tmp_path, kind, number):
    at = next(i for i, event in enumerate(told) if event["event"] == "attempt-started")
    ended = {**attempt(told), "event": kind, "attempt": number}
    result = ingested([*told[:at], ended, *told[at:]], tmp_path)
    assert result.status in ("ok", "invalid-record")
    assert (result.status == "invalid-record") or kind != "attempt-ended"


RECORDS = {
    "none": lambda records: [],
    "one twice": lambda records: [records[0], records[0]],
    "one too few": lambda records: records[:1],
    "one too many": lambda records: [*records, {**records[1], "rank": 2}],
    "a rank that is none": lambda records: [{**records[0], "rank": -1}, records[1]],
    "a rank that is huge": lambda records: [records[0], {**records[1], "rank": 10**30}],
    "another attempt's": lambda records: [records[0], {**records[1], "attempt": 2}],
    "no objects": lambda records: [3, None],
    "samples of text": lambda records: [{**records[0], "samples": "many"}, records[1]],
    "samples below nothing": lambda records: [{**records[0], "samples": -8}, records[1]],
}


@pytest.mark.parametrize("change", RECORDS.values(), ids=RECORDS.keys())
def test_impossible_records_fail_the_result(told, tmp_path, change):
    ended = attempt(told)
    ended["records"] = change(ended["records"])
    result = ingested(changed(told, "attempt-ended", **ended), tmp_path)
    assert not result.ok, result.verdicts
    if result.failure is not None:
        assert is_consistent(tmp_path, result)


def is_consistent(folder, result):
    """Return True if `dlperf validate` finds nothing in the directory of a run."""
    return check_directory(folder / "store" / result.id, Registry().measurers()) == ()


ATTEMPTS = {
    "status": {"status": "splendid"},
    "series": {"series": [1]},
    "exits": {"exits": 5},
    "kind of failure": {"status": "splendid", "failure": {"kind": "splendid", "message": "Boo."}},
    "status of a failure": {"status": "timeout", "failure": {"kind": "crashed", "message": "Boo."}},
    "records of a failure": {
        "status": "crashed",
        "failure": {"kind": "crashed", "message": "Boo."},
        "records": [None],
    },
}


@pytest.mark.parametrize("fields", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_of_an_impossible_attempt_the_store_has_the_valid_parts(told, tmp_path, fields):
    result = ingested(changed(told, "attempt-ended", **fields), tmp_path)
    assert result.failure.kind == ("crashed" if "failure" in fields else "invalid-record")
    assert is_consistent(tmp_path, result)
    stored = json.loads((tmp_path / "store" / result.id / "attempts/1/attempt.json").read_text())
    assert (stored["status"], stored["failure"]["kind"]) == (result.status, result.status)
    assert len(stored["records"]) == (0 if "records" in fields else 2)


FIRST = {
    "spec": [None, 3, {}, {"framework": "numpy"}, {"framework": "../x", "model": "linear"}],
    "versions": [None, [], {"packages": []}, {"packages": 3}],
    "command": [None, 3],
    "parity": [3, {}, {"status": "ok"}],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in FIRST.items() for value in values]
)
def test_a_case_that_is_none_is_refused(told, tmp_path, name, value):
    with pytest.raises(DlperfError):
        ingested(changed(told, "case", **{name: value}), tmp_path)


VALUES = (None, True, "True", "x", -1, 0, 1e400, 1.5, [], {}, [[]], {"a": []}, "\x1b[2J", 10**30)


def places(value, path=()):
    """The paths to everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def mutated(events, draw):
    """The same events, with one value of one of them replaced or left out."""
    events = json.loads(json.dumps(events))
    event = draw.choice(events)
    *path, key = draw.choice(list(places(event)))
    for step in path:
        event = event[step]
    if draw.random() < 0.2:
        del event[key]
    else:
        event[key] = draw.choice(VALUES)
    return events


def test_a_stream_of_too_many_devices_is_refused_before_anything_is_stored(told, tmp_path):
    case = {**told[0]["spec"], "topology": "999999n64d@slurm"}
    with pytest.raises(SpecError, match="63,999,936 devices; a case may have at most 100,000"):
        ingested(changed(told, "case", spec=case), tmp_path)
    assert not list((tmp_path / "store").glob("*"))


@pytest.mark.parametrize("seed", range(40))
def test_a_mutated_stream_gives_a_typed_error_or_a_valid_result(told, tmp_path, seed):
    with suppress(DlperfError):
        ingested(mutated(told, random.Random(seed)), tmp_path)
    for path in tmp_path.rglob("result.json"):
        schema.check("result", json.loads(path.read_text()))


WRONG = {
    "a node of text": ("agents-ready", {"nodes": ["x"]}),
    "no nodes": ("agents-ready", {"nodes": None}),
    "too many nodes": ("agents-ready", {"nodes": [{}, {}]}),
    "negative memory": ("agents-ready", {"nodes": [{"memory": -5}]}),
    "memory of 301 digits": ("agents-ready", {"nodes": [{"memory": 10**300}]}),
    "a processor that is a list": ("agents-ready", {"nodes": [{"cpu": {"model": ["=cmd|x"]}}]}),
    "a host that steers a terminal": ("agents-ready", {"nodes": [{"host": "\x1b[2J"}]}),
    "a load that is not finite": ("agents-ready", {"nodes": [{"load": [float("nan"), 0.0, 0.0]}]}),
    "a failure of text": ("ended", {"failure": "boo"}),
    "a phase that is a list": ("ended", {"failure": {"kind": "crashed", "message": "x", "phase": []}}),
    "a rank of text": ("ended", {"failure": {"kind": "crashed", "message": "x", "rank": "0"}}),
    "a message that is a number": ("ended", {"failure": {"kind": "crashed", "message": 3}}),
}


@pytest.mark.parametrize(("kind", "fields"), WRONG.values(), ids=WRONG.keys())
def test_an_event_with_an_impossible_value_is_a_failure(told, tmp_path, kind, fields):
    result = ingested(changed(told, kind, **fields), tmp_path)
    assert result.status == "invalid-record"
    assert result.exit_code
    schema.check("result", json.loads((tmp_path / "store" / result.id / "result.json").read_text()))


@pytest.mark.parametrize("variables", [{"A": 1}, {"A": ["x"]}])
def test_variables_that_are_not_text_are_refused_before_storing(told, tmp_path, variables):
    spec = {**told[0]["spec"], "env": variables}
    with pytest.raises(DocumentError, match="env"):
        ingested(changed(told, "case", spec=spec), tmp_path)


def test_a_result_that_breaks_its_schema_is_not_written(told, tmp_path, monkeypatch):
    monkeypatch.setattr(case_record, "nodes_from", lambda event, count: ("x",))
    with pytest.raises(InvalidRecord, match=r"was not written: .*hardware\[0\]"):
        ingested(told, tmp_path)
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [b"\xff" * 100],
        [b"[" * 100_000],
        [b"{}"],
        [b'{"event": "ended"}'],
        [b'{"event": "case"}'],
        [b"3"],
    ],
    ids=range(8),
)
def test_input_that_is_not_a_stream_is_refused(tmp_path, lines):
    with pytest.raises((DocumentError, UsageError)):
        ingested(lines, tmp_path)


def test_the_result_is_dated_by_the_run(told, tmp_path):
    lines = changed(told, "case", time="2026-01-31T12:00:00+00:00")
    result = ingested(changed(lines, "ended", time="2026-01-31T12:05:00+00:00"), tmp_path)
    assert (result.started_at, result.finished_at) == (
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:05:00+00:00",
    )


@pytest.mark.parametrize("kind", ["case", "ended"])
@pytest.mark.parametrize(
    "time", [None, 3, "soon", "2026-01-31T12:00:00", "2026-01-31T12:00:00+02:00", "x" * 5000]
)
def test_what_is_no_time_is_refused(told, tmp_path, kind, time):
    with pytest.raises(
        DocumentError, match=f"The event {kind} of the stream has the time .*expected one in UTC"
    ):
        ingested(changed(told, kind, time=time), tmp_path)


@pytest.mark.parametrize("package", [{"a\nb": "1"}, {"a": "1\x1b]0;x\x07"}, {"": "1"}, {"a": "1 2"}])
def test_the_lock_file_has_a_package_per_line(told, tmp_path, package):
    with pytest.raises(DocumentError, match="expected a name and a version without blanks"):
        ingested(changed(told, "case", versions={"python": "3.11.7", "packages": package}), tmp_path)


@pytest.mark.parametrize("kind", ["case", "ended"])
def test_a_time_that_is_to_come_is_refused(told, tmp_path, kind):
    with pytest.raises(
        DocumentError, match=f"The event {kind} of the stream has the time 2999-.* still to come"
    ):
        ingested(changed(told, kind, time="2999-01-01T00:00:00+00:00"), tmp_path)


def test_a_run_that_was_cut_off_ends_after_its_start(told, tmp_path):
    start = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    result = ingested(changed(told, "case", time=start)[:-2], tmp_path)
    assert (result.started_at, result.finished_at) == (start, start)


def test_notes_are_not_endless(told, tmp_path):
    note = json.dumps({"event": "note", "text": "again", "node": 0}).encode()
    notes = ingested([*told[:-2], *[note] * (MOST_NOTES + 10), *told[-2:]], tmp_path).notes
    assert len(notes) <= MOST_NOTES + 2
    assert "Notes after the first 1,000 are left out." in notes


def test_a_long_run_may_have_any_number_of_heartbeats(told, tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "_MOST_LINES", 60)
    beats = [b'{"event": "heartbeat"}'] * 3000
    assert ingested([*beats, *told[:1], *beats, *told[1:]], tmp_path).failure is None


def test_a_run_cannot_end_before_its_start(told, tmp_path):
    with pytest.raises(DocumentError, match="ended at 2001-01-01T00:00:00[+]00:00, before it started at 20"):
        ingested(changed(told, "ended", time="2001-01-01T00:00:00+00:00"), tmp_path)


@pytest.mark.parametrize("cut", [1, 3, 5, 8])
def test_truncated_stream_is_a_failed_run_with_its_finished_repeats(told, tmp_path, cut):
    result = ingested(told[:-cut], tmp_path)
    assert result.failure is not None or len(result.repeats) == 2
    assert len(result.repeats) <= 2


def test_a_success_without_all_repeats_is_a_failure(told, tmp_path):
    """As of a stream that claims 100,000 repeats, or from which an attempt was cut."""
    claimed = [dict(event) for event in told]
    claimed[0] = {**claimed[0], "spec": {**claimed[0]["spec"], "repeats": 100_000}}
    result = ingested(claimed, tmp_path / "claimed")
    assert (result.failure.kind, len(result.repeats), result.stopping) == ("invalid-record", 2, None)
    assert result.failure.message.startswith("The stream reports success after 2 of 100,000 repeats")
    last = max(i for i, event in enumerate(told) if event["event"] == "attempt-ended")
    result = ingested([*told[:last], *told[last + 1 :]], tmp_path / "cut")
    assert (result.failure.kind, len(result.repeats)) == ("invalid-record", 1)


def test_a_repeat_that_ends_twice_is_a_failure(told, tmp_path):
    result = ingested([*told[:-2], attempt(told), *told[-2:]], tmp_path)
    assert (result.failure.kind, [repeat.attempt for repeat in result.repeats]) == ("invalid-record", [1, 2])
    assert result.failure.message == "Repeat 1 of the stream ends twice."


def lines_of(path):
    with open_file(path) as file:
        yield from remote_runs._lines(file, path)


def test_lines_are_not_endless(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "LONGEST_LINE", 50)
    (tmp_path / "events.jsonl").write_bytes(b"short\n" + b"x" * 60)
    with pytest.raises(DocumentError, match="Line 2 has more than 50 bytes"):
        list(lines_of(tmp_path / "events.jsonl"))


@pytest.mark.parametrize(
    "line", [b"\n", b"Welcome\n", b'{"event": "note", "text": "again"}\n', b'{"event":"heartbeat"}\n']
)
def test_a_stream_has_no_more_lines_than_a_run_writes(told, tmp_path, monkeypatch, line):
    """Each is counted before it is parsed, and none after the last one that a run of the case writes."""
    monkeypatch.setattr(replay, "_MOST_LINES", 50)
    monkeypatch.setattr(replay, "_LINES_PER_DEVICE", 25)
    parsed = []
    monkeypatch.setattr(replay, "parse_event", lambda line: parsed.append(line) or json.loads(line))
    if line.startswith(b"{"):
        first, last = (json.dumps(event).encode() for event in (told[0], told[-1]))
        with pytest.raises(DocumentError, match="of this case may have 100 lines apart from heartbeats"):
            ingested([first, *[line] * 1000, last], tmp_path)
        assert len(parsed) == 100
    else:
        monkeypatch.setattr(replay, "parse_event", parsed.append)
        with pytest.raises(DocumentError, match="may have 50 lines apart from heartbeats"):
            ingested([line] * 1000, tmp_path)
        assert len(parsed) == 50


def test_progress_in_a_file_is_not_parsed(tmp_path, monkeypatch):
    (tmp_path / "e").write_bytes(
        b'{"event": "heartbeat"}\n{"event": "progress", "step": 1}\n{"event": "case"}\n'
    )
    assert [*lines_of(tmp_path / "e")] == [b'{"event": "case"}\n']
    monkeypatch.setattr(remote_runs, "_MOST_LINES", 2)
    with pytest.raises(DocumentError, match="may have 2 lines"):
        list(lines_of(tmp_path / "e"))


def test_a_stream_is_read_from_a_regular_file_only(tmp_path):
    os.mkfifo(tmp_path / "events.jsonl")
    for source in (tmp_path / "events.jsonl", Path("/dev/zero")):
        with pytest.raises(DocumentError, match="is not a file"):
            list(lines_of(source))


def test_line_that_needs_too_much_memory_is_refused(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"event": [' + "{}," * 2_000_000 + "1]}\n")
    with pytest.raises(DocumentError, match="Line 1 would take .* MiB of memory"):
        list(lines_of(tmp_path / "events.jsonl"))


def test_case_in_a_container_cannot_be_bundled(tmp_path):
    spec = RunSpec(framework="numpy", model="linear", container="podman:image")
    with pytest.raises(UsageError, match="names the container podman:image"):
        packing.pack(spec, tmp_path / "case.pyz")
    assert not list(tmp_path.iterdir())


class Batch(Local):
    name = "batch"

    def submission(self, job, file):
        if job.nodes > 2:
            raise Unavailable("The scheduler has 2 nodes.")
        return Submission(b"#SUBMIT\n" + job.bundle.read_bytes(), (f"submit {file}",))


def packed_for_batch(path, **fields):
    registry = Registry({"topologies": {"batch": Batch}})
    spec = RunSpec(**{"framework": "numpy", "model": "linear", "topology": "2n1d@batch", **fields})
    return packing.pack(spec, path, registry)


def test_launcher_makes_its_file_of_the_bundle(tmp_path):
    path = tmp_path / "job"
    packed, commands = packed_for_batch(path)
    assert path.read_bytes().startswith(b"#SUBMIT\nPK")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert packed.path == path
    assert commands == (f"submit {path}",)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"topology": "3n1d@batch"}, Unavailable, "has 2 nodes"),
        ({"env": {"MY_TOKEN": "hf_0123"}}, UsageError, "The file for batch would hold the value of MY_TOKEN"),
    ],
)
def test_refused_file_is_not_left_behind(tmp_path, fields, error, message):
    with pytest.raises(error, match=message):
        packed_for_batch(tmp_path / "job", **fields)
    assert not list(tmp_path.iterdir())


def test_second_run_of_a_bundle_does_not_get_the_result_of_the_first(told, tmp_path):
    """Both have the name that the bundle contains."""
    first = ingested(told, tmp_path)
    assert ingested(told, tmp_path).metrics == first.metrics
    files = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*.json")}
    second = json.loads(json.dumps(told))
    for event in second:
        for record in event.get("records", ()) if event["event"] == "attempt-ended" else ():
            record["window"]["end"] += 1.0
    second[0]["versions"]["packages"]["other"] = "1.0"
    with pytest.raises(StoreError, match="the bundle was run more than once"):
        ingested(second, tmp_path)
    assert {path: path.read_bytes() for path in files} == files


def test_truncated_stream_does_not_replace_a_complete_result(told, tmp_path):
    ingested(told, tmp_path)
    (path,) = (tmp_path / "store").rglob("result.json")
    content = path.read_bytes()
    with pytest.raises(StoreError, match="already has the complete result"):
        ingested(told[:-4], tmp_path)
    assert path.read_bytes() == content


def test_run_of_another_case_is_not_continued(told, tmp_path):
    ingested(told, tmp_path)
    spec = {**told[0]["spec"], "seed": 5}
    with pytest.raises(StoreError, match="of another case"):
        ingested(changed(told, "case", spec=spec), tmp_path)
