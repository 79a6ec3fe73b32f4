"""A server for the tests of this folder, and databases in it."""

from __future__ import annotations

import pytest
from dlperf_postgresql.database import PostgresqlDatabase
from server import PASSWORD, Server, can_install, find_programs, install

from dlperf_sdk.results.store import ResultStore


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # the first process alone: apt-get has a lock
        install()


@pytest.fixture(scope="session")
def server():
    """A real server. Without one, root's tests fail, and others' skip: only root can install the package."""
    programs = find_programs()
    if programs is None and can_install():
        pytest.fail("apt-get could not install the package postgresql; install it by hand")
    if programs is None:
        pytest.skip(
            "no PostgreSQL server: the package postgresql is not installed, and only root can install it"
        )
    started = Server(programs)
    yield started
    started.close()


@pytest.fixture
def url(server, monkeypatch):
    """URL of an empty database, whose password is in the environment."""
    monkeypatch.setenv("PGUSER", "admin")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return server.empty_database()


@pytest.fixture
def database(url):
    opened = PostgresqlDatabase(url)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")
