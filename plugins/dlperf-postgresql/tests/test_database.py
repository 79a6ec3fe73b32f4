"""Queries, uploads and tables on a real server."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from dlperf_postgresql.database import PostgresqlDatabase
from result_samples import a_result

from dlperf_sdk.analysis.history import load_histories
from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.exchange.databases import upload
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import tables
from dlperf_sdk.results.index import Index

ALL = "select id from results order by id"


def put(store, id, **changes):
    result = a_result(id=id, **changes)
    directory = store.open_run(id)
    directory.write_spec(result.spec)
    directory.write_result(result)
    return result


def ids(database):
    return [id for (id,) in database.query(ALL).rows]


def test_a_database_answers_as_the_index_of_the_directory(store, database):
    put(store, "a")
    put(store, "b", fields={"framework": "mxnet", "batch_size": 64, "labels": {"commit": "1f3a9c"}})
    outcome = upload(store, database)
    assert sorted(outcome.sent) == ["a", "b"]
    index = Index(store)
    for sql in (
        "select * from results order by id",
        "select * from repeats order by id, metric, repeat",
        "select * from verdicts order by id, verdict",
        "select framework, throughput, batch_size from results where model = 'resnet50' and ok order by 1",
        "select metric, avg(value) as mean, count(*) as n, unit from repeats group by metric, unit order by metric",
        "select sum(batch_size) as samples, max(throughput) as best from results",
        "select * from unreadable",
    ):
        assert database.query(sql) == index.query(sql)
    names = [row[:2] for row in database.describe_tables().rows]
    assert names == [row[:2] for row in index.describe_tables().rows]
    assert load_histories(database) == load_histories(index)


def test_the_complete_result_comes_back(store, database):
    result = put(store, "a")
    upload(store, database)
    assert database.load("a") == result
    with pytest.raises(
        UnknownName, match=r"^There is no run named 'b'\. postgresql://[^ ]* does not have it\.$"
    ):
        database.load("b")


def test_an_upload_sends_what_is_missing_or_newer(store, database):
    put(store, "a")
    assert upload(store, database).sent == ["a"]
    assert upload(store, database).sent == []
    put(store, "b")
    assert upload(store, database, ["a", "b", "gone"]).sent == ["b"]
    store.reopen_run("a").write_result(a_result(id="a", fields={"framework": "paddle"}))
    assert upload(store, database).sent == ["a"]
    assert database.query("select framework from results where id = 'a'").rows == (("paddle",),)
    assert (
        database.query("select count(*) from repeats").rows
        == Index(store).query("select count(*) from repeats").rows
    )
    os.utime(store.directory / "a" / "result.json", ns=(1, 1))
    assert upload(store, database).sent == []


def test_a_result_that_cannot_be_read_does_not_stop_the_others(store, database):
    put(store, "a")
    put(store, "b")
    shutil.copytree(store.directory / "b", store.directory / "c")
    (store.directory / "a" / "result.json").write_text("{")
    outcome = upload(store, database)
    assert outcome.sent == ["b"]
    assert "is not valid JSON" in outcome.errors["a"]
    assert "the result of another run, b" in outcome.errors["c"]
    assert ids(database) == ["b"]


def test_a_result_that_postgresql_cannot_hold_does_not_stop_the_others(store, server, url, database):
    put(store, "a")
    put(store, "b")
    upload(store, database, [])
    server.execute("ALTER TABLE dlperf.verdicts ALTER verdict TYPE varchar(3)", url)
    put(store, "c", verdicts=())
    outcome = upload(store, database)
    assert outcome.sent == ["c"]
    assert set(outcome.errors) == {"a", "b"}
    assert "too long" in outcome.errors["a"]
    assert ids(database) == ["c"]


def test_unusual_metrics_are_supported(store, database):
    names = ("order", "ORDER", "select", "a.b", "a_b", "größe", "0", "Upper", "x" * 80, "y_unit")
    metrics = tuple(Metric(name, "s", 1.5, None, None, (1.5,), "a test") for name in names)
    put(store, "a", metrics=metrics)
    put(store, "b", metrics=(Metric("y", "s", 2.5, None, None, (2.5,), "a test"),))
    many = tuple(Metric(f"metric{i}", "s", 0.1 + i, 0.1, 1e300, (0.1,), "a test") for i in range(500))
    put(store, "c", metrics=many)
    assert [upload(store, database, [name]).errors for name in "abc"] == [{}, {}, {}]
    assert set(database.query("select metric from repeats where id = 'a'").rows) == {
        (name,) for name in names
    }
    assert database.query("select \"order\", UPPER from results where id = 'a'").rows == ((1.5, 1.5),)
    assert database.query("select count(*) from repeats where id = 'c'").rows == ((500,),)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("delete from results", "syntax error"),
        ("with gone as (delete from results returning id) select id from gone", "data-modifying"),
        ("select remove_all()", "read-only transaction"),
        ("select id into copied from results", "INTO"),
        ("select 1; delete from results", "multiple commands"),
        ("commit; delete from results", "syntax error"),
        ("select nextval('numbers')", "read-only transaction"),
        ("select set_config('transaction_read_only', 'off', true), remove_all()", "read-write mode"),
        ("select query_to_xml('delete from dlperf.results', true, true, '')", "non-volatile|not allowed"),
        ("select speed from results", "does not exist"),
        ("", "syntax error"),
    ],
)
def test_a_query_only_reads(store, server, url, database, sql, why):
    put(store, "a")
    upload(store, database)
    server.execute(
        "CREATE SEQUENCE dlperf.numbers; CREATE FUNCTION dlperf.remove_all() RETURNS void LANGUAGE sql VOLATILE AS "
        "'DELETE FROM dlperf.results'",
        url,
    )
    with pytest.raises(UsageError, match=why):
        database.query(sql)
    assert ids(database) == ["a"]


def test_what_a_query_can_write_nevertheless_is_rolled_back(store, server, url, database):
    """A read-only transaction of PostgreSQL 15 can create a large object."""
    put(store, "a")
    upload(store, database)
    database.query("select lo_from_bytea(4711, 'x'), set_config('search_path', 'evil', false)")
    assert server.execute("SELECT count(*) FROM pg_largeobject_metadata", url) == [(0,)]
    assert ids(database) == ["a"]


def test_a_query_has_limits(store, database, monkeypatch):
    put(store, "a")
    upload(store, database)
    monkeypatch.setattr("dlperf_postgresql.connection.STATEMENT_SECONDS", 1)
    with pytest.raises(UsageError, match="was ended after"):
        database.query("select pg_sleep(30)")
    with pytest.raises(UsageError, match="was ended after"):
        database.query(
            "select set_config('statement_timeout', '0', false), count(*) from generate_series(1, 1e12)"
        )
    with pytest.raises(UsageError, match="more than 1 MiB"):
        database.query("select * from generate_series(1, 100000)", 2**20)
    assert len(database.query("select * from generate_series(1, 5000)", 2**20).rows) == 5000


def test_values_of_other_types_become_plain(store, database):
    put(store, "a")
    upload(store, database)
    answer = database.query(
        "select sum(size), avg(size)::numeric(40, 2), date '2026-11-25', '[1]'::json, null, array[1] from "
        "(values (7::bigint)) as sizes (size)"
    )
    assert answer.rows == ((7, 7.0, "2026-11-25", "[1]", None, "[1]"),)
    json.dumps(answer.rows)


def test_several_writers_leave_one_copy_of_each_result(store, server, url):
    for number in range(12):
        metric = Metric(f"metric{number}", "s", 1.5, None, None, (1.5,), "a test")
        put(store, f"run-{number:02}", metrics=(metric,))
    program = (
        "import sys; from dlperf_sdk.exchange.databases import open_database, upload\n"
        "from dlperf_sdk.results.store import ResultStore\n"
        "print(len(upload(ResultStore(sys.argv[1]), open_database(sys.argv[2])).errors))"
    )
    command = [sys.executable, "-c", program, str(store.directory), url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in started] == ["0\n"] * 4
    assert server.execute("SELECT count(*), count(DISTINCT id) FROM dlperf.repeats", url) == [(12, 12)]
    assert server.execute("SELECT count(*) FROM dlperf.documents", url) == [(12,)]


def test_a_newer_version_is_refused(store, server, url, database):
    put(store, "a")
    upload(store, database)
    server.execute(f"UPDATE dlperf.store SET version = {tables.VERSION + 1}", url)
    for use in (lambda: database.query(ALL), lambda: upload(store, database), database.upgrade):
        with pytest.raises(StoreError, match="upgrade dlperf-sdk"):
            use()


def test_an_older_version_is_refused_until_it_is_upgraded(store, server, url, database):
    put(store, "a")
    put(store, "b")
    upload(store, database)
    everything = database.query("select * from results order by id")
    server.execute(
        "UPDATE dlperf.store SET version = 1; ALTER TABLE dlperf.results DROP model; TRUNCATE dlperf.repeats; "
        "UPDATE dlperf.documents SET document = 'x' WHERE id = 'b'",
        url,
    )
    for use in (lambda: database.query(ALL), lambda: upload(store, database)):
        with pytest.raises(StoreError, match="dlperf upload --upgrade"):
            use()
    database.upgrade()
    database.upgrade()
    assert database.query("select * from results").rows == everything.rows[:1]
    assert "is damaged" in database.query("select error from unreadable where id = 'b'").rows[0][0]
    assert database.query(ALL).unreadable == (f"b in {database.location}",)
    assert upload(store, database).sent == []


def test_members_of_a_team_share_the_tables(store, server, url, monkeypatch):
    """The administrator creates the schema; members of its owner upload, and a reader queries."""
    name = url.rpartition("/")[2]
    server.execute(
        f"CREATE ROLE {name}_owner; CREATE USER {name}_ann PASSWORD 'a' IN ROLE {name}_owner; "
        f"CREATE USER {name}_bob PASSWORD 'b' IN ROLE {name}_owner; CREATE USER {name}_reader PASSWORD 'r'; "
        f"CREATE SCHEMA dlperf AUTHORIZATION {name}_owner; GRANT USAGE ON SCHEMA dlperf TO {name}_reader; "
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {name}_owner IN SCHEMA dlperf GRANT SELECT ON TABLES TO {name}_reader",
        url,
    )

    def as_user(user, password):
        monkeypatch.setenv("PGUSER", f"{name}_{user}")
        monkeypatch.setenv("PGPASSWORD", password)
        return PostgresqlDatabase(url)

    put(store, "a")
    ann = as_user("ann", "a")
    assert upload(store, ann).sent == ["a"]
    put(store, "b", metrics=(Metric("another", "s", 1.5, None, None, (1.5,), "a test"),))
    bob = as_user("bob", "b")
    assert upload(store, bob).sent == ["b"]
    reader = as_user("reader", "r")
    assert ids(reader) == ["a", "b"]
    put(store, "c")
    with pytest.raises(StoreError, match=r"permission denied.*privileges"):
        upload(store, reader)
    for opened in (ann, bob, reader):
        opened.close()
