"""The store: written as it goes, whole or not at all, private, and never outside its directory."""

import datetime
import errno
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs
import pytest
import record_samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_values import results

from dlperf_sdk.documents.json_values import number, numbers
from dlperf_sdk.errors import DlperfError, DocumentError, StoreError, UnknownName
from dlperf_sdk.results import files, run_directory
from dlperf_sdk.results import records as r
from dlperf_sdk.results import result as res
from dlperf_sdk.results import store as store_module
from dlperf_sdk.results.convert import attempt_from_dict, record_to_dict, to_plain
from dlperf_sdk.results.recovery import Unreadable
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.spec.run_spec import RunSpec

SPEC = RunSpec(framework="torch", model="resnet50", topology="1n2d", env={"TOKEN": "secret"})


def test_a_store_has_a_name():
    with pytest.raises(StoreError, match="name a directory"):
        ResultStore("")


def record(rank=0, attempt=1):
    losses = (2.5, float("nan"))
    changes = {"parameters": r.TensorChanges(2, ("bias",), ())}
    replica = r.Replica(
        rank,
        f"cpu:{rank}",
        "d1ge57",
        losses,
        losses,
        losses,
        changes,
        r.BatchAccount(2, (1,)),
        losses,
        r.ExchangedBuffers(2, 9, 36, ("bucket 1",)),
    )
    return record_samples.record(
        rank,
        attempt,
        (1.0, 1.0),
        request="run-1",
        window=r.Window(10.0, 12.0),
        replicas=(replica,),
        deviation=None,
        prefetched_batches=2,
        peak_device_memory=None,
        phases={"start": 1.0},
        facts={"framework_version": "2.0"},
    )


def event(attempt=1, ranks=2):
    return {
        "event": "attempt-ended",
        "attempt": attempt,
        "status": "ok",
        "failure": None,
        "records": [record_to_dict(record(rank, attempt)) for rank in range(ranks)],
        "exits": [
            attrs.asdict(r.Exit(0, "trainer", rank, 100 + rank, 0, None, "done")) for rank in range(ranks)
        ],
        "series": [],
    }


def log(name="rank-0", text="hello é\n", attempt=1):
    return {"event": "log", "attempt": attempt, "name": name, "text": text}


def result(run_id="run-1", **fields):
    return res.Result(
        **{
            "id": run_id,
            "status": "ok",
            "failure": None,
            "spec": SPEC,
            "facts": (),
            "metrics": (),
            "verdicts": (),
            "repeats": (r.Repeat(1, (record(0), record(1))),),
            "stopping": res.Stopping("fixed", True, "7 repeats"),
            "environment": ENVIRONMENT,
            "hardware": ({"host": "node-a"},),
            "workload": None,
            "notes": (),
            "started_at": "2025-01-31T10:15:02Z",
            "finished_at": "2025-01-31T10:16:02Z",
            "sdk_version": "0.1.0",
            **fields,
        }
    )


KILLED = "rank-1 was ended by SIGKILL"
ENVIRONMENT = res.Environment(
    "managed", "3.11.4", "torch==2.0\n", ("python",), {"OMP_NUM_THREADS": "1"}, "x 1"
)


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")


def whole(one):
    """A result with its records, as it was before it was written."""
    return attrs.evolve(one, repeats=tuple(one.repeats))


def tree(path):
    return sorted(str(one.relative_to(path)) for one in path.rglob("*") if one.is_file())


