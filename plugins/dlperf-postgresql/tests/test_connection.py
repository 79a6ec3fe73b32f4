"""Servers that are lost, full, or refuse: no result is lost, and no message has a password."""

import signal
import socket
import threading
from contextlib import closing

import pytest
from dlperf_postgresql import connection, database
from dlperf_postgresql.database import PostgresqlDatabase
from server import PASSWORD, QUOTED
from test_database import ids, put

from dlperf_sdk.errors import StoreError
from dlperf_sdk.exchange.databases import open_database, upload

STEPS = (0, 40, 300, 1200, 3000, 8000, 12000, 20000)
"""Bytes from the client after which a connection is cut."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(database, "_RETRY_SECONDS", (0.0, 0.01))


class Proxy:
    """A port before the server's that cuts a connection, once, after so many bytes from the client."""

    def __init__(self, port, limit, cuts=1):
        self._port, self._limit, self.cuts_left = port, limit, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source, target, is_client):
        passed = 0
        with closing(source), closing(target):
            while True:
                try:
                    data = source.recv(65536)
                    is_cut = is_client and passed + len(data) > self._limit and self.cuts_left > 0
                    target.sendall(data[: self._limit - passed] if is_cut else data)
                    passed += len(data)
                    self.cuts_left -= is_cut
                    if is_cut or not data:
                        for one in (source, target):
                            one.shutdown(socket.SHUT_RDWR)
                        return
                except OSError:
                    return

    def close(self):
        self._listener.close()


@pytest.mark.parametrize("cuts", [1, 100])
def test_a_lost_connection_loses_no_result(store, server, url, cuts):
    for number in range(3):
        put(store, f"run-{number}")
    with closing(open_database(url)) as direct:
        upload(store, direct, [])
    for step in STEPS:
        for table in ("files", "results", "repeats", "verdicts", "documents"):
            server.execute(f"DELETE FROM dlperf.{table}", url)
        proxy = Proxy(server.port, step, cuts)
        through = url.replace(str(server.port), str(proxy.port))
        with closing(proxy), closing(open_database(through)) as unreliable:
            try:
                upload(store, unreliable)
                complete = True
            except StoreError as error:
                assert PASSWORD not in str(error)
                complete = False
        counts = "SELECT (SELECT count(*) FROM dlperf.{}) FROM generate_series(1, 1)"
        tables = ("files", "results", "documents")
        if complete:
            assert [server.execute(counts.format(table), url) for table in tables] == [[(3,)]] * 3
        with closing(open_database(url)) as direct:
            upload(store, direct)
            assert ids(direct) == ["run-0", "run-1", "run-2"]
        assert [server.execute(counts.format(table), url) for table in tables] == [[(3,)]] * 3
        ((repeats, distinct),) = server.execute(
            "SELECT count(*), count(DISTINCT (id, metric, repeat)) FROM dlperf.repeats", url
        )
        assert repeats == distinct


def test_a_server_that_crashes_during_an_upload_gets_the_rest_later(store, server, url, monkeypatch):
    for number in range(6):
        put(store, f"run-{number}")
    with closing(PostgresqlDatabase(url)) as opened:
        send = opened.upload

        def send_until_crash(result, version):
            if len(sent) == 3:
                server.stop(signal.SIGQUIT)
            send(result, version)
            sent.append(result.id)

        sent = []
        try:
            with monkeypatch.context() as patched, pytest.raises(StoreError, match="cannot be used"):
                patched.setattr(opened, "upload", send_until_crash)
                upload(store, opened)
        finally:
            server.start()
    with closing(PostgresqlDatabase(url)) as opened:
        assert ids(opened) == sorted(sent)
        assert len(upload(store, opened).sent) == 3
        assert len(ids(opened)) == 6


def test_a_server_that_is_stopped_is_given_up(store, server, url, database, monkeypatch):
    put(store, "a")
    upload(store, database)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 2)
    (backend,) = server.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'dlperf-sdk'", url
    )[0]
    put(store, "b")
    server.pause(backend)
    try:
        opened = database._open()
        with (
            pytest.raises(StoreError, match="cannot be used"),
            connection.transaction(opened, "it", seconds=0.5),
        ):
            pass
    finally:
        server.resume(backend)
    assert upload(store, database).sent == ["b"]


def test_a_full_disk_is_named(store, server, url, database):
    """The server raises what it raises when it cannot extend a file."""
    put(store, "a")
    upload(store, database)
    server.execute(
        "CREATE FUNCTION public.raise_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file \"base/1/2\": No space left on device' USING ERRCODE = 'disk_full'; END $$; "
        "CREATE TRIGGER is_full BEFORE INSERT ON dlperf.documents EXECUTE FUNCTION public.raise_full()",
        url,
    )
    put(store, "b")
    with pytest.raises(StoreError, match=r"No space left on device; make room on the server's disk"):
        upload(store, database)
    assert ids(database) == ["a"]
    server.execute("DROP TRIGGER is_full ON dlperf.documents", url)
    assert upload(store, database).sent == ["b"]


