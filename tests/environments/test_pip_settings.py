"""pip's configuration for uv, credentials, interpreters, variables: what needs no environment to be made."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.environments import interpreters, marker, pip_settings, probe, worker_variables
from dlperf_sdk.environments.redact import find_secrets, redact
from dlperf_sdk.environments.resolution import find_unfit_pins
from dlperf_sdk.errors import EnvironmentFailed, PluginError
from dlperf_sdk.worker import variables
from dlperf_sdk.worker.dates import now
from dlperf_sdk.worker.variables import worker_environment

# --- pip's configuration ------------------------------------------------------------------------------------


class Machine:
    """A made-up machine whose places for pip.conf are folders of their own."""

    def __init__(self, root: Path) -> None:
        self.root, self.etc, self.prefix, self.home = root, root / "etc", root / "venv", root / "home"
        self.environ = {"HOME": str(self.home)}

    def write(self, place: str, text: str) -> Path:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def read(self) -> dict[str, str]:
        return pip_settings.read(self.environ, self.prefix, self.etc)

    def uv(self) -> pip_settings.UvSettings:
        return pip_settings.convert_for_uv(self.read(), self.environ, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


PLACES = (
    "etc/xdg/pip/pip.conf",
    "etc/pip.conf",
    "home/.pip/pip.conf",
    "home/.config/pip/pip.conf",
    "venv/pip.conf",
)


def test_later_places_win(machine: Machine) -> None:
    assert machine.read() == {}
    for number, place in enumerate(PLACES):
        machine.write(place, f"[global]\nindex-url = https://host/{number}\n")
        assert machine.read() == {"index-url": f"https://host/{number}"}
    machine.environ["PIP_INDEX_URL"] = "https://host/variable"
    assert machine.read() == {"index-url": "https://host/variable"}


def test_settings_equal_those_that_pip_reads(machine: Machine) -> None:
    """pip, where it is installed, is asked for the same places and sections."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed here: the reading of its files was NOT compared with pip's own")
    machine.write(
        "home/.pip/pip.conf", "[global]\ntimeout = 10\nretries = 1\n[install]\nfind-links = /a\n  /b c\n"
    )
    machine.write("home/.config/pip/pip.conf", "[global]\ntimeout = 20\nfind_links = /z\nindex-url =\n")
    machine.environ |= {"PATH": os.environ["PATH"], "PIP_TRUSTED_HOST": "one two", "PIP_INDEX_URL": ""}
    message = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=machine.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "global.timeout='20'" in message
    assert "install.find-links='/a\\n/b c'" in message
    settings = machine.read()
    assert (settings["timeout"], settings["retries"], settings["find-links"]) == ("20", "1", "/a\n/b c")
    assert settings["trusted-host"] == "one two"
    assert "index-url" not in settings


def test_a_section_for_installing_beats_a_global_one_of_any_file(machine: Machine) -> None:
    machine.write(PLACES[0], "[install]\nno-index = true\n[download]\nfind-links = /nowhere\n")
    machine.write(PLACES[4], "[global]\nno-index = false\nfind_links = /wheels\n")
    assert machine.read() == {"no-index": "true", "find-links": "/wheels"}


def test_a_named_file_stands_in_for_the_users(machine: Machine) -> None:
    machine.write(PLACES[1], "[global]\ntimeout = 1\n")
    machine.write(PLACES[3], "[global]\ntimeout = 2\nretries = 2\n")
    machine.environ["PIP_CONFIG_FILE"] = str(machine.write("named.conf", "[global]\nproxy = host:1\n"))
    assert machine.read() == {
        "config-file": machine.environ["PIP_CONFIG_FILE"],
        "timeout": "1",
        "proxy": "host:1",
    }
    machine.environ["PIP_CONFIG_FILE"] = os.devnull
    assert machine.read() == {"config-file": os.devnull}
    machine.environ["PIP_CONFIG_FILE"] = str(machine.root / "absent.conf")
    assert machine.read()["retries"] == "2"


def test_invalid_configuration_is_named_without_its_secrets(machine: Machine) -> None:
    path = machine.write(PLACES[1], "index-url = https://me:secret@host/simple\n")
    with pytest.raises(EnvironmentFailed, match="cannot be read") as error:
        machine.read()
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


def test_very_long_configuration_is_refused(machine: Machine) -> None:
    """Its parser takes time that is quadratic in malformed lines."""
    machine.write(PLACES[1], "[global]\n" + "x\n" * 100_000)
    with pytest.raises(EnvironmentFailed, match="more than 2000 lines"):
        machine.read()


