"""Uploads of real runs: a failed one costs no run and no result, and no file has the password."""

import json
import logging
from contextlib import closing

import attrs
import pytest
from dlperf_postgresql import database as module
from dlperf_postgresql.database import PostgresqlDatabase
from dlperf_postgresql.schema import pack
from server import PASSWORD, QUOTED
from test_database import ids

from dlperf_sdk import run
from dlperf_sdk.cli.app import main
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.execution.uploading import QUEUE, Uploader

CASE = ["numpy", "linear", "--warmup", "2", "--steps", "4", "--repeats", "1"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_RETRY_SECONDS", (0.0, 0.01))


@pytest.fixture
def with_password(url, monkeypatch):
    """The URL, with user and password."""
    for name in ("PGUSER", "PGPASSWORD"):
        monkeypatch.delenv(name)
    return url.replace("://", f"://admin:{QUOTED}@")


def measure(url, *words):
    return main(["run", *CASE, "--store", url, *words])


def test_a_run_is_uploaded_and_nothing_contains_the_password(with_password, url, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    assert measure(with_password, "--verbose") == 0
    assert main(["plan", *CASE]) == 0
    assert main(["query", "select id from results", "--store", with_password]) == 0
    assert main(["query", "--store", with_password, "--json"]) == 0
    assert main(["history", "linear", "--store", with_password]) == 0
    assert main(["site", with_password, "-o", "site"]) == 0
    assert main(["upload", "--store", with_password, "--json"]) == 0
    written = capfd.readouterr()
    assert f"Uploaded to {url}: 1 result" in written.err
    assert "1 report" in written.err
    everything = written.out + written.err + caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    everything += "".join(path.read_bytes().decode("utf-8", "replace") for path in files)
    for secret in (PASSWORD, QUOTED, "Geheim"):
        assert secret not in everything


@pytest.mark.filterwarnings("default:Not uploaded")
def test_a_failed_upload_is_sent_by_the_next_run(server, url, database, capfd):
    refusing = f"{url}?options=-crole%3Dmissing"
    assert measure(refusing) == 0
    assert "Warning: Not uploaded: The database" in capfd.readouterr().err
    assert measure(refusing, "--json") == 0
    written = capfd.readouterr()
    assert "Warning: Not uploaded" in written.err
    assert json.loads(written.out)["status"] == "ok"
    assert measure(url) == 0
    assert "3 results" in capfd.readouterr().err
    assert len(ids(database)) == 3
    assert main(["upload", "--store", url]) == 0
    assert "0 results" in capfd.readouterr().err


def test_a_killed_controller_leaves_the_run_in_the_queue(store, url, database):
    """What would have followed the result is missing."""
    uploader = Uploader(url, store)
    store.probe()
    uploader.dlperf_run_started(run_id="going")
    (store.directory / "going").mkdir()
    result = run("numpy", "linear", warmup=2, steps=4, repeats=1, store=store, progress=False)
    uploader.dlperf_run_started(run_id=result.id)
    later = Uploader(url, store)
    other = run(
        "numpy", "linear", warmup=2, steps=4, repeats=1, store=store, observers=[later], progress=False
    )
    assert sorted(later.sent) == sorted([result.id, other.id])
    assert [path.name for path in store.directory.glob(f"{QUEUE}/*/*")] == ["going"]
    assert database.load(result.id) == result


def test_runs_without_store_are_not_uploaded_by_others(url, database):
    assert main(["run", *CASE]) == 0
    assert measure(url) == 0
    assert len(ids(database)) == 1
    assert main(["upload", "--store", url]) == 0
    assert len(ids(database)) == 2


def test_campaigns_and_sweeps_are_uploaded(url, database, tmp_path, capfd):
    assert main(["run", *CASE, "--batch-size", "2,4", "--store", url]) == 0
    fields = "framework: numpy, model: linear, warmup: 2, steps: 4, repeats: 1"
    (tmp_path / "cases.yaml").write_text(f"name: one\nfields: {{{fields}}}\naxes: {{batch_size: [8]}}\n")
    assert main(["campaign", "run", "cases.yaml", "--output", "one", "--quiet"]) == 0
    assert main(["campaign", "resume", "one", "--store", url]) == 0
    assert main(["upload", "one", "--store", url]) == 0
    assert "1 result" in capfd.readouterr().err
    assert sorted(database.query("select batch_size from results").rows) == [(2,), (4,), (8,)]


def test_options_that_contradict_each_other_start_nothing(url, tmp_path, capfd):
    assert measure(url, "--redact") == 2
    assert measure("results") == 2
    assert "--output names their directory" in capfd.readouterr().err
    assert measure(url.replace("postgresql", "postgres")) == 2
    assert "Did you mean 'postgresql'?" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_upload_of_damaged_results_is_partial(url, store, tmp_path, capfd):
    result = run("numpy", "linear", warmup=2, steps=4, repeats=1, store=store, progress=False)
    damaged = store.directory / f"{result.id[:-6]}ffffff"
    damaged.mkdir()
    (damaged / "result.json").write_text("{")
    assert main(["upload", str(store.directory), "--store", url]) == 5
    assert f"{damaged.name} cannot be uploaded" in capfd.readouterr().err
    with closing(PostgresqlDatabase(url)) as opened:
        assert ids(opened) == [result.id]


def test_a_value_that_json_lacks_is_a_result_that_the_database_cannot_hold():
    result = attrs.evolve(
        run("numpy", "linear", batch_size=4, warmup=1, steps=4, repeats=1, store=None, progress=False),
        hardware=({"count": 1j},),
    )
    with pytest.raises(DocumentError, match="A result cannot hold 1j, a complex"):
        pack(result)
