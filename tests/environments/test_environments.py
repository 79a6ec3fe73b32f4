"""Environments for real: real uv, real interpreters, tiny distributions that are built on the spot."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlperf_sdk import environments
from dlperf_sdk.environments import managed, marker, probe
from dlperf_sdk.errors import DocumentError, EnvironmentFailed, PluginError, UnknownName, UsageError
from dlperf_sdk.interfaces.framework import EnvironmentSpec, SourceBuild

pytestmark = pytest.mark.long

RUNNING = f"=={sys.version_info.major}.{sys.version_info.minor}.*"
SOURCE = Path(environments.__file__).parents[2]


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> Path:
    """A pure-Python wheel with one module of the distribution's name."""
    folder.mkdir(parents=True, exist_ok=True)
    record = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{record}/METADATA": metadata,
        f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashes = {path: hashlib.sha256(text.encode()).digest() for path, text in files.items()}
    entries = [
        f"{path},sha256={base64.urlsafe_b64encode(hash).rstrip(b'=').decode()},{len(files[path])}"
        for path, hash in hashes.items()
    ]
    files[f"{record}/RECORD"] = "\n".join([*entries, f"{record}/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


BACKEND = """
import importlib.util, os, pathlib, sys, time, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    gate = pathlib.Path("GATE")
    (gate / "reached").write_text(str(os.getpid()))
    if FAILS:
        sys.exit("the compiler said: no rule for NAME")
    for _ in range(1200):
        if (gate / "open").exists():
            break
        time.sleep(0.05)
    path = pathlib.Path(wheel_directory) / "NAME-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        options = os.environ.get("TOY_OPTION"), importlib.util.find_spec("toydep") is not None
        archive.writestr("NAME.py", "options = %r" % (options,))
        about = "Metadata-Version: 2.2\\nName: NAME\\nVersion: 1.0\\n"
        archive.writestr("NAME-1.0.dist-info/METADATA", about)
        about = "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        archive.writestr("NAME-1.0.dist-info/WHEEL", about)
        archive.writestr("NAME-1.0.dist-info/RECORD", "NAME.py,,\\n")
    return path.name
"""


def gated(folder: Path, name: str, gate: Path, *, fails: bool = False) -> None:
    """A source distribution whose build reaches a gate, and goes on when `gate/open` exists, or fails."""
    folder.mkdir(parents=True, exist_ok=True)
    gate.mkdir(parents=True, exist_ok=True)
    backend = BACKEND.replace("NAME", name).replace("GATE", str(gate)).replace("FAILS", str(fails))
    files = {
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n",
        "pyproject.toml": (
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            f'[project]\nname = "{name}"\nversion = "1.0"\n'
        ),
        "backend.py": backend,
    }
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for inside, text in files.items():
            about = tarfile.TarInfo(f"{name}-1.0/{inside}")
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that pip, and so uv, is configured to use; caches of its own."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    folder = tmp_path / "wheels"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    wheel(folder, "toyframe", "1.0", ("toydep>=2",))
    wheel(folder, "toydep", "2.1")
    return folder


def spec(*requirements: str, python: str = RUNNING, **more: object) -> EnvironmentSpec:
    return EnvironmentSpec(python=python, requirements=requirements, **more)  # type: ignore[arg-type]


def run_in(environment: environments.PreparedEnvironment, code: str) -> str:
    return subprocess.run(
        [*environment.command, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def creator(requirement: str) -> subprocess.Popen[str]:
    """Another process that prepares the same environment, and prints its progress line by line."""
    code = (
        "import sys\n"
        "from dlperf_sdk import environments\n"
        "from dlperf_sdk.interfaces.framework import EnvironmentSpec\n"
        f"spec = EnvironmentSpec(python={RUNNING!r}, requirements=({requirement!r},))\n"
        "made = environments.prepare('toy', spec, 'cpu', on_progress=lambda text: print(text, flush=True))\n"
        "print('path', made.path, flush=True)\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(condition: object, what: str, patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has ended; perhaps in this very moment
        return False


def left() -> list[str]:
    """What there is in the folder of managed environments."""
    return sorted(path.name for path in managed.home().iterdir())


# --- managed ------------------------------------------------------------------------------------------------


def test_managed_environment_is_created_described_and_reused(wheels: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    created = environments.prepare("toy", spec("toyframe>=1"), "cpu", on_progress=messages.append)
    assert created.kind == "managed"
    assert created.lock == "toydep==2.1\ntoyframe==1.0\n"
    assert created.python == ".".join(map(str, sys.version_info[:3]))
    assert created.path == tmp_path / "cache" / "environments" / f"toy-cpu-{created.key}"
    assert run_in(created, "import toyframe, toydep; print(toyframe.version, toydep.version)") == "1.0 2.1\n"
    assert any(line.startswith("making toy-cpu-") for line in messages)
    assert any("toyframe==1.0" in line for line in messages)
    assert stat.S_IMODE(created.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(created.path.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in created.path.iterdir()) == ["environment.json", "venv"]

    messages.clear()
    assert environments.prepare("toy", spec("toyframe>=1"), "cpu", on_progress=messages.append) == created
    assert any(line.startswith("reusing") for line in messages)
    assert environments.prepare("toy", spec("toydep"), "cpu").path != created.path


def test_a_lock_decides_the_versions(wheels: Path, tmp_path: Path) -> None:
    wheel(wheels, "toydep", "2.4")
    lock = tmp_path / "lock.txt"
    lock.write_text("toyframe==1.0\ntoydep==2.1 ; python_version >= '3.8'\n")
    locked = environments.prepare("toy", spec("toyframe", lock=lock), "cpu")
    assert locked.lock == "toydep==2.1\ntoyframe==1.0\n"
    free = environments.prepare("toy", spec("toyframe"), "cpu")
    assert free.lock == "toydep==2.4\ntoyframe==1.0\n"
    assert free.key != locked.key
    lock.write_text("toyframe==1.0\ntoydep==2.4\n")
    assert environments.prepare("toy", spec("toyframe", lock=lock), "cpu").key not in {free.key, locked.key}


def test_a_distribution_without_wheels_is_built_in_the_environment(wheels: Path, tmp_path: Path) -> None:
    gated(wheels, "toybuild", tmp_path / "gate")
    (tmp_path / "gate" / "open").touch()
    lock = tmp_path / "lock.txt"
    lock.write_text(f"# all of it\ntoybuild==1.0 \\\n    --hash=sha256:{'0' * 64}\ntoydep==2.1\n")
    lines: list[str] = []

    def prepare(value: str) -> environments.PreparedEnvironment:
        builds = (SourceBuild("Toybuild", {"TOY_OPTION": value}, ("sh",)),)
        contents = spec("toydep", "toybuild==1.0", lock=lock, source_builds=builds)
        return environments.prepare("toy", contents, "cpu", on_progress=lines.append)

    created = prepare("a")
    assert created.lock == "toybuild==1.0\ntoydep==2.1\n"
    assert run_in(created, "import toybuild; print(toybuild.options)") == "('a', True)\n"
    assert "building toybuild with TOY_OPTION=a from source, which can take many minutes" in lines
    assert prepare("a") == created
    other = prepare("b")
    assert run_in(other, "import toybuild; print(toybuild.options)") == "('b', True)\n"
    [record] = other.path.glob("venv/lib/python*/site-packages/toybuild-1.0.dist-info/RECORD")
    record.unlink()
    with pytest.raises(EnvironmentFailed, match="toybuild was built from source in it.*dlperf env remove"):
        environments.repair(other.path.name)


def test_missing_programs_of_a_build_are_named_before_anything_is_installed(wheels: Path) -> None:
    builds = (SourceBuild("toydep", programs=("sh", "no-such-compiler")),)
    with pytest.raises(
        EnvironmentFailed, match="no-such-compiler is not on PATH.*`dlperf run .* --python PATH`"
    ):
        environments.prepare("toy", spec("toydep", source_builds=builds), "cpu")
    assert left() == []


def test_hashes_in_a_lock_are_checked(wheels: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    true = hashlib.sha256((wheels / "toydep-2.1-py3-none-any.whl").read_bytes()).hexdigest()
    lock.write_text(f"toydep==2.1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(EnvironmentFailed, match=f"removed again.*Hash mismatch.*{true}"):
        environments.prepare("toy", spec("toydep", lock=lock), "cpu")
    assert left() == []
    lock.write_text(f"toydep==2.1 --hash=sha256:{true}\n")
    assert environments.prepare("toy", spec("toydep", lock=lock), "cpu").lock == "toydep==2.1\n"


def test_a_lock_that_is_not_there_is_the_plugins_fault(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="lock file"):
        environments.prepare("toy", spec("toyframe", lock=tmp_path / "none.txt"), "cpu")


def test_an_environment_that_was_changed_is_made_anew(wheels: Path) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    site = next((created.path / "venv" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel(wheels.parent / "other", "stranger", "9")) as archive:
        archive.extractall(site)
    messages: list[str] = []
    again = environments.prepare("toy", spec("toyframe"), "cpu", on_progress=messages.append)
    assert again == created
    assert any("has changed since it was made" in line for line in messages)
    assert not (site / "stranger.py").exists()


def test_unresolvable_requirements_fail_with_uvs_message_and_leave_nothing(wheels: Path) -> None:
    with pytest.raises(
        EnvironmentFailed,
        match=r"(?s)cannot be resolved.*nosuchframe.*PIP_FIND_LINKS.*`dlperf run .* --python",
    ):
        environments.prepare("toy", spec("nosuchframe==3"), "cpu")
    assert left() == []


def test_a_failure_half_way_leaves_nothing(wheels: Path, tmp_path: Path) -> None:
    gated(wheels, "toybuild", tmp_path / "gate", fails=True)
    with pytest.raises(
        EnvironmentFailed, match=r"(?s)removed again.*the compiler said: no rule for toybuild"
    ):
        environments.prepare("toy", spec("toybuild"), "cpu")
    assert (tmp_path / "gate" / "reached").exists()
    assert left() == []


def test_a_progress_callback_that_fails_ends_uv_and_leaves_nothing(wheels: Path) -> None:
    def broken(text: str) -> None:
        if "Resolved" in text:
            raise RuntimeError("the terminal has gone")

    with pytest.raises(RuntimeError, match="terminal has gone"):
        environments.prepare("toy", spec("toyframe"), "cpu", on_progress=broken)
    assert left() == []


def test_the_second_of_two_creators_waits_and_reuses(wheels: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gated(wheels, "toybuild", gate)
    with creator("toybuild") as first:
        until((gate / "reached").exists, "the first creator's build")
        with creator("toybuild") as second:
            assert second.stdout is not None
            observed = []
            while not any("waiting for process" in line for line in observed):
                observed.append(second.stdout.readline())
                assert observed[-1], second.communicate()
            assert str(first.pid) in observed[-1]
            (gate / "open").touch()
            out_first, _ = first.communicate(timeout=60)
            rest, err = second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), err
    assert "making toy-cpu-" in out_first
    assert "reusing toy-cpu-" in rest
    assert "making" not in rest
    assert out_first.splitlines()[-1] == rest.splitlines()[-1]


def test_ctrl_c_leaves_neither_files_nor_processes(wheels: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gated(wheels, "toybuild", gate)
    with creator("toybuild") as process:
        until(lambda: (gate / "reached").exists() and (gate / "reached").read_text(), "the build")
        builder = int((gate / "reached").read_text())
        assert alive(builder)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    until(lambda: not alive(builder), "the end of the build")
    assert left() == []


def test_environment_of_a_killed_creator_is_created_anew(wheels: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gated(wheels, "toybuild", gate)
    with creator("toybuild") as process:
        until((gate / "reached").exists, "the build")
        process.kill()
    [half] = environments.list_environments()
    assert (half.complete, half.framework, half.device) == (False, "toy", "cpu")
    messages: list[str] = []

    def on_progress(text: str) -> None:
        messages.append(text)
        if text.startswith("waiting"):  # for the uv that the killed one left behind: it still holds the lock
            (gate / "open").touch()

    created = environments.prepare("toy", spec("toybuild"), "cpu", on_progress=on_progress)
    assert any(line.startswith("waiting for another process") for line in messages), messages
    assert any(line.startswith("removing what is left") for line in messages), messages
    assert created.lock == "toybuild==1.0\n"
    assert [one.complete for one in environments.list_environments()] == [True]


# --- what fits a device -------------------------------------------------------------------------------------


def cuda_frame(wheels: Path) -> None:
    wheel(wheels, "bigframe", "3.0", ("nvidia-toy-cu13",))
    wheel(wheels, "nvidia_toy_cu13", "13.0")


def test_cuda_packages_are_refused_on_a_cpu_before_anything_is_installed(wheels: Path) -> None:
    cuda_frame(wheels)
    messages: list[str] = []
    with pytest.raises(EnvironmentFailed, match=r"(?s)CUDA packages.*nvidia-toy-cu13==13\.0.*PIP_FIND_LINKS"):
        environments.prepare("toy", spec("bigframe"), "cpu", on_progress=messages.append)
    assert not any("installing" in line for line in messages)
    assert left() == []
    assert (
        environments.prepare("toy", spec("bigframe"), "cuda").lock == "bigframe==3.0\nnvidia-toy-cu13==13.0\n"
    )


def test_cuda_packages_that_the_plugin_asks_for_by_name_are_not_refused(wheels: Path) -> None:
    cuda_frame(wheels)
    created = environments.prepare("toy", spec("bigframe", "nvidia_toy_cu13"), "cpu")
    assert "nvidia-toy-cu13==13.0" in created.lock


def test_plugin_index_options_are_used_when_no_index_has_a_fitting_version(
    wheels: Path, tmp_path: Path
) -> None:
    cuda_frame(wheels)
    wheel(tmp_path / "for-cpu", "bigframe", "3.0+cpu")
    options = ("--find-links", str(tmp_path / "for-cpu"))
    messages: list[str] = []
    created = environments.prepare(
        "toy", spec("bigframe", uv_options=options), "cpu", on_progress=messages.append
    )
    assert created.lock == "bigframe==3.0+cpu\n"
    assert any(line.startswith("trying again with --find-links") for line in messages)


def test_a_build_for_cpus_is_refused_on_a_gpu(wheels: Path) -> None:
    wheel(wheels, "bigframe", "3.0+cpu")
    with pytest.raises(EnvironmentFailed, match=r"builds for CPUs: bigframe==3\.0\+cpu"):
        environments.prepare("toy", spec("bigframe==3.0"), "cuda")


# --- list, remove, use --------------------------------------------------------------------------------------


def test_environments_are_listed_and_removed(wheels: Path) -> None:
    assert environments.list_environments() == []
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    os.utime(created.path / marker.FILE, (0, 0))
    [one] = environments.list_environments()
    assert (one.name, one.framework, one.device, one.python) == (
        created.path.name,
        "toy",
        "cpu",
        created.python,
    )
    assert one.size == pytest.approx(managed.measure_size(created.path), abs=2000)
    assert one.last_used == "1970-01-01T00:00:00+00:00"
    environments.prepare("toy", spec("toyframe"), "cpu")
    [one] = environments.list_environments()
    assert one.last_used is not None and one.created_at is not None
    assert one.last_used >= one.created_at

    with pytest.raises(UnknownName, match=f"Did you mean '{one.name}'"):
        environments.remove(one.name[:-1])
    with environments.use_environment(created):
        assert environments.prepare("toy", spec("toyframe"), "cpu") == created
        with pytest.raises(EnvironmentFailed, match=f"in use by process {os.getpid()}"):
            environments.remove(one.name)
    environments.remove(one.name)
    assert list(managed.home().iterdir()) == []
    with pytest.raises(EnvironmentFailed, match="has been removed"), environments.use_environment(created):
        pass


def module_of(environment: environments.PreparedEnvironment, name: str) -> Path:
    [path] = environment.path.glob(f"venv/lib/python*/site-packages/{name}.py")
    return path


def test_damaged_files_are_detected_and_repaired(wheels: Path) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    name = created.path.name
    assert environments.verify(name) == ()
    assert environments.repair(name) == ()
    damaged, removed = module_of(created, "toyframe"), module_of(created, "toydep")
    damaged.write_text("version = 'half a li")  # in place: also in uv's cache, whose file is the same
    removed.unlink()
    actual = environments.verify(name)
    assert [(file.distribution, file.reason) for file in actual] == [
        ("toydep==2.1", "is missing"),
        ("toyframe==1.0", "differs from its recorded hash"),
    ]
    assert actual[1].path.endswith("site-packages/toyframe.py")
    with (
        environments.use_environment(created),
        pytest.raises(EnvironmentFailed, match=f"in use by process {os.getpid()}"),
    ):
        environments.repair(name)
    assert environments.repair(name) == actual
    assert environments.verify(name) == ()
    assert run_in(created, "import toyframe, toydep; print(toyframe.version, toydep.version)") == "1.0 2.1\n"


def test_a_distribution_without_its_record_is_damaged_and_one_that_is_gone_cannot_be_repaired(
    wheels: Path,
) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    [record] = created.path.glob("venv/lib/python*/site-packages/toydep-2.1.dist-info/RECORD")
    record.unlink()
    [file] = environments.verify(created.path.name)
    assert str(file) == "toydep==2.1 has no readable RECORD of its files"
    (wheels / "toydep-2.1-py3-none-any.whl").unlink()
    with pytest.raises(
        EnvironmentFailed, match=f"could not be repaired.*dlperf env remove {created.path.name}"
    ):
        environments.repair(created.path.name)


def test_a_record_is_damaged_in_any_way(wheels: Path) -> None:
    """An empty line, and a device, which would be read without end."""
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    [record] = created.path.glob("venv/lib/python*/site-packages/toydep-2.1.dist-info/RECORD")
    record.write_text(record.read_text() + "\n/dev/zero,sha256=abc,3\n")
    reasons = [file.reason for file in environments.verify(created.path.name)]
    assert reasons == ["has a malformed entry in RECORD", "is not a regular file"]
    record.write_text(record.read_text().replace("\n\n/dev/zero,sha256", "\ntoydep.py,shake_128"))
    reasons = [file.reason for file in environments.verify(created.path.name)]
    assert reasons == ["has a hash of the unknown algorithm 'shake_128'"]


def test_a_folder_whose_name_is_an_option_of_uv_is_no_distribution(wheels: Path) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    metadata = module_of(created, "toydep").parent / "--index-url=x-1.0.dist-info"
    metadata.mkdir()
    (metadata / "RECORD").write_text(f"{metadata.name}/RECORD,,\nmissing.py,sha256=abc,3\n")
    assert environments.verify(created.path.name) == ()


def test_a_pipe_in_place_of_a_record_or_marker_is_damage(wheels: Path) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    [record] = created.path.glob("venv/lib/python*/site-packages/toydep-2.1.dist-info/RECORD")
    record.unlink()
    os.mkfifo(record)
    [damaged] = environments.verify(created.path.name)
    assert str(damaged) == "toydep==2.1 has no readable RECORD of its files"
    (created.path / marker.FILE).unlink()
    os.mkfifo(created.path / marker.FILE)
    with pytest.raises(EnvironmentFailed, match="half-made"):
        environments.verify(created.path.name)


@pytest.mark.parametrize("kept_lines", [0, 1])
def test_a_record_that_was_cut_off_is_damaged_and_repaired(wheels: Path, kept_lines: int) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    name = created.path.name
    [record] = created.path.glob("venv/lib/python*/site-packages/toydep-2.1.dist-info/RECORD")
    record.write_text("".join(record.read_text().splitlines(keepends=True)[:kept_lines]))
    actual = environments.verify(name)
    assert [str(file) for file in actual] == ["toydep==2.1 has no readable RECORD of its files"]
    assert environments.repair(name) == actual
    assert environments.verify(name) == ()


@pytest.mark.parametrize("function", [environments.verify, environments.repair])
def test_folder_that_is_not_an_environment_cannot_be_verified(wheels: Path, function) -> None:
    environments.prepare("toy", spec("toyframe"), "cpu")
    with pytest.raises(UnknownName, match="managed environment"):
        function("../environments")
    half = managed.home() / "toy-cpu-half"
    half.mkdir()
    with pytest.raises(EnvironmentFailed, match="half-made"):
        function("toy-cpu-half")


@pytest.mark.parametrize("function", [environments.verify, environments.repair])
def test_environment_without_its_interpreter_is_made_anew(wheels: Path, function) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    managed.interpreter_path(created.path).unlink()
    with pytest.raises(EnvironmentFailed, match=r"no interpreter .* `dlperf env create toy`"):
        function(created.path.name)


@pytest.mark.parametrize("name", ["..", "../environments", "/", "", "toy-cpu-x.lock"])
def test_only_environments_can_be_removed(wheels: Path, name: str) -> None:
    environments.prepare("toy", spec("toyframe"), "cpu")
    with pytest.raises(UnknownName):
        environments.remove(name)
    assert len(environments.list_environments()) == 1


@pytest.mark.parametrize("complete", [True, False])
def test_environments_can_be_listed_while_one_is_removed(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    created = environments.prepare("toy", spec("toyframe"), "cpu")
    contents = marker.read(created.path)
    if not complete:
        (created.path / marker.FILE).unlink()
    walk = os.walk

    def read_before_removal(folder: Path) -> marker.Marker | None:
        if not complete:
            return None
        shutil.rmtree(folder)
        return contents

    def walk_before_removal(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        entries = [*walk(folder)]
        shutil.rmtree(folder)
        yield from entries

    monkeypatch.setattr(marker, "read", read_before_removal)
    monkeypatch.setattr(managed.os, "walk", walk_before_removal)
    [one] = environments.list_environments()
    assert (one.name, one.last_used) == (created.path.name, None)
    assert complete or one.size == 0


def test_unusable_cache_is_reported(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(EnvironmentFailed, match="DLPERF_CACHE_DIR"):
        environments.list_environments()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "environments").symlink_to(tmp_path)
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "linked"))
    with pytest.raises(EnvironmentFailed, match="not a folder that you own"):
        environments.list_environments()


# --- from a lock --------------------------------------------------------------------------------------------


def test_a_lock_is_made_again_exactly(wheels: Path) -> None:
    wheel(wheels, "toydep", "2.4")
    first = environments.prepare("toy", spec("toyframe", "toydep==2.1"), "cpu")
    assert environments.obtain_from_lock("toy", "cpu", first.python, first.lock) == first
    environments.remove(first.path.name)
    again = environments.obtain_from_lock("toy", "cpu", first.python, first.lock)
    assert (again.lock, again.key != first.key) == (first.lock, True)
    assert environments.obtain_from_lock("toy", "cpu", first.python, first.lock) == again
    alone = environments.obtain_from_lock(
        "toy", "cpu", first.python, "toyframe==1.0\ndlperf-toy==0.3  # editable\n"
    )
    assert alone.lock == "toyframe==1.0\n"


@pytest.mark.parametrize(
    "line", ["toyframe", "toyframe>=1", "not a requirement", "toyframe==1 ; os_name == 'nt'"]
)
def test_a_lock_in_another_format_is_refused(wheels: Path, line: str) -> None:
    with pytest.raises(DocumentError, match="Line 2 of the lock"):
        environments.obtain_from_lock("toy", "cpu", "3.11.7", f"toydep==2.1\n{line}\n")


def test_lock_with_an_unavailable_version_is_refused(wheels: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"toyframe==1\.0 came from a folder"):
        environments.obtain_from_lock("toy", "cpu", "3.11.7", "toydep==2.1\ntoyframe==1.0  # editable\n")


# --- given and running --------------------------------------------------------------------------------------


@pytest.fixture
def own(wheels: Path, tmp_path: Path) -> Path:
    """Somebody's own virtual environment, with toydep 2.1 in it."""
    folder = tmp_path / "own environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheels / "toydep-2.1-py3-none-any.whl") as archive:
        archive.extractall(site)
    return folder


def test_interpreter_with_all_requirements_is_used(own: Path) -> None:
    python = own / "bin" / "python"
    for name in (str(python), str(own)):
        given = environments.prepare("toy", spec("toydep>=2", "absent ; os_name == 'nt'"), "cpu", python=name)
        assert (given.kind, given.command, given.path) == ("given", (str(python),), own)
        assert given.lock == "toydep==2.1\n"
    assert left() == []


def test_missing_requirements_of_an_interpreter_are_listed(own: Path) -> None:
    with pytest.raises(EnvironmentFailed) as error:
        environments.prepare("toy", spec("toydep>=3", "toyframe", "Absent_One"), "cpu", python=str(own))
    assert 'requested "toydep>=3", found "toydep 2.1"' in str(error.value)
    assert 'requested "toyframe", none is installed' in str(error.value)
    assert 'requested "Absent_One", none is installed' in str(error.value)
    with pytest.raises(EnvironmentFailed, match=r'requested "Python ==3\.7\.\*", found "Python 3\.'):
        environments.prepare("toy", spec("toydep", python="==3.7.*"), "cpu", python=str(own))


def test_a_version_restricts_the_managed_environment(wheels: Path) -> None:
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    created = environments.prepare("toy", spec("toydep"), "cpu", python=minor)
    assert (created.kind, created.python.rpartition(".")[0]) == ("managed", minor)
    assert environments.prepare("toy", spec("toydep"), "cpu", python=minor).path == created.path
    running = environments.prepare("toy", spec("attrs>=20"), "cpu", python=minor)
    assert running.kind == "running"


def test_a_version_that_the_plugin_refuses_or_nobody_installed_is_an_error(wheels: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r'requested "Python ==3\.7\.\*"'):
        environments.prepare("toy", spec("toydep", python="==3.7.*"), "cpu", python="3.8")
    with pytest.raises(EnvironmentFailed, match=r"==3\.99\.\*.*none was found"):
        environments.prepare("toy", spec("toydep", python=""), "cpu", python="3.99")
    with pytest.raises(UsageError, match=r"none was found"):
        environments.check_interpreter("3.99")


def test_file_that_is_not_an_interpreter_is_refused(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for name, words in (
        (str(tmp_path / "none"), "there is no such file"),
        ("no-such-python", "no command of that name"),
        (str(tmp_path), "without bin/python"),
        (str(tmp_path / "text"), "does not run as a Python"),
        ("/bin/true", "does not run as a Python"),
    ):
        with pytest.raises(EnvironmentFailed, match=words):
            environments.prepare("toy", spec("toydep"), "cpu", python=name)


def test_python_2_interpreter_is_refused_with_its_version(wheels: Path) -> None:
    python = next(Path.home().glob(".pyenv/versions/2.7*/bin/python"), None)
    if python is None:
        pytest.skip("no Python 2.7 in ~/.pyenv/versions: the message for a version that old was NOT tested")
    with pytest.raises(EnvironmentFailed, match=r'found "Python 2\.7'):
        environments.prepare("toy", spec("toydep"), "cpu", python=str(python))


def test_distributions_from_elsewhere_are_marked_without_saying_from_where(own: Path) -> None:
    site = next((own / "lib").glob("python*/site-packages"))
    for name, direct in {
        "edited": {"url": "file:///home/someone/secret", "dir_info": {"editable": True}},
        "local": {"url": "file:///home/someone/secret", "dir_info": {}},
        "fetched": {"url": "https://me:secret@host/x.whl", "archive_info": {}},
        "cloned": {"url": "https://me:secret@host/x", "vcs_info": {"vcs": "git"}},
        "odd": ["secret"],
    }.items():
        record = site / f"{name}-1.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\nName: secret\n")
        (record / "direct_url.json").write_text(json.dumps(direct))
    (site / "nameless-1.dist-info").mkdir()
    given = environments.prepare("toy", spec("toydep"), "cpu", python=str(own))
    assert given.lock == (
        "cloned==1  # from version control\nedited==1  # editable\nfetched==1  # from an archive\n"
        "local==1  # from a folder\nodd==1\ntoydep==2.1\n"
    )


def test_the_running_interpreter_is_used_when_it_satisfies(wheels: Path) -> None:
    messages: list[str] = []
    running = environments.prepare("toy", spec("attrs>=20"), "cpu", on_progress=messages.append)
    assert (running.kind, running.command) == ("running", (sys.executable,))
    assert "attrs==" in running.lock
    assert left() == []
    assert messages == [f"using the running interpreter, Python {running.python}"]


def test_a_build_for_cpus_does_not_satisfy_on_a_gpu() -> None:
    facts = probe.Facts(
        "3.11.7", Path("/p"), (probe.Distribution("torch", "2.13.0+cpu"),), {"python_version": "3.11"}
    )
    assert probe.list_unmet(("torch==2.13.*",), "cpu", facts) == []
    assert "a build for CPUs" in probe.list_unmet(("torch==2.13.*",), "cuda", facts)[0]


# --- Python 3.7 ---------------------------------------------------------------------------------------------


def test_python_3_7_environment_is_created_probed_and_used(wheels: Path) -> None:
    python = next(Path.home().glob(".pyenv/versions/3.7*/bin/python"), None)
    if python is None:
        pytest.skip("no Python 3.7 in ~/.pyenv/versions: environments of that version were NOT tested")
    created = environments.prepare("toy", spec("toyframe", python=">=3.7,<3.8"), "cpu")
    assert created.python.startswith("3.7.")
    assert run_in(created, "import sys, toyframe; print(sys.version_info[:2])") == "(3, 7)\n"
    given = environments.prepare("toy", spec("toyframe", python="==3.7.*"), "cpu", python=created.command[0])
    assert (given.kind, given.lock) == ("given", created.lock)


# --- credentials --------------------------------------------------------------------------------------------


@pytest.fixture
def index(wheels: Path) -> Iterator[str]:
    """An index that asks for a name and a password; the value is its address, with them."""
    secret = base64.b64encode(b"reader:s3cr3t-w0rd").decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != f"Basic {secret}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                body, kind = b"", "text/plain"
            elif self.path.startswith("/files/") and (wheels / Path(self.path).name).exists():
                self.send_response(200)
                body, kind = (wheels / Path(self.path).name).read_bytes(), "application/octet-stream"
            elif match := re.fullmatch(r"/simple/(toy\w+)/", self.path):
                self.send_response(200)
                names = [path.name for path in wheels.iterdir() if path.name.startswith(match[1])]
                body = "".join(f'<a href="/files/{name}">{name}</a>' for name in names).encode()
                kind = "text/html"
            else:
                self.send_response(404)
                body, kind = b"", "text/plain"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://reader:s3cr3t-w0rd@127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    thread.join()
    server.server_close()


def test_credentials_reach_the_index_and_nothing_else(
    wheels: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setenv("PIP_RETRIES", "0")
    messages: list[str] = []
    created = environments.prepare("toy", spec("toyframe"), "cpu", on_progress=messages.append)
    assert created.lock == "toydep==2.1\ntoyframe==1.0\n"
    stored = [path.read_bytes() for path in created.path.rglob("*") if path.is_file()]
    assert not any(b"s3cr3t" in content for content in stored)
    assert "s3cr3t" not in "\n".join(messages)

    with pytest.raises(EnvironmentFailed) as error:
        environments.prepare("toy", spec("nosuchframe"), "cpu", on_progress=messages.append)
    direct = index.replace("/simple", "/files/absent-1-py3-none-any.whl")
    with pytest.raises(EnvironmentFailed) as other:
        environments.prepare("toy", spec(f"absent @ {direct}"), "cpu", on_progress=messages.append)
    assert "s3cr3t" not in str(error.value) + str(other.value) + "\n".join(messages)
    assert "absent" in str(other.value)
