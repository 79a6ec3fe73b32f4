"""The index of a store: what it answers, how it follows the results, and what it refuses."""

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys

import pytest
from record_samples import repeat
from result_samples import a_result

from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.index import Index, index_path
from dlperf_sdk.results.run_places import explain_absence
from dlperf_sdk.results.store import ResultStore

ALL = "select id from results order by id"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    return ResultStore(tmp_path / "results")


def query(store, sql, *limits):
    return Index(store).query(sql, *limits)


def put(store, id, **changes):
    result = a_result(id=id, **changes)
    directory = store.open_run(id)
    directory.write_spec(result.spec)
    directory.write_result(result)
    return result


def ids(store):
    return [id for (id,) in query(store, ALL).rows]


def test_a_query_of_a_store_without_results_says_so(store, tmp_path):
    store.directory.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"There are no results in .*results yet: `dlperf run"):
        query(store, "select throughput from results")
    (store.directory / "a-sweep").mkdir()
    (store.directory / "a-sweep" / "campaign.json").write_text("{}")
    with pytest.raises(
        StoreError, match=r"but in campaigns below it \(1 found\)\. .* such as .*/a-sweep/runs\."
    ):
        query(store, "select throughput from results")


def test_directory_of_a_campaign_is_refused_with_the_path_of_its_runs(tmp_path):
    campaign = tmp_path / "a-sweep"
    (campaign / "runs").mkdir(parents=True)
    (campaign / "campaign.json").write_text("{}")
    put(ResultStore(campaign / "runs"), "a")
    for read in (
        lambda store: store.ids(),
        list,
        lambda store: store.load("a"),
        lambda store: query(store, ALL),
    ):
        with pytest.raises(
            StoreError, match=rf"directory of a campaign\. Its runs are in {campaign}/runs: give that"
        ):
            read(ResultStore(campaign))
    assert ids(ResultStore(campaign / "runs")) == ["a"]


def test_a_missing_run_is_an_unknown_name_as_in_a_database(store, tmp_path, monkeypatch):
    put(store, "a")
    put(ResultStore(tmp_path / "elsewhere"), "b")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Index(store).load("a").id == "a"
    for name in ("b", "../elsewhere/b", ""):
        with pytest.raises(UnknownName, match=r"no run named '.*'\. .*Known: a\."):
            Index(store).load(name)
    with pytest.raises(UnknownName, match="no run named 'a'"):
        Index(ResultStore(tmp_path / "nothing")).load("a")


def test_folder_of_campaigns_names_where_runs_are(tmp_path):
    campaign = tmp_path / "campaigns" / "a-sweep"
    (campaign / "runs").mkdir(parents=True)
    (campaign / "campaign.json").write_text("{}")
    store = ResultStore(tmp_path / "campaigns")
    for read in (
        store.ids,
        lambda: list(store),
        lambda: query(store, "select count(*) from results"),
        lambda: query(store, "select framework, model from results"),
        lambda: Index(store).describe_tables(),
    ):
        with pytest.raises(
            StoreError, match=r"no results in .*campaigns itself, but .*Name one of them instead"
        ):
            read()
    with pytest.raises(
        StoreError, match=rf"directory of a campaign\. Its runs are in {campaign}/runs: give that path"
    ):
        store.load("a-sweep")
    # Beside runs, a campaign is no run.
    put(store, "a")
    assert store.ids() == ("a",) and [result.id for result in store] == ["a"]
    assert ids(store) == ["a"]
    shutil.rmtree(store.directory / "a")
    for folder in (tmp_path / "campaigns", tmp_path):
        assert explain_absence(folder).endswith(f"Name one of them instead, such as {campaign}.")
    assert explain_absence(".").startswith("There are no results in . yet")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "result.json").write_text("{")
    assert f"`dlperf validate {tmp_path}` names those that cannot be read" in explain_absence(tmp_path)


def test_a_campaign_without_results_is_to_be_resumed(store):
    (store.directory / "runs").mkdir(parents=True)
    (store.directory / "campaign.json").write_text("{}")
    with pytest.raises(StoreError, match=rf"`dlperf campaign resume {store.directory}` continues it"):
        query(ResultStore(store.directory / "runs"), "select throughput from results")
    for directory in (store.directory, store.directory / "runs"):
        assert f"`dlperf campaign resume {store.directory}`" in explain_absence(directory)


def test_a_repeat_after_a_failed_attempt_keeps_its_number(store):
    two = Metric("throughput", "img/s", 203.0, None, None, (200.0, 206.0), "samples over the slowest window")
    put(store, "a", metrics=(two,), repeats=(repeat(1), repeat(3)))
    assert query(store, "select repeat, value from repeats order by 1").rows == ((1, 200.0), (3, 206.0))


def test_results_repeats_and_verdicts_can_be_queried(store):
    put(store, "a")
    put(store, "b", fields={"framework": "mxnet", "batch_size": 64})
    answer = query(
        store, "select framework, throughput, batch_size from results where model = 'resnet50' order by 1"
    )
    assert answer.columns == ("framework", "throughput", "batch_size")
    assert answer.rows == (("mxnet", 203.0, 64), ("torch", 203.0, 32))
    repeats = query(
        store, "select max(value), count(*), unit from repeats where metric = 'throughput' and id = 'a'"
    )
    assert repeats.rows == ((206.0, 7, "img/s"),)
    assert query(store, "select distinct verdict, outcome from verdicts").rows == (
        ("replicas-equal", "pass"),
    )


