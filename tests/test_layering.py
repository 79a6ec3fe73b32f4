"""Imports point up one list, which is the order of the flow; those inside functions count as well."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "dlperf_sdk"

ORDER = (
    # Stands alone: it travels to the nodes.
    ("worker",),
    # The version, and the public names, which are strings.
    ("dlperf_sdk",),
    ("errors",),
    ("plain_values",),
    # Loaded with the first file of its kind.
    ("plain_yaml",),
    # The lines of keys are looked for where a parser does not know them.
    ("lines",),
    ("documents",),
    # Where things are kept on this machine.
    ("folders",),
    ("schema_predicate",),
    ("schema_words",),
    ("schema",),
    # What is wrong with a file, by the schema and by line.
    ("mistakes",),
    # What is asked, what plugins implement, what comes back.
    ("fields",),
    ("protocol",),
    ("spec_file",),
    ("spec_values",),
    ("spec_checks",),
    ("spec",),
    ("interfaces",),
    ("records",),
    ("registry",),
    ("hookspecs",),
    ("models",),
    # A plugin's worker half without the rest of the flow.
    ("in_process",),
    ("side_by_side",),
    ("results.repeats",),
    # A result converts itself: `to_dict` and `from_dict` are a short way to `convert`.
    ("results.result", "results.convert"),
    ("results.files",),
    ("results.run_directory",),
    ("results.recover",),
    ("results.store",),
    ("results.redact",),
    # What others measured, in the words of a spec.
    ("published",),
    # From the spec to the stream.
    ("capable", "options"),
    ("plan",),
    ("bundle",),
    ("environments",),
    ("data",),
    ("topologies",),
    ("launch",),
    # From records to numbers, and to whether to believe them.
    ("metrics",),
    ("measurers",),
    ("results.trend",),
    ("results.integrity",),
    ("results.quality",),
    ("results.verdicts",),
    ("results.facts",),
    ("results.summarise",),
    ("results.check",),
    ("collect",),
    ("tracing",),
    # A run of its own whose evidence goes into the result.
    ("parity",),
    ("analysis",),
    ("report",),
    # For other programs, and from them.
    ("exchange",),
    ("preparation",),
    ("dispatch",),
    ("execute",),
    ("replay",),
    ("verification",),
    # Many cases: what they share is found by trying, and each is carried out attempt by attempt.
    ("largest",),
    ("campaigns",),
    ("api",),
    # For authors of plugins.
    ("testing",),
    ("skeleton",),
    ("cli",),
    ("__main__",),
)
LEVEL = {unit: level for level, units in enumerate(ORDER) for unit in units}


def module_of(path: Path) -> str:
    parts = ("dlperf_sdk", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def unit_of(module: str) -> str:
    """The entry of the list that a module belongs to: its package, or itself."""
    inside = module.removeprefix("dlperf_sdk").lstrip(".")
    if not inside:
        return "dlperf_sdk"
    package = inside.partition(".")[0]
    return inside if package == "results" else package


def imports_of(tree: ast.AST) -> list[str]:
    """All modules of ours that a file imports, but for those that only a type checker sees."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found += [name for branch in node.orelse for name in imports_of(branch)]
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports the module.
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in MODULES else node.module for name in inner]
        found += imports_of(node)
    return [name for name in found if name.partition(".")[0] == "dlperf_sdk"]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_up_the_list(module: str) -> None:
    unit = unit_of(module)
    if module == "dlperf_sdk.results":
        assert not imports_of(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        return
    assert unit in LEVEL, f"{unit} has no place in ORDER yet: give it the one it has in the flow"
    for imported in imports_of(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        above = unit_of(imported)
        assert above == unit or LEVEL[above] < LEVEL[unit] or above in ORDER[LEVEL[unit]], (
            f"{module} imports {imported}, which comes after it in the flow"
        )


def together(module: str, imported: str) -> bool:
    """Whether both are named in one entry of the list, which says why."""
    names = {module.removeprefix("dlperf_sdk."), imported.removeprefix("dlperf_sdk.")}
    return any(names <= {*units} for units in ORDER)


def test_no_module_leads_back_to_itself() -> None:
    """Within a package, too, where the list sets no order."""
    graph = {
        module: {
            imported
            for imported in imports_of(ast.parse(path.read_text(encoding="utf-8")))
            if imported in MODULES and not together(module, imported)
        }
        for module, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # the error names the circle


def rows_of_the_table() -> dict[str, tuple[set[str], str]]:
    """Each place in CONTRIBUTING's table → the units there, and the latest of the list that they import."""
    text = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = {}
    for place, there, latest in re.findall(r"^\| (`src/dlperf_sdk/.*) \| (.*) \| (.*) \|$", text, re.M):
        named = re.findall(r"`(?:src/dlperf_sdk/)?(\w+)(?:/|\.py)`", f"{place} {there}")
        found[place] = ({name for name in named if name not in ("api", "html")}, latest.strip("`"))
    return {place: row for place, row in found.items() if row[0] != {"worker"}}  # which has a test of its own


@pytest.mark.parametrize("place", rows_of_the_table())
def test_the_table_of_places_says_the_latest_that_each_imports(place: str) -> None:
    places, latest = rows_of_the_table()[place]
    package = {module: module.split(".")[1] for module in MODULES if "." in module}
    imported = {
        other
        for module, path in MODULES.items()
        if package.get(module) in places
        for other in imports_of(ast.parse(path.read_text(encoding="utf-8")))
        if "." in other and package[other] not in places
    }
    level = max(LEVEL.get(unit_of(other), -1) for other in imported)
    assert latest in {package[other] for other in imported if LEVEL.get(unit_of(other)) == level}


def test_the_worker_imports_nothing_of_the_core() -> None:
    for module, path in MODULES.items():
        if unit_of(module) == "worker":
            for imported in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
                assert imported.startswith("dlperf_sdk.worker"), f"{module} imports {imported}"


def test_what_begins_with_an_underscore_is_its_modules_own() -> None:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                private = [each.name for each in node.names if re.match("_(?!_)", each.name)]
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
    """(module, name) of the imports at the top of a module, which happen when it is imported."""
    return {
        (node.module or "", alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_what_runs_in_a_frameworks_interpreter_is_content_with_python_310() -> None:
    """Plugins' own tests and benchmarks have these modules there, and one framework has no later Python."""
    seen, left = set(), ["dlperf_sdk.in_process"]
    while left:
        module = left.pop()
        seen.add(module)
        names = imported_at_once(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        assert not names & {
            ("datetime", "UTC"),
            ("typing", "Self"),
            ("typing", "assert_never"),
            ("enum", "StrEnum"),
        }
        found = {source for source, _ in names} | {f"{source}.{name}" for source, name in names}
        left += [other for other in found if other in MODULES and other not in seen]
    assert "dlperf_sdk.plain_values" in seen
