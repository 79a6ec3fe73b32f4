"""One case as an object: only its own methods change it, and its first failure counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import InvalidRecord, StoreError, Unavailable
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure

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


def test_the_first_failure_counts(case: Case) -> None:
    case.fail(None)
    case.fail(Failure("crashed", "First."))
    case.fail(Failure("timeout", "Second."))
    case.lose_store(StoreError("The disk is full."))
    assert case.failure == Failure("crashed", "First.")
    assert ["The disk is full." in note for note in case.notes] == [True]


def test_a_store_that_is_lost_is_the_failure_of_a_case_without_one(case: Case) -> None:
    case.lose_store(StoreError("The disk is full."))
    case.lose_store(StoreError("The disk is full."))
    assert case.failure is not None
    assert (case.failure.kind, case.notes) == ("unavailable", [])


def test_more_repeats_are_taken_until_the_rule_is_met(case: Case) -> None:
    assert case.stopping() is None
    with pytest.raises(InvalidRecord, match="no repeat has come back"):
        case.take({"event": "ended", "failure": None})


def test_an_event_that_lacks_a_field_breaks_the_protocol(case: Case) -> None:
    for event in ("progress", "attempt-started", "agents-ready", "note", "attempt-ended", "ended"):
        with pytest.raises(InvalidRecord, match=f"event '{event}' from node 0 breaks the protocol"):
            case.take({"event": event})
    case.take({"event": "something-new"})


@pytest.mark.parametrize("consequence", [RuntimeError, Unavailable])
def test_what_fails_during_an_interruption_is_an_interruption(
    case: Case, consequence: type[Exception]
) -> None:
    with pytest.raises(KeyboardInterrupt), case.failures():
        try:
            raise KeyboardInterrupt
        finally:
            raise consequence("release unlocked lock")
    assert case.failure is not None
    assert case.failure.kind == "interrupted"