def test_the_index_follows_the_store(store):
    put(store, "a")
    put(store, "b")
    assert ids(store) == ["a", "b"]
    shutil.rmtree(store.directory / "a")
    put(store, "c")
    changed = a_result(id="b", fields={"framework": "paddle"})
    store.reopen_run("b").write_result(changed)
    (store.directory / "going").mkdir()
    assert ids(store) == ["b", "c"]
    assert query(store, "select framework from results where id = 'b'").rows == (("paddle",),)


def test_a_result_that_cannot_be_read_is_in_a_table_of_its_own(store):
    put(store, "a")
    put(store, "b")
    (store.directory / "b" / "result.json").write_text("{")
    assert ids(store) == ["a"]
    answer = query(store, "select * from unreadable")
    ((id, error),) = answer.rows
    assert id == "b"
    assert answer.unreadable == query(store, ALL).unreadable == (str(store.directory / "b" / "result.json"),)
    assert Index(store).describe_tables().unreadable == answer.unreadable
    assert "is not valid JSON" in error


def test_index_is_rebuilt_if_missing_damaged_or_of_another_version(store):
    put(store, "a")
    path = index_path(store)
    assert ids(store) == ["a"]
    path.unlink()
    assert ids(store) == ["a"]
    path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    assert ids(store) == ["a"]
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE VIEW results AS SELECT load_extension('/tmp/evil') AS id")
    assert ids(store) == ["a"]


def hot_journal(victim, page_size=4096):
    """Return a rollback journal after which SQLite would remove another file, as a journal of several databases."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(victim)
    header = magic + struct.pack(">IIIII", 0, 1234, 1, 512, page_size)
    last = struct.pack(">I", 2**30 // page_size + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    return header.ljust(512, b"\0") + last


def test_files_beside_the_results_are_not_taken_for_an_index(store, tmp_path):
    put(store, "a")
    victim = tmp_path / "precious"
    victim.write_bytes(b"text\0")
    assert ids(store) == ["a"]
    shutil.copy(index_path(store), store.directory / ".index.sqlite")
    with sqlite3.connect(store.directory / ".index.sqlite") as other:
        other.execute("UPDATE results SET labels = '[1]', id = '../../outside'")
    (store.directory / ".index.sqlite-journal").write_bytes(hot_journal(victim))
    assert ids(store) == ["a"]
    assert victim.exists()
    # The same journal beside a database that is opened removes the file.
    index_path(store).with_name(f"{index_path(store).name}-journal").write_bytes(hot_journal(victim))
    assert ids(store) == ["a"]
    assert not victim.exists()


def test_a_folder_that_others_can_write_holds_no_index(store, tmp_path):
    put(store, "a")
    (tmp_path / "cache" / "indexes").mkdir(parents=True)
    (tmp_path / "cache" / "indexes").chmod(0o777)
    assert index_path(store) is None
    assert ids(store) == ["a"]
    assert not list((tmp_path / "cache" / "indexes").iterdir())


def test_a_query_takes_limited_memory(store):
    put(store, "a")
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
    with pytest.raises(UsageError, match="more than 1 MiB"):
        query(store, endless, 2**20)
    with pytest.raises(UsageError, match="too big"):
        query(store, "select hex(zeroblob(15000000))")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("delete from results", "not authorized: a query can only read, so write a SELECT"),
        ("attach '/etc/passwd' as other", "not authorized"),
        ("pragma user_version = 7", "not authorized"),
        ("select load_extension('x')", "not authorized"),
        ("select * from files", "prohibited"),
        ("select 1; select 2", "one statement"),
        ("select speed from results", "no such column"),
        ("", "selects nothing"),
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(store, sql, why):
    put(store, "a")
    with pytest.raises(UsageError, match=why):
        query(store, sql)
    assert ids(store) == ["a"]


def test_unusual_metric_names_are_supported(store):
    names = ("order", "ORDER", "select", "a.b", "a_b", "größe", "0")
    put(store, "a", metrics=tuple(Metric(name, "s", 1.5, None, None, (1.5,), "a test") for name in names))
    assert set(query(store, "select metric from repeats where id = 'a'").rows) == {(name,) for name in names}
    assert query(store, "select \"order\" from results where id = 'a'").rows == ((1.5,),)


def test_columns_are_described(store):
    put(store, "a")
    described = {(table, name): text for table, name, _, text in Index(store).describe_tables().rows}
    assert described["results", "framework"] == "Name of the framework's plugin."
    assert ("results", "throughput_low") in described
    assert ("repeats", "value") in described


def test_several_writers_make_one_index(store):
    for number in range(40):
        put(store, f"run-{number}")
    program = (
        "import sys; from dlperf_sdk.results.index import Index; from dlperf_sdk.results.store import ResultStore\n"
        "print(Index(ResultStore(sys.argv[1])).query('select count(*) from results').rows[0][0])"
    )
    command = [sys.executable, "-c", program, str(store.directory)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in started] == ["40\n"] * 4


def test_a_store_that_is_not_there_is_refused(store):
    with pytest.raises(StoreError, match="is not a directory"):
        query(store, ALL)


def test_a_signal_ends_an_endless_query(store):
    put(store, "a")

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            query(
                store,
                "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n",
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