def test_a_database_without_results_and_one_that_is_missing_are_told_apart(url, database):
    with pytest.raises(StoreError, match="There are no results in postgresql://"):
        ids(database)
    with (
        closing(PostgresqlDatabase(f"{url}_missing")) as missing,
        pytest.raises(StoreError, match=r"does not exist.*name of the database"),
    ):
        ids(missing)


@pytest.mark.parametrize(
    "bad",
    [
        "postgresql://admin:wr0ng-Geheim@127.0.0.1:{port}/team",
        "postgresql://admin@127.0.0.1:{port}/team?password=wr0ng-Geheim",
        "postgresql://admin:wr0ng-Geheim@127.0.0.1:1/team",
        "postgresql://admin:wr0ng-Geheim@[::1/team",
        "postgresql://admin:wr0ng-Geheim%zz@127.0.0.1/team",
        "postgresql://admin:x/wr0ng-Geheim@127.0.0.1/team",
        "postgresql://admin:x@wr0ng-Geheim@127.0.0.1:{port}/team",
        "postgresql://admin:x?wr0ng-Geheim@127.0.0.1/team",
        "postgresql://127.0.0.1:wr0ng-Geheim/team",
        "postgresql://127.0.0.1/team?wr0ng-Geheim",
        "postgresql://127.0.0.1/team?passwort=wr0ng-Geheim",
    ],
)
def test_no_message_has_the_password(url, server, bad, capfd, caplog):
    """Neither an error, nor its causes as `--debug` shows them."""
    from dlperf_sdk.cli.app import main

    bad = bad.format(port=server.port)
    assert main(["query", "select 1", "--store", bad, "--debug"]) == 2
    assert main(["query", "select 1", "--store", bad, "--json"]) == 2
    assert main(["run", "numpy", "linear", "--output", bad, "--debug"]) == 2
    assert main(["report", bad, "--store", bad, "--debug"]) == 2
    assert main(["history", "--stroe", bad, "--debug"]) == 2
    assert main(["plan", "numpy", "linear", "--steps", bad]) == 2
    written = capfd.readouterr()
    assert "Geheim" not in written.out + written.err + caplog.text
    assert "Error:" in written.err


def test_a_wrong_password_is_explained(server, url, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "wr0ng-Geheim")
    with (
        closing(open_database(url)) as opened,
        pytest.raises(StoreError, match=r"authentication.*PGPASSWORD") as caught,
    ):
        ids(opened)
    assert "Geheim" not in str(caught.value)


def test_libpq_finds_the_password(store, server, url, tmp_path, monkeypatch):
    name = url.rpartition("/")[2]
    put(store, "a")
    for variable in ("PGPASSWORD", "PGUSER"):
        monkeypatch.delenv(variable)
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    escaped = PASSWORD.replace(":", "\\:")
    passwords.write_text(f"127.0.0.1:{server.port}:*:admin:{escaped}\n")
    passwords.chmod(0o600)
    services.write_text(f"[team]\nhost=127.0.0.1\nport={server.port}\nuser=admin\ndbname={name}\n")
    in_url = url.replace("://", f"://admin:{QUOTED}@")
    with closing(open_database(in_url)) as opened:
        assert upload(store, opened).sent == ["a"]
        assert opened.location == url
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    with closing(open_database(url.replace("://", "://admin@"))) as opened:
        assert ids(opened) == ["a"]
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    for service in ("postgresql://?service=team", "postgresql:///?service=team"):
        with closing(open_database(service)) as opened:
            assert ids(opened) == ["a"]
    monkeypatch.setenv("PGSERVICE", "team")
    with closing(open_database("postgresql://")) as opened:
        assert ids(opened) == ["a"]


def test_databases_with_one_name_have_different_identities(tmp_path, monkeypatch):
    """Results that wait for one of them must not be sent to another."""
    services = tmp_path / "services"
    services.write_text("[a]\nhost=127.0.0.1\ndbname=a\n[b]\nhost=127.0.0.1\ndbname=b\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    urls = ["postgresql://?service=a", "postgresql://?service=b", "postgresql://", "postgresql://?host=other"]
    urls += ["postgresql://ann:secret@/", "postgresql://bob@/"]
    found = [open_database(url).identity for url in urls]
    for variables in (
        {"PGSERVICE": "a"},
        {"PGSERVICE": "b"},
        {"PGHOST": "elsewhere"},
        {"PGPORT": "1"},
        {"PGDATABASE": "x"},
    ):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            found.append(open_database("postgresql://").identity)
    assert len(set(found)) == len(found)
    assert "secret" not in "".join(found)
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert open_database("postgresql://ann:pw@/").identity == found[4]


def test_the_question_of_an_absent_server_keeps_its_own_mark():
    with socket.socket() as unused:  # bound and not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(StoreError, match=r"connections\? Check the server") as refused:
            connection.connect(f"host=127.0.0.1 port={port}", "it")
    assert "?." not in str(refused.value)