def test_indexes_and_links_are_translated(machine: Machine) -> None:
    machine.write(
        PLACES[3],
        "[global]\nindex-url = https://mirror/simple\nextra-index-url =\n    https://one/simple\n    two\n"
        "find-links = /wheels rel,ative\n    https://links/page\ntrusted-host = mirror one:8080\n"
        "only-binary = :all:\nno-binary = :none:\n",
    )
    settings = machine.uv()
    assert settings.variables["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert settings.variables["UV_INDEX"] == f"https://one/simple file://{machine.root}/two"
    assert settings.variables["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert settings.variables["UV_FIND_LINKS"] == (
        f"file:///wheels,file://{machine.root}/rel%2Cative,https://links/page"
    )
    assert settings.arguments == (
        *("--allow-insecure-host", "mirror", "--allow-insecure-host", "one:8080"),
        *("--only-binary", ":all:"),
    )


def test_no_index_leaves_the_links(machine: Machine) -> None:
    machine.environ |= {"PIP_NO_INDEX": "yes", "PIP_INDEX_URL": "https://mirror", "PIP_FIND_LINKS": "/wheels"}
    settings = machine.uv()
    assert settings.arguments == ("--no-index",)
    assert settings.variables["UV_FIND_LINKS"] == "file:///wheels"
    assert "UV_DEFAULT_INDEX" not in settings.variables


def test_the_network_is_translated(machine: Machine) -> None:
    machine.write("ca.pem", "")
    machine.environ |= {
        "PIP_CERT": "ca.pem",
        "PIP_CLIENT_CERT": "~/me.pem",
        "PIP_DEFAULT_TIMEOUT": "7.5",
        "PIP_RETRIES": "2",
        "PIP_PROXY": "me:secret@proxy:3128",
        "HTTPS_PROXY": "http://other:1",
    }
    settings = machine.uv()
    assert settings.variables["SSL_CERT_FILE"] == f"{machine.root}/ca.pem"
    assert settings.variables["SSL_CLIENT_CERT"] == str(Path("~/me.pem").expanduser())
    assert settings.variables["UV_HTTP_TIMEOUT"] == "8"
    assert settings.variables["UV_HTTP_RETRIES"] == "2"
    assert (
        settings.variables["HTTPS_PROXY"]
        == settings.variables["https_proxy"]
        == "http://me:secret@proxy:3128"
    )
    assert settings.arguments == ()
    assert settings.secrets == {"secret"}


@pytest.mark.parametrize(
    ("own", "pip", "translated"),
    [
        ("UV_DEFAULT_INDEX", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("UV_INDEX_URL", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("UV_INDEX", "PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_FIND_LINKS"),
        ("SSL_CERT_FILE", "PIP_CERT", "SSL_CERT_FILE"),
    ],
)
def test_the_users_own_settings_for_uv_win(machine: Machine, own: str, pip: str, translated: str) -> None:
    machine.environ |= {own: "https://mine/simple", pip: "https://pips/simple"}
    settings = machine.uv()
    assert settings.variables[own] == "https://mine/simple"
    assert settings.variables.get(translated) in {None, "https://mine/simple"}


@pytest.mark.parametrize(
    ("name", "value"), [("PIP_NO_INDEX", "perhaps"), ("PIP_TIMEOUT", "soon"), ("PIP_RETRIES", "inf")]
)
def test_values_that_pip_refuses_are_refused(machine: Machine, name: str, value: str) -> None:
    machine.environ[name] = value
    with pytest.raises(EnvironmentFailed, match=f"{value}.*pip config debug"):
        machine.uv()


@given(
    st.text(max_size=300),
    st.dictionaries(st.sampled_from(["PIP_NO_INDEX", "PIP_PROXY", "PIP_CERT"]), st.text()),
)
def test_any_text_is_either_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, own: dict[str, str]
) -> None:
    machine = Machine(tmp_path_factory.getbasetemp() / "any")
    machine.write("etc/pip.conf", "")
    (machine.etc / "pip.conf").write_bytes(text.encode("utf-8", "surrogatepass"))
    machine.environ |= {name: value.replace("\0", "") for name, value in own.items()}
    try:
        settings = machine.uv()
    except EnvironmentFailed:
        return
    assert all(isinstance(value, str) for value in settings.variables.values())


# --- credentials --------------------------------------------------------------------------------------------

WORD = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="-._~%!$&'()*+,;=@"), min_size=4
)