def test_a_run_from_its_start_to_its_result(store):
    run = store.open_run("run-1")
    run.write_spec(SPEC)
    run.write_plan({"processes": []})
    run.write_environment(ENVIRONMENT)
    run.write_attempt(event(1))
    run.append_log(log("rank-0"))
    run.append_log(log("service-0"))
    measured = result(repeats=(attempt_from_dict(event(1)).repeat,))
    run.write_result(measured)
    run.write_report("# A report\n")
    assert tree(run.path) == [
        "attempts/1/attempt.json",
        "attempts/1/rank-0.json",
        "attempts/1/rank-0.log",
        "attempts/1/rank-1.json",
        "attempts/1/service-0.log",
        "environment.json",
        "lock.txt",
        "plan.json",
        "report.md",
        "result.json",
        "spec.json",
    ]
    assert RunSpec.from_dict(json.loads((run.path / "spec.json").read_text())) == SPEC
    assert (run.path / "lock.txt").read_text() == "torch==2.0\n"
    assert (run.path / "attempts/1/rank-0.log").read_text(encoding="utf-8") == "hello é\n"
    for which in ("run-1", run.path, str(run.path), run.path / "result.json"):
        loaded = store.load(which)
        assert len(loaded.repeats) == 1 and repr(loaded.repeats) == "<the repeats 1, in the store>"
        assert repr(whole(loaded)) == repr(measured)


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(results())
def test_every_result_comes_back_from_the_disk(tmp_path_factory, one):
    store = ResultStore(tmp_path_factory.mktemp("store"))
    store.open_run(one.id).write_result(one)
    assert repr(whole(store.load(one.id))) == repr(one)


def test_repeats_are_read_lazily(store):
    run = store.open_run("run-1")
    run.write_result(result(repeats=tuple(r.Repeat(number, (record(0, number),)) for number in (1, 2, 5))))
    assert json.loads((run.path / "result.json").read_text())["repeats"] == [1, 2, 5]
    loaded, again = store.load("run-1"), store.load("run-1")
    assert [repeat.attempt for repeat in loaded.repeats] == [1, 2, 5]
    assert repr(loaded.repeats[2].records) == repr((record(0, 5),))
    assert repr(loaded.repeats[1:]) == repr(tuple(loaded.repeats)[1:])
    (run.path / "attempts/5/attempt.json").unlink()
    assert loaded.repeats[2].attempt == 5, "it has been read"
    assert len(again.repeats) == 3 and again.exit_code == 0
    with pytest.raises(DocumentError, match=r"records of attempt 5, which belong to .*cannot be read"):
        again.repeats[0]


def test_stored_repeats_equal_the_tuple_of_them(store):
    plain = attrs.evolve(record(), replicas=())
    one = result(repeats=(r.Repeat(1, (plain,)),))
    store.open_run("run-1").write_result(one)
    loaded = store.load("run-1")
    assert loaded == one and one == loaded and loaded == store.load("run-1")
    assert loaded != attrs.evolve(one, repeats=()) and loaded.repeats != [1]


