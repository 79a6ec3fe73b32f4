"""The user's folders, also for a number that the system knows no user for, as containers have it."""

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlperf_sdk import EnvironmentSpec, environments, folders, run
from dlperf_sdk.cli import main
from dlperf_sdk.data import cache as prepared
from dlperf_sdk.data import folder
from dlperf_sdk.environments import interpreters, pip_settings
from dlperf_sdk.errors import EnvironmentFailed, Unavailable
from dlperf_sdk.launchers.joined import meeting
from dlperf_sdk.max_batch import cache as sizes
from dlperf_sdk.parity import cache as evidence
from dlperf_sdk.worker.dates import now

NAMES = ("HOME", "DLPERF_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYENV_ROOT")
PEOPLE = ("USER", "LOGNAME", "LNAME", "USERNAME")


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """A user without a name and a home, in a directory of its own."""

    def unknown(_):
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in (*NAMES, *PEOPLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_a_named_folder_is_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path))
    assert folders.cache() == tmp_path


def test_all_caches_are_in_one_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLPERF_CACHE_DIR", "~/kept")
    monkeypatch.chdir(tmp_path)
    assert folders.cache() == tmp_path / "kept"
    assert prepared.directory() == tmp_path / "kept" / "data"
    assert evidence.directory() == tmp_path / "kept" / "parity"
    assert sizes.directory() == tmp_path / "kept" / "largest"
    assert environments.list_environments() == []
    assert not (tmp_path / "~").exists()


def test_default_folder_is_in_the_users_cache(monkeypatch, tmp_path):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache() == tmp_path / ".cache" / "dlperf"
    assert folders.home(os.environ) == tmp_path


def test_user_without_a_home_has_no_cache(nobody, tmp_path):
    assert folders.home(os.environ) is None
    assert folders.expand_home("~/x") == Path("~/x")
    with pytest.raises(Unavailable, match="Set DLPERF_CACHE_DIR"):
        folders.cache()
    with pytest.raises(Unavailable, match="Set DLPERF_CACHE_DIR"):
        prepared.directory()
    with pytest.raises(EnvironmentFailed, match="Set DLPERF_CACHE_DIR"):
        environments.list_environments()
    assert evidence.directory() is None
    evidence.store("key", [], now())
    assert evidence.fetch("key") is None
    sizes.write({"case": 1}, 64, 3)
    assert sizes.read({"case": 1}) is None
    assert list(tmp_path.iterdir()) == []


def test_user_without_a_home_finds_interpreters_and_pip_settings(nobody, tmp_path, monkeypatch):
    assert interpreters.find(">=3.11", os.environ).version.major == 3
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://index.test/simple\n")
    assert pip_settings.read({}, tmp_path, tmp_path)["index-url"] == "https://index.test/simple"
    places = pip_settings.config_files({}, tmp_path, tmp_path)
    assert all(place.is_absolute() for place in places)


def test_user_without_a_home_can_measure(nobody, tmp_path):
    result = run("numpy", "linear", batch_size=4, warmup=1, steps=5, repeats=1, store=tmp_path / "kept")
    assert result.status == "ok", result.failure


def test_a_user_that_is_not_there_is_a_folder_that_is_not_there():
    with pytest.raises(Unavailable, match="does not exist"):
        folder.resolve_folder("~nobody-of-that-name/images", "images")
    anything = EnvironmentSpec(python=">=3.7", requirements=())
    with pytest.raises(EnvironmentFailed, match="no such file"):
        environments.prepare("toy", anything, "cpu", python="~nobody-of-that-name/bin/python")


@pytest.mark.parametrize(
    "words",
    [
        ("query", "select 1", "--store", "circle"),
        ("history", "--store", "circle/below"),
        ("site", "circle"),
        ("campaign", "run", "circle.toml"),
        ("plan", "spec.toml"),
        ("plan", "numpy", "linear", "--python", "circle"),
    ],
    ids=" ".join,
)
def test_links_in_a_circle_are_refused(words, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("circle", "circle.toml"):
        Path(name).symlink_to(name)
    Path("spec.toml").write_text('framework = "torch"\nmodel = "resnet50"\ndata = "images:circle"\n')
    assert main([*words]) == (3 if "--python" in words else 2)
    assert "fault of dlperf-sdk" not in capsys.readouterr().err


def test_the_path_of_a_meeting_may_have_an_unknown_user(monkeypatch):
    seat = SimpleNamespace(kind=SimpleNamespace(name="torchrun", identity=()))
    assert meeting.meeting_file("~no-such-user", seat, {}).parent == Path.cwd() / "~no-such-user"