@given(WORD, WORD, st.sampled_from(["https", "http", "git+https", "socks5"]), st.text(max_size=20))
def test_no_password_survives(user: str, password: str, scheme: str, around: str) -> None:
    url = f"{scheme}://{user}:{password}@some.host:80/simple"
    shown = redact(f"{around} {url} {around}")
    assert f"{scheme}://***@some.host:80/simple" in shown
    assert f"{user}:{password}@" not in shown
    assert find_secrets(url)


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=4))
def test_a_secret_is_masked_wherever_it_stands(secret: str) -> None:
    url = f"https://me:{secret}@host/simple"
    assert redact(f"-{secret}-", find_secrets(url)) == "-***-"


def test_a_token_without_a_password_and_an_encoded_one_are_secrets() -> None:
    assert find_secrets("https://token@host/simple") == {"token"}
    assert find_secrets("https://me:a%40b@host") == {"a%40b", "a@b"}
    assert find_secrets("https://host/simple?x=a@b") == set()
    assert redact("write to me@host or https://host/a@b") == "write to me@host or https://host/a@b"


# --- interpreters -------------------------------------------------------------------------------------------


def fake(path: Path, answer: str, code: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\nexit {code}\n")
    path.chmod(0o755)


def test_the_running_interpreter_is_preferred_to_newer_ones(tmp_path: Path) -> None:
    fake(tmp_path / "python3.99", "echo 3.99.1 cpython -")
    actual = interpreters.find(">=3.11", {"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert actual.path == Path(sys.executable)


def test_the_newest_of_the_usable_is_taken(tmp_path: Path) -> None:
    path, pyenv = tmp_path / "bin", tmp_path / ".pyenv" / "versions"
    fake(path / "python3.96", "echo 3.96.4 cpython -")
    fake(path / "python3.97", "echo 'pyenv: python3.97: command not found' >&2", 127)  # an inactive shim
    fake(path / "python3.98", "echo 3.98.0 cpython t")  # free-threaded
    fake(path / "python3.95", "echo 3.95.2 pypy -")
    fake(path / "python3.99", "echo 3.99.0a1 cpython -")  # not released
    fake(path / "python3.94t", "echo 3.94.0 cpython -")
    (path / "python3.93").symlink_to(tmp_path / "gone")
    fake(path / "python3.12", f"touch {tmp_path}/asked; echo 3.12.0 cpython -")
    fake(pyenv / "3.96.7" / "bin" / "python3.96", "echo 3.96.7 cpython -")
    fake(pyenv / "mine" / "bin" / "python", "echo 3.90.0 cpython -")
    environ = {"PATH": f"{path}:{tmp_path}/absent::", "HOME": str(tmp_path)}
    assert str(interpreters.find(">=3.90", environ).version) == "3.96.7"
    assert str(interpreters.find("==3.90.*", environ).version) == "3.90.0"
    assert not (tmp_path / "asked").exists()

    with pytest.raises(
        EnvironmentFailed, match=r"satisfies '==3\.95\.\*'.*PATH \(.*pyenv \(.*`dlperf run .* --python PATH`"
    ):
        interpreters.find("==3.95.*", environ)
    with pytest.raises(PluginError, match="not a version specifier"):
        interpreters.find("three", environ)


@pytest.mark.long
def test_pythons_of_pyenv_are_detected() -> None:
    versions = [
        path.name for path in Path.home().glob(".pyenv/versions/3.*") if path.name[2:4].strip(".").isdigit()
    ]
    others = [name for name in versions if not name.startswith(f"3.{sys.version_info.minor}.")]
    if not others:
        pytest.skip("pyenv has no other Python here: finding a real one was NOT tested")
    actual = interpreters.find(f"=={others[0]}", os.environ)
    assert str(actual.version) == others[0]


@pytest.mark.parametrize(
    "answer", ["", "echo", "echo three cpython -", "echo 3.99.1", "echo 3.99.1 cpython - more"]
)
def test_program_that_does_not_answer_as_python_is_skipped(tmp_path: Path, answer: str) -> None:
    fake(tmp_path / "python3.99", answer)
    assert probe.probe_interpreter(tmp_path / "python3.99", {}) is None


def test_additional_output_of_an_interpreter_is_ignored(tmp_path: Path) -> None:
    fake(tmp_path / "python", f'echo a banner; exec {sys.executable} "$@"')
    assert probe.probe_facts(tmp_path / "python", os.environ).version == ".".join(
        map(str, sys.version_info[:3])
    )
    fake(tmp_path / "python", "echo '{}'")
    with pytest.raises(EnvironmentFailed, match="could not be listed.*`dlperf run .* --python PATH`"):
        probe.probe_facts(tmp_path / "python", os.environ)
    fake(tmp_path / "python", "echo cannot reach https://me:secret@host >&2", 3)
    with pytest.raises(EnvironmentFailed, match=r"exit code 3: cannot reach https://\*\*\*@host"):
        probe.probe_facts(tmp_path / "python", os.environ)


# --- what fits a device -------------------------------------------------------------------------------------


def test_cuda_packages_are_recognized() -> None:
    cuda = [
        "nvidia-nccl-cu13==2.29.7",
        "cuda-bindings==13.0",
        "mxnet-cu112==1.9",
        "jax-cuda13-plugin==0.1",
        "torch==2+cu130",
    ]
    others = [
        "numpy==2.4",
        "nvidia-ml-py==13",
        "torch==2.13.0+cpu",
        "barracuda==1",
        "cu-tools==1",
        "x @ file:///cuda-1",
    ]
    assert find_unfit_pins([*cuda, *others], "cpu", ()) == cuda
    assert find_unfit_pins([*cuda, *others], "cuda", ()) == ["torch==2.13.0+cpu"]
    assert find_unfit_pins(["nvidia-cublas-cu11==11.11"], "cpu", ("oneflow", "nvidia_cublas_cu11>=11")) == []


# --- the marker ---------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def test_a_marker_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = marker.Marker("torch", "cpu", "3.11.7", "abc", "a==1\n", ("a",), ("--x",), 12, now())
    marker.write(tmp_path, written)
    assert marker.read(tmp_path) == written
    assert [path.name for path in tmp_path.iterdir()] == [marker.FILE]


@given(JSON, st.sampled_from(["version", "framework", "size", "created_at", "requirements", "lock", "more"]))
def test_any_other_marker_is_none(tmp_path_factory: pytest.TempPathFactory, value: object, key: str) -> None:

    folder = tmp_path_factory.getbasetemp()
    path = folder / marker.FILE
    path.write_text(json.dumps(value))
    assert marker.read(folder) is None
    marker.write(folder, marker.Marker("torch", "cpu", "3.11.7", "abc", "a==1\n", ("a",), (), 12, now()))
    plain = json.loads(path.read_text())
    plain[key] = value
    path.write_text(json.dumps(plain))
    actual = marker.read(folder)
    if actual is not None:
        assert isinstance(actual.framework, str) and isinstance(actual.size, int)
        assert all(isinstance(text, str) for text in actual.requirements)


# --- the variables of workers -------------------------------------------------------------------------------


def test_a_worker_inherits_little() -> None:
    own = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "LD_LIBRARY_PATH": "/l",
        "OMP_NUM_THREADS": "4",
        "PIP_INDEX_URL": "secret",
        "A": "1",
    }
    assert worker_variables({}, own) == {"PATH": "/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": "/l"}
    assert worker_variables({"A": None, "B": None, "C": "3", "PATH": "/mine"}, own) == {
        **{"PATH": "/mine", "LC_ALL": "C", "LD_LIBRARY_PATH": "/l"},
        **{"A": "1", "C": "3"},
    }
    assert worker_environment(own, {"RANK": "7"}, {"RANK": "0"})["RANK"] == "0"


NAMES = st.sampled_from(["PATH", "LC_TIME", "HOME", "OMP_NUM_THREADS", "SECRET", "RANK"])


@given(
    st.dictionaries(NAMES, st.text(max_size=3)),
    st.dictionaries(NAMES, st.none() | st.text(max_size=3)),
    st.dictionaries(NAMES, st.text(max_size=3)),
)
def test_nothing_reaches_a_worker_but_by_one_of_three_ways(
    own: dict[str, str], requested: dict[str, str | None], process: dict[str, str]
) -> None:
    result = worker_environment(own, requested, process)
    for name, value in result.items():
        listed = name in variables.INHERITED or name.startswith("LC_")
        if name in process:
            assert value == process[name]
        elif requested.get(name) is not None:
            assert value == requested[name]
        else:
            assert value == own[name]
            assert listed or name in requested
