"""Stores by directory or URL. Uploads have tests in `plugins/dlperf-postgresql`, on a real server."""

from importlib.metadata import EntryPoints, entry_points

import pytest

from dlperf_sdk import run
from dlperf_sdk.cli import main
from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.exchange.databases import open_database, open_store
from dlperf_sdk.registry import plugins
from dlperf_sdk.registry.groups import GROUPS
from dlperf_sdk.results.index import Index

URL = "postgresql://ann:secret@db.example.org/results"


def test_a_directory_is_a_store_with_an_index(tmp_path):
    store = open_store(tmp_path)
    assert isinstance(store, Index)
    assert store.location == str(tmp_path)


def test_a_store_to_upload_to_is_a_url():
    with pytest.raises(UsageError, match="--output names their directory"):
        open_database("results")
    with pytest.raises(UnknownName, match="mysql"):
        open_database("mysql://ann:secret@db/results")


def test_without_our_distribution_the_error_names_it(monkeypatch, capsys):
    entries = EntryPoints(
        entry
        for group in GROUPS
        for entry in entry_points(group=f"dlperf_sdk.{group}")
        if entry.dist.name != "dlperf-postgresql"
    )
    monkeypatch.setattr(plugins, "entry_points", lambda: entries)
    assert main(["query", "select 1", "--store", URL]) == 2
    assert main(["run", "numpy", "linear", "--store", URL]) == 2
    written = capsys.readouterr().err
    assert "`pip install --find-links dist dlperf-postgresql` adds the databases of this project" in written
    assert "secret" not in written


@pytest.mark.parametrize(
    "words",
    [
        ["report", "run-1", "--store", URL],
        ["report", URL],
        ["export", URL, "--to", "csv"],
        ["cost", "run-1", "--store", URL],
        ["predict", "1n4d", URL],
        ["gate", "--baseline", URL, "--candidate", URL],
        ["validate", URL],
        ["run", "numpy", "linear", "--output", URL],
        ["run", URL],
        ["campaign", "run", URL],
        ["campaign", "status", URL],
        ["import", "dllogger", URL, "--output", URL],
        ["ingest", URL],
        ["site", "-o", URL],
        ["query", "select 1", URL],
    ],
)
def test_commands_that_need_a_directory_do_not_show_a_url(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--debug"]) != 0
    written = capsys.readouterr()
    assert "secret" not in written.out + written.err
    assert not list(tmp_path.iterdir())


def test_python_refuses_a_url_as_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="A directory or a run is needed") as caught:
        run("numpy", "linear", store=URL)
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_kind_of_database_is_listed_and_described(capsys):
    assert main(["list", "databases", "--check"]) == 0
    assert main(["describe", "postgresql"]) == 0
    assert "postgresql://HOST/DATABASE" in capsys.readouterr().out
    assert main(["check", "postgresql"]) == 2
    assert "no conformance suite for databases" in capsys.readouterr().err
