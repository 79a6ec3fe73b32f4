"""What travels to the nodes runs on Python 3.7 and needs nothing but the standard library: read, and then run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from dlperf_sdk import EnvironmentSpec, environments
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import repeat_from

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dlperf_sdk"
WORKER = sorted((PACKAGE / "worker").rglob("*.py"))
PLUGINS = sorted(
    path
    for place in ("plugins", "examples", "tests/plugins")
    for path in ROOT.glob(f"{place}/*/src/*")
    if path.is_dir()
)
OF_BOTH_HALVES = ("__init__.py", "precisions.py", "processes.py")
WORKER_HALVES = sorted(
    path
    for plugin in PLUGINS
    for path in [
        *plugin.glob("worker.py"),
        *plugin.glob("worker/**/*.py"),
        *(plugin / name for name in OF_BOTH_HALVES),
    ]
    if path.exists()
)


def named(path):
    return str(path.relative_to(ROOT))


def imported(path):
    """Return all modules that a file imports, wherever in it, but for what only type checkers read."""
    actual = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            actual |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            actual.add(node.module)
    return actual


def foreign(path, *own):
    """What it imports that is neither of the standard library nor below one of `own`."""
    return {
        module
        for module in imported(path)
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not any(module == name or module.startswith(name + ".") for name in own)
    }


BESIDE = {
    "canonical.py": {"numpy"},
    "conformance.py": {"numpy"},
    "base_trainer.py": {"numpy"},
    "trainer_hooks.py": {"numpy"},
    "due_labels.py": {"numpy"},
    "horovod.py": {"horovod", "horovod.runner.http.http_server"},
    "loading.py": {"numpy"},
    "python_dataset.py": {"numpy"},
    "python_queue.py": {"numpy"},
    "dali_feed.py": {"numpy", "PIL", "nvidia.dali"},
    "zmq_feed.py": {"numpy", "zmq"},
    "zmq_messages.py": {"numpy"},
    "zmq_sender.py": {"numpy", "zmq"},
    "jpeg.py": {"numpy", "PIL"},
}
"""Files that a measured run of another trainer does not import, and what they need beside the standard library."""


@pytest.mark.parametrize("path", [PACKAGE / "__init__.py", *WORKER], ids=named)
def test_the_worker_is_python_3_7_and_standard_library(path):
    ast.parse(path.read_text(encoding="utf-8"), named(path), feature_version=(3, 7))
    assert foreign(path, "dlperf_sdk.worker") <= BESIDE.get(path.name, set())


def framework_of(path, plugin):
    """Return the framework that a worker half is for: the plugin's, or the one at the end of its own name."""
    name = plugin.name.replace("dlperf_", "")
    return name if Registry().has_plugin("frameworks", name) else path.stem.rpartition("_")[2]


def oldest(name):
    """Return the oldest Python that a framework's environments may have; 3.7 for what is for any framework."""
    if not Registry().has_plugin("frameworks", name):
        return 7
    framework = Registry().framework(name)
    model = next(iter(framework.trainers))
    specs = [
        SpecifierSet(framework.environment(device, strategy, model).python)
        for device in framework.capabilities.devices
        for strategy in framework.capabilities.strategies
    ]
    return min(minor for minor in range(7, 30) if any(spec.contains(f"3.{minor}.99") for spec in specs))


@pytest.mark.parametrize("path", WORKER_HALVES, ids=named)
def test_worker_halves_use_syntax_of_their_environments(path):
    plugin = next(parent for parent in path.parents if parent in PLUGINS)
    name = framework_of(path, plugin)
    both = path.name in OF_BOTH_HALVES and path.parent == plugin
    # An agent imports these as well, with whatever Python its node has.
    ast.parse(path.read_text(encoding="utf-8"), named(path), feature_version=(3, 7 if both else oldest(name)))
    own = ("dlperf_sdk.worker", plugin.name, f"dlperf_{name}.worker") + (
        ("dlperf_numpy",) if name == "faulty" else ()
    )
    allowed = set() if both else {name, "numpy", *THEIR_OWN.get(name, ())}
    assert {module.partition(".")[0] for module in foreign(path, *own)} <= allowed


THEIR_OWN = {
    "jax": ("jaxlib", "optax"),
    "tensorflow1": ("horovod", "tensorflow"),
    "tensorpack": ("tensorflow", "dlperf_tensorflow1"),
    "torch": ("horovod", "triton"),
}
"""Packages that a framework's worker half may import, beside the one with its name: of its environment, or another
plugin's in its bundle."""


@pytest.mark.parametrize("plugin", [path for path in PLUGINS if (path / "framework.py").exists()], ids=named)
def test_the_controller_half_never_imports_the_framework(plugin):
    for path in plugin.glob("*.py"):
        if path.name != "worker.py":
            assert foreign(path, "dlperf_sdk", plugin.name, "dlperf_numpy", "attrs") == set(), path
            assert f"{plugin.name}.worker" not in imported(path)


@pytest.fixture(scope="module", params=[">=3.7,<3.8", ">=3.13,<3.14"])
def python(request):
    """An interpreter with NumPy, made once and kept in the user's cache."""
    spec = EnvironmentSpec(python=request.param, requirements=("numpy>=1.17",))
    try:
        prepared = environments.prepare("numpy", spec, "cpu")
    except EnvironmentFailed as error:
        pytest.skip(f"the worker stays untried on Python {request.param}: {error}")
    with environments.use_environment(prepared):
        yield prepared


def test_every_worker_module_can_be_imported(python):
    modules = [
        "dlperf_sdk." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts).replace(".__init__", "")
        for path in WORKER
    ]
    script = (
        "import importlib, json, sys\nsys.path.insert(0, sys.argv[1])\n"
        "for name in json.loads(sys.argv[2]):\n    importlib.import_module(name)\n"
        "print(json.dumps(sorted(name for name in sys.modules if '.' not in name)))\n"
    )
    answer = subprocess.run(
        [*python.command, "-I", "-W", "error", "-c", script, str(PACKAGE.parent), json.dumps(modules)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert not {"attr", "attrs", "pluggy", "stevedore"} & set(json.loads(answer.stdout))


@pytest.mark.parametrize("topology", ["2n1d"])
def test_a_case_in_another_python(stream, python, topology):
    events = stream(python=python.command[0], topology=topology, repeats=1)
    assert events[-1]["failure"] is None, events[-1]
    repeat = repeat_from(next(event for event in events if event["event"] == "attempt-ended"))
    assert [record.facts["python_version"] for record in repeat.records] == [python.python] * 2
    assert len({replica.digest for record in repeat.records for replica in record.replicas}) == 1


def test_an_agent_in_another_python(python, tmp_path):
    """A node's own Python starts the agent: it serves, and follows its orders, on every version."""
    from dlperf_sdk import RunSpec
    from dlperf_sdk.planning.bundle import build
    from dlperf_sdk.planning.plan import make_plan

    spec = RunSpec(framework="numpy", model="linear", batch_size=4, warmup=1, steps=5, repeats=1)
    request = make_plan(spec, Registry()).request("case", python.command, {}, {"source": "synthetic"})
    bundle = build(request, tmp_path / "case.pyz")
    answer = subprocess.run(
        [*python.command, "-I", str(bundle.path), "agent", "--node", "0", "--hosts", "127.0.0.1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    assert (answer.returncode, events[-1]["event"], events[-1]["failure"]) == (0, "ended", None), (
        answer.stderr
    )
