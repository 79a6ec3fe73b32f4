"""The bundle: everything a node needs of ours, nothing else, and the same every time."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import attrs
import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import PluginError
from dlperf_sdk.planning.bundle import build, contents
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry


def request(framework="numpy", run_id="case", **changes):
    planned = make_plan(RunSpec(framework=framework, model="linear"), Registry())
    return planned.__class__.request(
        attrs.evolve(planned, **changes), run_id, (sys.executable,), {}, {"source": "synthetic"}
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build(request("faulty"), tmp_path_factory.mktemp("bundle") / "case.pyz")


def test_equal_requests_give_equal_bundles_but_for_the_secret(tmp_path, bundle):
    again = build(request("faulty"), tmp_path / "again.pyz")
    assert again.digest == bundle.digest
    assert again.files == bundle.files
    with zipfile.ZipFile(bundle.path) as one, zipfile.ZipFile(again.path) as other:
        assert one.namelist() == other.namelist()
        for name in one.namelist():
            assert name.endswith(".pyc") or (one.read(name) == other.read(name)) == (name != "secret")
            assert one.getinfo(name).date_time == (1980, 1, 1, 0, 0, 0)
        assert len(one.read("secret")) == 64


def test_another_request_is_another_digest(tmp_path, bundle):
    assert build(request("faulty", run_id="other"), tmp_path / "other.pyz").digest != bundle.digest


def test_it_holds_the_worker_the_plugins_and_the_request(bundle, root):
    folders = {PurePosixPath(name).parts[0] for name in bundle.files}
    # Not dlperf_numpy, which dlperf_faulty is built on: what the request names travels, not what that imports.
    assert folders == {"__main__.py", "dlperf_sdk", "dlperf_faulty", "request.json"}
    ours = {name for name in bundle.files if name.startswith("dlperf_sdk/")}
    there = {f"{path.relative_to(root / 'src')}" for path in (root / "src/dlperf_sdk/worker").rglob("*.py")}
    assert ours == {"dlperf_sdk/__init__.py"} | there


def test_no_name_escapes_the_folder(bundle):
    for name in bundle.files:
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert "\\" not in name
    with zipfile.ZipFile(bundle.path) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(".pyc")]
        assert sorted(archive.namelist()) == sorted([*bundle.files, *compiled, "secret"])
        assert all(PurePosixPath(name).parent.name == "__pycache__" for name in compiled)
        assert not any(info.is_dir() or info.external_attr >> 16 & 0o170000 for info in archive.infolist())


def test_bytecode_matches_its_sources_and_has_no_local_path(bundle, tmp_path, root):
    """Python takes it as it is: unpacked and imported, nothing is compiled, whatever the files' times are."""
    with zipfile.ZipFile(bundle.path) as archive:
        archive.extractall(tmp_path)
    sources = {path for path in tmp_path.rglob("*.py") if path.parent != tmp_path}
    compiled = {path: Path(importlib.util.cache_from_source(path)) for path in sources}
    for source, cache in compiled.items():
        content = cache.read_bytes()
        assert str(root).encode() not in content
        assert content[8:16] == importlib.util.source_hash(source.read_bytes())
    module = tmp_path / "dlperf_sdk" / "worker" / "agent" / "link.py"
    module.write_text("raise SystemExit('it was compiled')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from dlperf_sdk.worker.agent import link; print(link.__file__)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(module), done.stderr


def test_unchecked_bytecode_of_an_installed_package_stays_out(tmp_path, monkeypatch):
    """Python would run it although it is that of another source: the bundle's digest would not cover what runs."""
    source, other = "VALUE = 1\n", tmp_path / "other.py"
    module = tmp_path / "prebuilt" / "__init__.py"
    module.parent.mkdir()
    module.write_text(source)
    other.write_text("open('PWNED', 'w')\n")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), importlib.util.cache_from_source(module), invalidation_mode=mode)
    monkeypatch.syspath_prepend(tmp_path)
    path = build(request(), tmp_path / "case.pyz", ["prebuilt"]).path
    with zipfile.ZipFile(path) as archive:
        content = archive.read(importlib.util.cache_from_source("prebuilt/__init__.py"))
    assert content[8:16] == importlib.util.source_hash(source.encode())
    assert b"PWNED" not in content
    assert b"VALUE" in content


