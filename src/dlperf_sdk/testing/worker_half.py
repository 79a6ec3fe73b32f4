"""Test the files of the worker half: their syntax, their imports, and the gaps that are left in them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlperf_sdk.environments import interpreters
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.controller_half import list_minor_versions
from dlperf_sdk.testing.subject import TO_BE_FILLED_IN, FrameworkSubject

COMPILE = (
    "import sys\nfor name in sys.argv[1:]:\n    compile(open(name, encoding='utf-8').read(), name, 'exec')\n"
)
"""Program that compiles the files named by its arguments, without running them."""
CORE = {"attr", "attrs", "cattrs", "cyclopts", "pluggy", "stevedore", "rich", "jsonschema", "psutil"}
"""Top-level modules of the core's dependencies, which no environment of a framework needs to have."""


class WorkerHalf(FrameworkSubject):
    """Tests of the files that a framework plugin's workers import, without starting them.

    They cover the models under test.
    """

    def test_worker_half_parses_on_oldest_python(self) -> None:
        """Each file of the worker half has the syntax of the oldest Python that the plugin's environments allow.

        Files that the agent imports, because they define `processes`, have the syntax of Python 3.7. The running
        Python parses the files; `test_worker_half_compiles_on_oldest_installed_python` uses the oldest one.
        """
        for model in self.models_to_test():
            for file, (content, oldest) in self._list_imported_files(model).items():
                try:
                    ast.parse(content, file, feature_version=(3, oldest))
                except SyntaxError as error:
                    raise AssertionError(
                        advice(
                            f"{file}, line {error.lineno}, is not valid Python 3.{oldest}: {error.msg}.",
                            f"the plugin declares support of Python 3.{oldest} (and agents call `processes` on any "
                            "Python from 3.7 on): a worker there ends with a SyntaxError",
                            "write it in the older syntax, or raise the bound of `python` in `environment`",
                        )
                    ) from error

    def test_worker_half_compiles_on_oldest_installed_python(self, tmp_path: Path) -> None:
        """The oldest Python that the plugin's environments allow compiles each file of the worker half without warning.

        Skipped if this machine has no interpreter of that version. `tmp_path` is a directory for temporary files, which
        pytest provides.
        """
        for model in self.models_to_test():
            reached = self._list_imported_files(model)
            oldest = max(oldest for _, oldest in reached.values())
            try:
                interpreter = interpreters.find(f"==3.{oldest}.*", os.environ)
            except EnvironmentFailed:
                pytest.skip(f"this machine has no Python 3.{oldest}; only the syntax was checked")
            for file, (content, _) in reached.items():
                place = tmp_path / file.replace("/", ".")
                place.write_text(content, encoding="utf-8")
            files = [str(path) for path in sorted(tmp_path.iterdir())]
            ended = subprocess.run(
                [str(interpreter.path), "-I", "-W", "error", "-c", COMPILE, *files],
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr

    def test_worker_half_imports_nothing_of_core(self) -> None:
        """No file of the worker half imports a dependency of the core, or `dlperf_sdk` outside `dlperf_sdk.worker`."""
        for model in self.models_to_test():
            for file, (content, _) in self._list_imported_files(model).items():
                for name in _list_imported_modules(file, ast.parse(content)):
                    top = name.partition(".")[0]
                    core = top in CORE or (
                        top == "dlperf_sdk"
                        and not name.startswith("dlperf_sdk.worker")
                        and name != "dlperf_sdk"
                    )
                    assert not core, advice(
                        f"{file} imports {name}.",
                        "a framework's environment needs nothing of ours installed, and will not have it",
                        "import from `dlperf_sdk.worker` only; what the controller knows is in the request",
                    )

    def test_nothing_is_left_to_fill_in(self) -> None:
        """No gap that `dlperf new-plugin` leaves for the author remains; a failure lists each with file and line."""
        gaps = {
            f"{file}, line {line}, {name}(): {gap}"
            for model in self.models_to_test()
            for file, (content, _) in self._list_imported_files(model).items()
            for line, name, gap in _gaps(ast.parse(content))
        }
        remaining = sorted(gaps)
        assert not remaining, advice(
            f"{len(remaining)} methods still have to be filled in:\n    " + "\n    ".join(remaining),
            "a worker that comes to one of them ends there; tests that need it are skipped meanwhile",
            "fill them in, in the order of the plugin's README.md",
        )

    def _list_imported_files(self, model: str) -> dict[str, tuple[str, int]]:
        """Return the plugin's files that a worker imports → text and oldest minor version that must read them."""
        plan = make_plan(self.spec(model), self.registry)
        request = plan.request("conformance", (sys.executable,), {}, {"source": DATA_SOURCES.default})
        packed = bundle.contents(request, plan.packages)
        files = {
            name: content.decode() for name, content in packed.items() if not name.startswith("dlperf_sdk/")
        }
        oldest = min(
            minor
            for device in self.plugin.capabilities.devices
            for strategy in self.plugin.capabilities.strategies
            for minor in list_minor_versions(self.plugin.environment(device, strategy, model))
        )
        shared_files = _closure([plan.processes], files)
        worker = _closure([plan.runtime, plan.trainer], files)
        return {
            name: (files[name], 7 if name in shared_files else oldest)
            for name in sorted(shared_files | worker)
        }


def _closure(references: list[str], files: dict[str, str]) -> set[str]:
    """Return the files that importing these references imports, as far as `import` statements show."""
    modules = [reference.partition(":")[0] for reference in references]
    reached: set[str] = set()
    while modules:
        parts = modules.pop().split(".")
        for depth in range(1, len(parts) + 1):
            for name in ("/".join(parts[:depth]) + ".py", "/".join(parts[:depth]) + "/__init__.py"):
                if name in files and name not in reached:
                    reached.add(name)
                    modules += _list_imported_modules(name, ast.parse(files[name]))
    return reached


def _gaps(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, function and text of each `raise NotImplementedError("FILL IN: …")`."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Raise):
                continue
            for child in ast.walk(node):
                if isinstance(child, ast.Constant) and str(child.value).startswith(TO_BE_FILLED_IN):
                    yield node.lineno, function.name, str(child.value).partition(": ")[2]


def _list_imported_modules(file: str, tree: ast.AST) -> list[str]:
    """Return all modules that a file names in imports; `from a import b` may mean `a.b`."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `.` is the file's own folder, `..` the one above; without a dot the name is whole.
            folder = file.split("/")[: -node.level]
            module = ".".join([*folder, *([node.module] if node.module else [])])
            modules += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return modules
