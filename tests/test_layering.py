"""Imports run one way, folder by folder; imports inside functions count as well."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "dlperf_sdk"

LEVELS = (
    # The worker travels to the nodes; the root package holds the version and the public names, which are strings.
    {"worker", "", "errors"},
    {"documents", "folders", "private_files"},
    {"spec"},
    {"interfaces", "data"},
    {"registry", "models", "results"},
    {"harness", "hookspecs", "planning", "environments", "launchers", "measurers", "analysis", "exchange"},
    {"parity", "reports"},
    {"execution", "progress"},
    {"max_batch"},
    {"campaigns"},
    {"api"},
    {"testing", "skeleton"},
    {"cli"},
    {"__main__"},
)
"""A folder, or a module of the root, imports from the levels above it in this list, and nothing else."""
LEVEL = {unit: level for level, units in enumerate(LEVELS) for unit in units}
MOST_ROOT_MODULES = 8
MOST_TRAINER_LINES = 180

TESTS = Path(__file__).resolve().parent
NOT_MIRRORED = ("benchmarks", "engines", "faults", "mutated_inputs", "plugins", "scripts")
"""Folders that mirror no package: their tests start whole programs, or test other folders of the repository."""
OF_SEVERAL_PACKAGES = {
    "test_example.py": "the plugin in examples/",
    "test_exports.py": "the names that the root package exports",
    "test_frameworks.py": "every framework's plugin, from one interpreter",
    "test_language.py": "names and summaries in all distributions",
    "test_layering.py": "this file",
    "test_readme.py": "the code blocks of the README",
    "test_stated_values.py": "values that docstrings in all distributions state",
    "test_torch.py": "torch's plugin, from the command to the report",
    "test_tutorials.py": "the code blocks of the tutorials",
    "test_wheel.py": "the wheel of each distribution",
    "exchange/test_exchange_formats.py": "the modules of two formats",
    "execution/test_secret_values.py": "values of secret variables in every document",
    "launchers/test_commands.py": "the commands of all launchers",
    "planning/test_file_safety.py": "settings that execute code, in every kind of file",
    "reports/test_bad_results.py": "odd results in reports, analysis and commands",
}
"""Test module that is named after no module → what it tests."""


def module_of(path: Path) -> str:
    parts = ("dlperf_sdk", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def unit_of(module: str) -> str:
    """Return the folder, or the module of the root, that a module belongs to."""
    return module.removeprefix("dlperf_sdk").lstrip(".").partition(".")[0]


def imports_of(tree: ast.AST) -> list[str]:
    """List our modules that a file imports, except those that only a type checker reads."""
    imported = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imported += [name for branch in node.orelse for name in imports_of(branch)]
            continue
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports the module.
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            imported += [name if name in MODULES else node.module for name in inner]
        imported += imports_of(node)
    return [name for name in imported if name.partition(".")[0] == "dlperf_sdk"]


def imports_in(module: str) -> list[str]:
    return imports_of(ast.parse(MODULES[module].read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_lower_layers_only(module: str) -> None:
    unit = unit_of(module)
    assert unit in LEVEL, f"{unit} has no level yet: add it to LEVELS"
    for imported in imports_in(module):
        other = unit_of(imported)
        assert other == unit or LEVEL[other] < LEVEL[unit], f"{module} imports {imported}, of a higher layer"


def test_no_module_imports_itself_through_others() -> None:
    # A result converts itself: `to_dict` and `from_dict` are a short way to `convert`.
    pair = {"dlperf_sdk.results.result", "dlperf_sdk.results.convert"}
    graph = {
        module: {other for other in imports_in(module) if other in MODULES and not {module, other} <= pair}
        for module in MODULES
    }
    TopologicalSorter(graph).prepare()  # the error names the circle


def test_the_root_holds_few_modules() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ROOT_MODULES


def test_test_modules_are_named_after_what_they_test() -> None:
    """Its name begins with that of a module or a package in the mirrored folder, or with that of the folder itself."""
    misnamed = []
    for path in TESTS.rglob("test_*.py"):
        place = path.relative_to(TESTS)
        if place.parts[0] not in NOT_MIRRORED and place.as_posix() not in OF_SEVERAL_PACKAGES:
            package = PACKAGE / place.parent
            packages = (file.parent.name for file in package.glob("*/__init__.py"))
            names = {package.name, *packages, *(file.stem for file in package.glob("*.py"))}
            if not any(
                path.stem == f"test_{name}" or path.stem.startswith(f"test_{name}_") for name in names
            ):
                misnamed.append(place.as_posix())
    assert not misnamed
    assert not [place for place in OF_SEVERAL_PACKAGES if not (TESTS / place).is_file()]


def test_the_page_for_contributors_names_each_folder() -> None:
    page = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {
        name
        for row in re.findall(r"^\| (`src/dlperf_sdk/.*?) \|", page, re.M)
        for name in re.findall(r"`(?:src/dlperf_sdk/)?(\w+)/`", row)
    }
    assert named == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_no_module_imports_a_private_name() -> None:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                private = [alias.name for alias in node.names if re.match("_(?!_)", alias.name)]
                assert not private, f"{module} imports {', '.join(private)} from {node.module}"


def test_the_lazy_names_come_from_where_they_are_defined() -> None:
    import dlperf_sdk

    for name, module in dlperf_sdk._PUBLIC.items():
        defined = ast.parse(MODULES[module].read_text(encoding="utf-8")).body
        names = {getattr(node, "name", None) for node in defined}
        for node in defined:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        assert name in names, f"{name} is not defined in {module}"


def imported_at_once(tree: ast.Module) -> set[tuple[str, str]]:
    """Return (module, name) of the imports at the top of a module, which happen when it is imported."""
    return {
        (node.module or "", alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_modules_for_framework_interpreters_need_python_310_only() -> None:
    """Plugins' own tests and benchmarks import these modules there, and one framework has no later Python."""
    observed, left = set(), ["dlperf_sdk.harness.in_process"]
    while left:
        module = left.pop()
        observed.add(module)
        names = imported_at_once(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        assert not names & {
            ("datetime", "UTC"),
            ("typing", "Self"),
            ("typing", "assert_never"),
            ("enum", "StrEnum"),
        }
        imported = {source for source, _ in names} | {f"{source}.{name}" for source, name in names}
        left += [other for other in imported if other in MODULES and other not in observed]
    assert "dlperf_sdk.documents.json_values" in observed


def test_each_framework_adds_little_to_the_base_trainer() -> None:
    """What all frameworks do alike belongs in `dlperf_sdk.worker.base_trainer`."""
    files = sorted(PACKAGE.parents[1].glob("plugins/*/src/*/worker/training.py"))
    assert files
    lines = {path.parts[-3]: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > MOST_TRAINER_LINES} == {}


def test_the_core_names_no_framework() -> None:
    """No value, name or import in the core is that of a framework with a plugin; help texts and examples may be."""
    folders = PACKAGE.parents[1].glob("plugins/*")
    frameworks = {
        path.name.removeprefix("dlperf-")
        for path in folders
        if "dlperf_sdk.frameworks" in (path / "pyproject.toml").read_text(encoding="utf-8")
    }
    assert len(frameworks) >= 10
    named = []
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = {getattr(node, name, None) for name in ("id", "attr", "value")}
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
                words = {module.partition(".")[0].removeprefix("dlperf_") for module in modules}
            if frameworks & {word for word in words if isinstance(word, str)}:
                named.append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    assert not named