@pytest.mark.parametrize("umask", [0, 0o077])
def test_only_its_owner_can_read_it(tmp_path, umask):
    path = tmp_path / "case.pyz"
    path.touch(0o666)
    path.chmod(0o666)  # somebody's older file
    before = os.umask(umask)
    try:
        build(request(), path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "reference", ["no_such_package.worker:Runtime", "sys:path", "math:pi", ":x", ".relative:x"]
)
def test_a_package_that_is_not_there_as_python_files(tmp_path, reference):
    with pytest.raises(PluginError, match="is not installed here as Python files"):
        build(request(runtime=reference), tmp_path / "case.pyz")
    assert not (tmp_path / "case.pyz").exists()


def test_a_single_module_and_a_broken_link(tmp_path, monkeypatch):
    (tmp_path / "one_file.py").write_text("x = 1\n")
    package = tmp_path / "one_package"
    (package / "deeper").mkdir(parents=True)
    for name in ("__init__.py", "deeper/__init__.py", "data.json"):
        (package / name).write_text("")
    (package / "gone.py").symlink_to(tmp_path / "nowhere.py")
    monkeypatch.syspath_prepend(tmp_path)
    files = contents(request(runtime="one_file:x", trainer="one_package.deeper:x"))
    assert files["one_file.py"] == b"x = 1\n"
    assert {name for name in files if name.startswith("one_package")} == {
        "one_package/__init__.py",
        "one_package/deeper/__init__.py",
    }
    assert not {"one_file", "one_package"} & set(sys.modules)


def test_a_sampler_of_a_third_party_travels(tmp_path, monkeypatch):
    (tmp_path / "their_sampler.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert "their_sampler.py" in contents(request(samplers=("their_sampler:Sampler",)))


def test_bundle_runs_without_the_controllers_packages(bundle, tmp_path):
    """An interpreter without site-packages: what the bundle does not hold is not there."""
    script = f"""
import json, sys
sys.path.insert(0, {str(bundle.path)!r})
missing = []
for name in ("attrs", "attr", "numpy", "pluggy", "stevedore"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
import dlperf_sdk
from dlperf_sdk.worker import main, trainer
from dlperf_sdk.worker.agent import agent, coordinator
from dlperf_sdk.worker.request import resolve
import dlperf_faulty.processes
refused = []
for name in ("run", "RunSpec"):
    try:
        getattr(dlperf_sdk, name)
    except ImportError:
        refused.append(name)
print(json.dumps([missing, dlperf_sdk.__file__, refused]))
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    missing, where, refused = json.loads(answer.stdout)
    assert missing == ["attrs", "attr", "numpy", "pluggy", "stevedore"]
    assert where.startswith(str(bundle.path))
    assert refused == ["run", "RunSpec"]


def test_its_front_door_without_site_packages(bundle):
    answer = subprocess.run(
        [sys.executable, "-I", "-S", str(bundle.path), "--help"], capture_output=True, text=True, check=True
    )
    assert "agent" in answer.stdout
    assert "worker" in answer.stdout


def test_the_checkouts_own_package_does_not_win_over_the_bundles(bundle, tmp_path):
    """An agent that was started with the controller's interpreter still runs what is in its bundle."""
    with zipfile.ZipFile(bundle.path) as archive:
        archive.extractall(tmp_path / "bundle")
    main = tmp_path / "bundle" / "dlperf_sdk" / "worker" / "main.py"
    main.write_text("def main(arguments):\n    print(__file__)\n")
    Path(importlib.util.cache_from_source(main)).unlink()
    answer = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "bundle")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert answer.stdout.strip() == str(main)


def test_all_files_of_a_bundle_compile(bundle):
    with zipfile.ZipFile(bundle.path) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                ast.parse(archive.read(name), name)