def test_files_are_readable_by_their_owner_only(store):
    previous = os.umask(0)
    try:
        run = store.open_run("run-1")
        run.write_spec(SPEC)
        run.write_attempt(event())
        run.write_result(result())
    finally:
        os.umask(previous)
    for path in (store.directory, *store.directory.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# -- a crash loses no finished repeat


def test_finished_repeats_are_recovered(store):
    run = store.open_run("run-1")
    run.write_spec(SPEC)
    for attempt in (1, 2, 10):
        run.write_attempt(event(attempt))
    left = store.recover("run-1")
    assert left.spec == SPEC
    assert [attempt.attempt for attempt in left.attempts] == [1, 2, 10]
    assert repr(left.attempts[1].repeat.records) == repr((record(0, 2), record(1, 2)))
    assert left.attempts[1].exits[0].pid == 100
    assert left.unreadable == ()


def test_attempts_that_cannot_be_listed_are_a_failure_of_the_store(store, monkeypatch):
    store.open_run("run-1").write_attempt(event(1))
    listing = Path.iterdir

    def fail(path):
        if path.name == "attempts":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", fail)
    with pytest.raises(StoreError, match=r"run-1/attempts cannot be read: Input/output error"):
        store.recover("run-1")


def test_recover_a_failed_attempt(store):
    run = store.open_run("run-1")
    run.write_spec(SPEC)
    failure = {
        "kind": "crashed",
        "message": KILLED,
        "phase": "measure",
        "node": 0,
        "rank": 1,
    }
    output = {"kind": "crashed", "phase": "measure", "type": "E", "message": "m", "traceback": None}
    head = {"schema_version": "1.0", "request": "run-1", "attempt": 2, "rank": 1, "node": 0}
    failed = {**event(2), "status": "crashed", "failure": failure}
    failed["records"][1] = {**head, "status": "failed", "failure": output}
    run.write_attempt(failed)
    (attempt,) = store.recover("run-1").attempts
    assert attempt.status == "crashed"
    assert attempt.failure == r.Failure("crashed", KILLED, "measure", 0, 1)
    assert [one.rank for one in attempt.records] == [0]


def test_unrecoverable_repeats_are_reported(store):
    run = store.open_run("run-1")
    run.write_attempt(event(1))
    run.write_attempt({**event(2), "records": [{"rank": 0, "garbage": True}]})
    run.write_attempt(event(3))
    (run.path / "attempts/3/attempt.json").unlink()  # the crash came before the last file
    run.write_attempt(event(4))
    (run.path / "attempts/4/rank-0.json").write_text('{"half": ')
    left = store.recover("run-1")
    assert [attempt.attempt for attempt in left.attempts] == [1]
    assert left.spec is None
    assert [one.path.name for one in left.unreadable] == ["2", "3", "4", "spec.json"]


CRASH_AT = ["write", "fsync", "rename"]


@pytest.mark.parametrize("call", CRASH_AT)
def test_a_crash_at_any_moment_leaves_whole_files(store, monkeypatch, call):
    """Each call that touches the disk fails once, in its turn; what was finished before stays readable."""
    run = store.open_run("run-1")
    run.write_spec(SPEC)
    run.write_attempt(event(1))
    real = {"fsync": os.fsync, "rename": os.rename, "write": files.write_whole}[call]
    for fatal in range(1, 40):
        count = 0

        def crashing(*args, fatal=fatal, **kwargs):
            nonlocal count
            count += 1
            if count == fatal:
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        if call == "write":
            monkeypatch.setattr("dlperf_sdk.results.run_directory.write_whole", crashing)
        else:
            monkeypatch.setattr(os, call, crashing)
        try:
            run.write_attempt(event(2, ranks=4))
        except KeyboardInterrupt:
            for path in run.path.rglob("*.json"):
                json.loads(path.read_text())
            finished = [attempt.attempt for attempt in store.recover("run-1").attempts]
            assert finished in ([1], [1, 2])
            assert not list(run.path.rglob(".*")), "a partial file was left"
        else:
            break
    assert 5 < fatal < 39
    monkeypatch.undo()
    assert len(store.recover("run-1").attempts) == 2


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(store):
    run = store.open_run("run-1")
    run.write_report("0" * 100_000)
    program = (
        "import sys; from dlperf_sdk.results.store import ResultStore\n"
        "run = ResultStore(sys.argv[1]).reopen_run('run-1'); print('ready', flush=True)\n"
        "for i in range(10**9): run.write_report(str(i % 10) * 100_000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, store.directory], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(200):
            text = (run.path / "report.md").read_text()
            assert len(text) == 100_000
            assert len(set(text)) == 1
    finally:
        writer.kill()
        writer.communicate()
    assert len(set((run.path / "report.md").read_text())) == 1


# -- a directory that cannot be used is found out before the run


def test_probe_leaves_nothing(store):
    store.probe()
    assert list(store.directory.iterdir()) == []


def test_a_file_where_the_directory_should_be(tmp_path):
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "results"):
        with pytest.raises(
            StoreError, match=r"cannot be written.*is not a directory; choose one with --output"
        ):
            ResultStore(directory).probe()
        with pytest.raises(StoreError, match=str(tmp_path / "file")):
            ResultStore(directory).open_run("run-1")


def test_a_directory_that_even_root_cannot_write():
    with pytest.raises(StoreError, match="/proc/results cannot be written"):
        ResultStore("/proc/results").probe()


def test_directory_of_another_user_is_refused():
    if os.getuid() != 0:
        pytest.skip("needs root, to become somebody else: without it, this check of permissions is NOT made")
    with tempfile.TemporaryDirectory() as parent:  # pytest's own would hide behind its private parent
        Path(parent).chmod(0o755)
        directory = Path(parent) / "results"
        directory.mkdir(mode=0o755)
        _refused_to_somebody_else(directory)


def _refused_to_somebody_else(directory):
    source = Path(files.__file__).parents[2]
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from dlperf_sdk.results.store import ResultStore; import os; os.setgid(65534); os.setuid(65534)\n"
        "try: ResultStore(sys.argv[1]).probe()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", program, directory, source]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"StoreError {directory} cannot be written: Permission denied")


