"""One case as an object: only its own methods change it, and its first failure counts."""

from __future__ import annotations

import ast
import errno
import sys
from itertools import groupby
from pathlib import Path
from types import FrameType

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import InvalidRecord, StoreError, Unavailable
from dlperf_sdk.execution.case import Case
from dlperf_sdk.execution.execute import execute
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.store import ResultStore

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "dlperf_sdk"
SPEC = RunSpec(framework="numpy", model="linear", protocol="quick")


@pytest.fixture
def case() -> Case:
    return Case.begin(SPEC, None, Observers({}), Registry())


def changes_of(tree: ast.AST) -> list[str]:
    """Return the assignments to fields of a name `case`, and the calls that change its lists."""
    targets: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets.append(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets += [node.func.value] if node.func.attr in ("append", "extend", "clear") else []
    attributes = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Attribute)]
    return [ast.unparse(part) for part in attributes if ast.unparse(part.value) == "case"]


def test_only_its_own_methods_change_a_case() -> None:
    assert changes_of(ast.parse("case.failure = None\ncase.notes.append('')")) == [
        "case.failure",
        "case.notes",
    ]
    users = [
        path for path in PACKAGE.rglob("*.py") if "execution.case import Case" in path.read_text("utf-8")
    ]
    assert len(users) > 5
    for path in users:
        assert not changes_of(ast.parse(path.read_text("utf-8"))), path


def test_a_spec_enters_each_package_once_on_its_way_to_the_plan() -> None:
    """The stops are the modules whose functions get the spec, from the checks of its fields to those of the plan."""
    stops: list[str] = []

    def note_stop(frame: FrameType, event: str, _: object) -> None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("dlperf_sdk.") and not code.co_name.startswith("<"):
            parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            given = [frame.f_locals.get(name) for name in parameters if name != "self"]
            if code.co_name != "__init__" and any(isinstance(value, RunSpec) for value in given):
                stops.append(module.removeprefix("dlperf_sdk."))
        elif event == "return" and code.co_name == "make_plan":
            sys.setprofile(None)

    sys.setprofile(note_stop)
    try:
        spec = RunSpec(framework="numpy", model="linear", topology="1n2d")
        case = Case.begin(spec, None, Observers({}), Registry())
    finally:
        sys.setprofile(None)
    assert case.plan is not None
    modules = [module for module, _ in groupby(stops)]
    packages = [package for package, _ in groupby(module.partition(".")[0] for module in modules)]
    assert packages == ["spec", "execution", "planning", "registry", "interfaces"]
    assert len(modules) <= 16, modules


def test_the_first_failure_counts(case: Case) -> None:
    case.fail(None)
    case.fail(Failure("crashed", "First."))
    case.fail(Failure("timeout", "Second."))
    case.record_store_failure(StoreError("The disk is full."))
    assert case.failure == Failure("crashed", "First.")
    assert ["The disk is full." in note for note in case.notes] == [True]


def test_a_store_that_is_lost_is_the_failure_of_a_case_without_one(case: Case) -> None:
    case.record_store_failure(StoreError("The disk is full."))
    case.record_store_failure(StoreError("The disk is full."))
    assert case.failure is not None
    assert (case.failure.kind, case.notes) == ("unavailable", [])


def test_more_repeats_are_taken_until_the_rule_is_met(case: Case) -> None:
    assert case.stopping() is None
    with pytest.raises(InvalidRecord, match="no repeat was returned"):
        case.record_event({"event": "ended", "failure": None})


def test_an_invalid_result_is_concluded_without_what_may_be_invalid(tmp_path: Path) -> None:
    case = Case.begin(SPEC, ResultStore(tmp_path), Observers({}), Registry())
    case.note("A note.")
    case.traces = ({"rank": "none"},)  # type: ignore[assignment] - as a faulty plugin would
    with pytest.raises(InvalidRecord):
        case.conclude()
    result = case.conclude_invalid(InvalidRecord("A trace is invalid."))
    assert (result.status, result.traces, result.notes) == ("invalid-record", (), ())


def test_an_event_that_lacks_a_field_breaks_the_protocol(case: Case) -> None:
    for event in ("progress", "attempt-started", "agents-ready", "note", "attempt-ended", "ended"):
        with pytest.raises(InvalidRecord, match=f"event '{event}' from node 0 breaks the protocol"):
            case.record_event({"event": event})
    case.record_event({"event": "something-new"})


@pytest.mark.parametrize("consequence", [RuntimeError, Unavailable])
def test_failure_during_an_interruption_is_an_interruption(case: Case, consequence: type[Exception]) -> None:
    with pytest.raises(KeyboardInterrupt), case.record_failures():
        try:
            raise KeyboardInterrupt
        finally:
            raise consequence("release unlocked lock")
    assert case.failure is not None
    assert case.failure.kind == "interrupted"


RESOURCES = {
    "full disk": (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), "TMPDIR"),
    "quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), "TMPDIR"),
    "descriptors": (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
    "memory": (MemoryError(), "ran out of memory"),
    "address space": (OSError(errno.ENOMEM, "Cannot allocate memory"), "ran out of memory"),
    "processes": (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
    "threads": (RuntimeError("can't start new thread"), "ulimit -u"),
}


@pytest.mark.parametrize(("error", "remedy"), RESOURCES.values(), ids=RESOURCES.keys())
def test_a_lack_of_a_resource_is_a_failure_that_names_it(case, monkeypatch, error, remedy):
    def build(*args):
        raise error

    monkeypatch.setattr("dlperf_sdk.planning.bundle.build", build)
    result = execute(case, [case.prepare, case.measure])
    assert result.failure is not None
    assert result.failure.kind == "unavailable"
    assert remedy in result.failure.message


def test_a_fault_of_ours_is_not_taken_for_a_lack_of_a_resource(case, monkeypatch):
    def build(*args):
        raise RuntimeError("a fault")

    monkeypatch.setattr("dlperf_sdk.planning.bundle.build", build)
    with pytest.raises(RuntimeError, match="a fault"):
        execute(case, [case.prepare, case.measure])


def test_a_folder_for_temporary_files_that_is_gone_is_named(case, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    result = execute(case, [case.prepare, case.measure])
    assert result.failure is not None
    assert result.failure.kind == "unavailable"
    assert "TMPDIR" in result.failure.message
    assert "gone" in result.failure.message
