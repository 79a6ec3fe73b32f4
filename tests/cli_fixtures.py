"""Fixtures for tests of commands, in this process."""

import shutil

import pytest
from result_samples import a_result

from dlperf_sdk import folders
from dlperf_sdk.cli import main
from dlperf_sdk.results.store import ResultStore

CASE = ["numpy", "linear", "--batch-size", "4", "--warmup", "1", "--steps", "5", "--repeats", "2"]
ONE = [*CASE[:-1], "1"]
"""The same with one repeat, for whoever needs no second."""


@pytest.fixture(autouse=True)
def isolated_directory(tmp_path, tmp_path_factory, monkeypatch):
    """Every test in a directory of its own, with a cache of its own but for the evidence of parity runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    # No fixture of its own: whoever imports this one would have to import that one as well.
    evidence = tmp_path_factory.getbasetemp() / "parity"
    evidence.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setattr("dlperf_sdk.parity.cache.directory", lambda: evidence)


@pytest.fixture
def dlperf(capsys):
    """Run a command line: (exit code, standard output, standard error)."""

    def run(*words):
        code = main(words)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def stored():
    """A result in the default store."""

    def store(**changes):
        result = a_result(**changes)
        directory = ResultStore(folders.RESULTS).open_run(result.id)
        directory.write_spec(result.spec)
        directory.write_result(result)
        return result

    return store


@pytest.fixture
def measured(dlperf, tmp_path, tmp_path_factory):
    """The directory of a finished run of CASE in the default store: a copy, of one run for all who ask."""
    stored = tmp_path_factory.getbasetemp() / "measured"
    if not stored.exists():
        assert dlperf("run", *CASE, "--quiet", "--output", str(tmp_path / "fresh"))[0] == 0
        (tmp_path / "fresh").rename(stored)
    (directory,) = shutil.copytree(stored, tmp_path / folders.RESULTS).iterdir()
    return directory