def test_a_full_disk(store, monkeypatch):
    """A limit on the size of files stands for it first, then the very error of a full disk."""
    program = (
        "import resource, sys; from dlperf_sdk.results.store import ResultStore\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: ResultStore(sys.argv[1]).probe()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", program, store.directory]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"StoreError {store.directory} cannot be written: File too large")
    assert list(store.directory.iterdir()) == []

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device; make room on its disk"):
        store.probe()
    assert list(store.directory.iterdir()) == []


def test_a_file_system_that_cannot_make_a_directory_durable_can_hold_a_store(store, monkeypatch):
    fsync = os.fsync

    def refuse_directories(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    store.open_run("run-1").write_attempt(event(1))
    assert len(store.recover("run-1").attempts) == 1


def test_a_run_is_not_written_over(store):
    store.open_run("run-1")
    with pytest.raises(StoreError, match="already a run run-1"):
        store.open_run("run-1")
    assert store.reopen_run("run-1").path == store.directory / "run-1"


# -- nothing outside

HOSTILE = ["..", ".", "", "../x", "/etc", "a/b", "a\0b", "a\n", "-x", ".hidden", "x" * 129, "é", "a b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(store, tmp_path, name):
    store.open_run("run-1")
    before = tree(tmp_path)
    with pytest.raises(StoreError, match="cannot name a run"):
        store.open_run(name)
    with pytest.raises(UnknownName):
        store.reopen_run(name)
    with pytest.raises(UnknownName):
        store.recover(name)
    assert tree(tmp_path) == before


@given(st.text())
def test_names_cannot_escape_the_store(tmp_path_factory, name):
    directory = tmp_path_factory.getbasetemp() / "inside"
    try:
        path = ResultStore(directory).open_run(name).path
    except StoreError:
        return
    assert path.resolve().parent == directory.resolve()
    path.rmdir()


@pytest.mark.parametrize(
    "name", ["../../evil", "rank-0/../../x", "spec", "rank-0\n", "", "rank-", "/tmp/x", None]
)
def test_a_log_cannot_choose_its_path(store, name):
    run = store.open_run("run-1")
    with pytest.raises(DocumentError, match="expected a piece of a log"):
        run.append_log(log(name))
    assert tree(store.directory) == []


@pytest.mark.parametrize("number", [None, "1", -1, "../..", 1.5, 10**30])
def test_an_attempt_cannot_choose_its_path(store, number):
    run = store.open_run("run-1")
    with pytest.raises(DocumentError, match="attempt's number"):
        run.write_attempt({**event(), "attempt": number})
    with pytest.raises(DocumentError, match="attempt's number"):
        run.append_log(log(attempt=number))
    assert tree(store.directory) == []


def test_records_without_a_rank_are_kept(store):
    run = store.open_run("run-1")
    run.write_attempt(
        {**event(), "records": [{"rank": "../../evil"}, {"rank": 0}, {"rank": 0}, "garbage", {"rank": -1}]}
    )
    assert [name for name in tree(run.path) if name.endswith(".json")] == [
        f"attempts/1/{name}"
        for name in (
            "attempt.json",
            "rank-0-2.json",
            "rank-0.json",
            "record-0.json",
            "record-3.json",
            "record-4.json",
        )
    ]


def test_attempt_file_cannot_name_paths_outside(store):
    run = store.open_run("run-1")
    run.write_spec(SPEC)
    run.write_attempt(event())
    path = run.path / "attempts/1/attempt.json"
    for name in ("../../spec.json", "/etc/passwd", 5, "rank-0.json/..", None):
        path.write_text(json.dumps({**json.loads(path.read_text()), "records": [name]}))
        (problem,) = store.recover("run-1").unreadable
        assert "does not list its records" in str(problem.error)


def test_links_are_not_written_through(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    run = store.open_run("run-1")

    (run.path / "attempts").symlink_to(outside)
    with pytest.raises(StoreError, match="the path is a symbolic link"):
        run.write_attempt(event())
    (run.path / "attempts").unlink()
    (run.path / "attempts").mkdir()
    (run.path / "attempts/1").symlink_to(outside)
    with pytest.raises(StoreError, match="the path is a symbolic link"):
        run.write_attempt(event())

    # A link where the file itself should be is replaced, not followed.
    (run.path / "report.md").symlink_to(outside / "precious")
    run.write_report("ours")
    assert (run.path / "report.md").read_text() == "ours"
    assert not (run.path / "report.md").is_symlink()

    (store.directory / "run-2").symlink_to(outside)
    with pytest.raises(StoreError, match="already a run"):
        store.open_run("run-2")
    with pytest.raises(StoreError, match="the path is a symbolic link"):
        store.reopen_run("run-2").write_spec(SPEC)
    assert tree(outside) == ["precious"]
    assert (outside / "precious").read_text() == "mine"


def test_a_store_may_itself_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to("disk")
    ResultStore(tmp_path / "results").open_run("run-1").write_spec(SPEC)
    assert tree(tmp_path / "disk") == ["run-1/spec.json"]


# -- reading


def test_runs_are_listed_from_the_newest(store):
    assert store.ids() == ()
    assert list(store) == []
    days = [datetime.datetime(2025, 1, day, 12, tzinfo=datetime.UTC) for day in (3, 1, 2)]
    names = [new_run_id(SPEC, day) for day in days]
    assert re.fullmatch("20250103T120000Z-torch-resnet50-1n2d-[0-9a-f]{6}", names[0])
    for name in names:
        store.open_run(name).write_result(result(name))
    old = store.open_run("a-name-of-my-own")
    os.utime(old.path, (0, 0))
    (store.directory / ".hidden").mkdir()
    (store.directory / "file").touch()
    assert store.ids() == (names[0], names[2], names[1], "a-name-of-my-own")


def test_removed_run_does_not_hide_others(store, monkeypatch):
    """In the moment between finding its directory and asking for its age."""
    for name in ("mine", "yours"):
        store.open_run(name)
    age = store_module._age

    def removing(entry):
        if entry.name == "mine":
            Path(entry.path).rmdir()
        return age(entry)

    monkeypatch.setattr(store_module, "_age", removing)
    assert store.ids() == ("yours",)


def test_names_differ_and_are_names(store):
    now = datetime.datetime.now(datetime.UTC)
    names = {new_run_id(SPEC, now) for _ in range(50)}
    assert len(names) == 50
    longest = RunSpec(framework="x" * 128, model="y" * 128, topology="999999n999999d@" + "z" * 100)
    store.open_run(new_run_id(longest, now))


def test_nothing_is_skipped_silently(store):
    for name in (
        "20250101T000000-good",
        "20250102T000000-corrupt",
        "20250103T000000-newer",
        "20250104T000000-going",
    ):
        store.open_run(name)
    store.reopen_run("20250101T000000-good").write_result(result("20250101T000000-good"))
    (store.directory / "20250102T000000-corrupt/result.json").write_text('{"id": ')
    newer = {**result("n").to_dict(), "schema_version": "2.0"}
    (store.directory / "20250103T000000-newer/result.json").write_text(json.dumps(newer))
    going, new, corrupt, good = store
    assert good.id == "20250101T000000-good"
    assert all(isinstance(one, Unreadable) for one in (going, new, corrupt))
    assert "no result.json: the run is still going" in str(going.error)
    assert "version 2.0, this dlperf-sdk reads 1.x: update it" in str(new.error)
    assert corrupt.path.name == "result.json"
    assert "not valid JSON" in str(corrupt.error)


def test_a_run_that_is_not_there(store, tmp_path):
    for name in ("20250101T000000-torch", "20250102T000000-mxnet"):
        store.open_run(name)
    with pytest.raises(UnknownName, match=r"Did you mean '20250101T000000-torch'.*holds 2 runs"):
        store.load("20250101T000000-troch")
    with pytest.raises(StoreError, match=r"no result\.json"):
        store.load("20250101T000000-torch")
    for path in (
        tmp_path / "nowhere.json",
        tmp_path / "nowhere",
        "some/where/result.json",
        "a\0b",
        "../result.json",
    ):
        with pytest.raises(DlperfError):
            store.load(path)


def test_a_result_that_contradicts_itself(store):
    run = store.open_run("run-1")
    document = result().to_dict()
    for change in (
        {"status": "crashed"},
        {"failure": {"kind": "crashed", "message": "m"}},
        {"status": "timeout", "failure": {"kind": "crashed", "message": "m"}},
        {"id": "../../etc"},
        {"spec": {**document["spec"], "accumulation": 5}},
    ):
        (run.path / "result.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(DocumentError):
            store.load("run-1")


def test_a_note_has_a_maximum_length(store):
    run = store.open_run("run-1")
    document = {**result().to_dict(), "notes": ["busy " * 200_000]}
    (run.path / "result.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=r"\$\.notes\[0\]: .*expected 16000 characters or fewer"):
        store.load("run-1")


def test_a_window_that_ends_before_it_starts(store):
    run = store.open_run("run-1")
    document = result().to_dict()
    document["repeats"][0]["records"][1]["window"] = {"start": 5.0, "end": 5.0}
    (run.path / "result.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=r"\$\.repeats\[0\]\.records\[1\]\.window"):
        store.load("run-1")


def test_a_value_that_json_does_not_have(store):
    run = store.open_run("run-1")
    with pytest.raises(DocumentError, match="A result cannot hold"):
        run.write_result(result(hardware=({"path": Path("/x")},)))
    assert tree(run.path) == []


def test_logs_of_any_bytes_come_in_pieces(store):
    run = store.open_run("run-1")
    run.append_log(log(text="\udcff\0\r\n"))
    run.append_log(log(text="\x1b[31m"))
    assert (run.path / "attempts/1/rank-0.log").read_bytes() == b"\\udcff\0\r\n\x1b[31m"


def test_a_log_is_bounded(store, monkeypatch):
    monkeypatch.setattr(run_directory, "LARGEST_LOG", 10)
    run = store.open_run("run-1")
    run.append_log(log(text="x" * 10))
    with pytest.raises(DocumentError, match="more than 10 bytes"):
        run.append_log(log(text="x"))
    assert (run.path / "attempts/1/rank-0.log").read_text() == "x" * 10


@given(st.lists(st.floats()))
def test_numbers_come_back_from_json_which_has_not_all_of_them(values):
    actual = json.loads(json.dumps(to_plain(values), allow_nan=False))
    assert list(map(repr, numbers(actual))) == list(map(repr, map(number, actual))) == list(map(repr, values))
