"""The search for a Python: what it found is kept, as long as it is still what it was."""

from __future__ import annotations

from dlperf_sdk.environments import interpreters
from dlperf_sdk.errors import EnvironmentFailed


def test_known_interpreters_are_probed_without_a_search(tmp_path, monkeypatch):
    python, searched = tmp_path / "python3.99", []
    search = interpreters._search

    def counted(*arguments):
        searched.append(arguments)
        return search(*arguments)

    def answers(version):
        python.write_text(f"#!/bin/sh\necho {version} cpython -\n")
        python.chmod(0o700)

    monkeypatch.setattr(interpreters, "_search", counted)
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    answers("3.99.1")
    actual = interpreters.find("==3.99.*", environ)
    assert (actual.path, str(actual.version)) == (python, "3.99.1")
    assert interpreters.find("==3.99.*", {**environ, "OTHER": "1"}) == actual
    assert len(searched) == 1
    answers("3.99.2")
    assert str(interpreters.find("==3.99.*", environ).version) == "3.99.2"
    assert len(searched) == 2


def test_a_fitting_python_is_found_without_uv(tmp_path, monkeypatch):
    def missing():
        raise EnvironmentFailed("uv's program is not there.")

    monkeypatch.setattr(interpreters, "uv_binary", missing)
    python = tmp_path / "python3.98"
    python.write_text("#!/bin/sh\necho 3.98.1 cpython -\n")
    python.chmod(0o700)
    assert interpreters.find("==3.98.*", {"PATH": str(tmp_path), "HOME": str(tmp_path)}).path == python
