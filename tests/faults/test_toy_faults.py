"""Every faulty toy plugin is detected by its test or verdict; the correct ones pass all tests."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from faults import BY_AGENT, BY_CONFORMANCE, BY_PARITY, BY_VERDICT, BY_WINDOW
from imports_the_framework import ControllerImportsFramework
from imports_to_refuse import RefusalImportsFramework
from toy_frameworks import FRAMEWORKS, Dropping

from dlperf_sdk import run
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import FrameworkConformance
from dlperf_sdk.testing.asynchrony import Asynchrony
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.controller_half import ControllerHalf
from dlperf_sdk.testing.process_list import ProcessList
from dlperf_sdk.testing.subject import verdict
from dlperf_sdk.testing.worker_half import WorkerHalf

pytestmark = pytest.mark.xdist_group("toy-faults")  # they share /dev/shm

IMPORTING_PLUGINS = {
    "controller-imports-framework": ControllerImportsFramework,
    "refusal-imports-framework": RefusalImportsFramework,
}
REGISTRY = Registry({"frameworks": {**FRAMEWORKS, **IMPORTING_PLUGINS}, "models": {"dropping": Dropping}})


@pytest.mark.long
class TestAsynchronous(FrameworkConformance):
    """The correct asynchronous plugin passes the whole suite."""

    framework = "asynchronous"
    registry = REGISTRY


@pytest.mark.long
class TestEvents(Asynchrony):
    """The correct plugin with events passes the tests of asynchrony; the rest equals that of `TestAsynchronous`."""

    framework = "events"
    registry = REGISTRY


@pytest.fixture(scope="module", autouse=True)
def sweep_shared_memory():
    """Remove the shared memory that faults leave."""
    yield
    for left in Path("/dev/shm").glob("dlperf-planted-*"):
        with suppress(OSError):  # of another user
            left.unlink()


def suite_of(name):
    members = {"framework": name, "registry": REGISTRY, "batch_size": 8}
    return type("Suite", (FrameworkConformance,), members)()


# Tests that start no process: they run in `make test`.
QUICK = (ControllerHalf, WorkerHalf, ProcessList)


@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            id=fault.plugin,
            marks=() if any(fault.detector in vars(half) for half in QUICK) else pytest.mark.long,
        )
        for fault in BY_CONFORMANCE
    ],
)
def test_conformance_suite_detects_fault(fault, tmp_path, monkeypatch):
    # The shared memory that a fault leaves is never removed: waiting longer is of no use.
    monkeypatch.setattr("dlperf_sdk.testing.leftovers.PATIENCE", 0.5)
    suite = suite_of(fault.plugin)
    with pytest.raises((AssertionError, pytest.fail.Exception, pytest.skip.Exception)) as raised:
        fault.run_detector(suite, tmp_path)
    assert not isinstance(raised.value, pytest.skip.Exception), f"nothing was tested: {raised.value}"
    assert fault.message in str(raised.value), raised.value
    assert "What to change" in str(raised.value), "a failure must advise"


FAULTY_IN_ONE_CELL = [
    # The tests of asynchronous strategies have no default cell.
    fault
    for fault in BY_CONFORMANCE
    if fault.where and ("strategy", "parameter_server_async") not in fault.where
]


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTY_IN_ONE_CELL, ids=lambda fault: fault.plugin)
def test_fault_shows_in_its_cell_only(fault, tmp_path):
    """A suite that tests only the default cell would not detect the fault."""
    if fault.plugin == "fp32-reported-as-requested":
        pytest.skip("it has several faults")
    attrs.evolve(fault, where=()).run_detector(suite_of(fault.plugin), tmp_path)


SINGLE = Cell(("linear",), compiler="graph")
PAIR = attrs.evolve(SINGLE, strategy="all_reduce")
REASON = "not on this machine: .* instructions for this processor; choose none"


@pytest.mark.parametrize(
    ("test", "cell"),
    [
        ("test_trains", SINGLE),
        ("test_worker_answers", SINGLE),
        ("test_follows_reference", SINGLE),
        ("test_replicas_follow_reference", PAIR),
    ],
)
def test_value_unsupported_on_this_machine_is_skipped_with_reason(test, cell, monkeypatch):
    """Whichever test requests it first. After that, no test starts another process for it."""
    suite = suite_of("narrow")
    with pytest.raises(pytest.skip.Exception, match=REASON):
        getattr(suite, test)(cell)
    if test == "test_trains":
        monkeypatch.setattr("dlperf_sdk.testing.subject.ask", None)
        monkeypatch.setattr("dlperf_sdk.testing.subject.Case", None)
        for other in (suite.test_worker_answers, suite.test_follows_reference):
            with pytest.raises(pytest.skip.Exception, match=REASON):
                other(cell)


def test_workers_have_one_thread_unless_their_plugin_gives_them_a_number(monkeypatch):
    suite = suite_of("narrow")
    assert suite.spec("linear", env={"A": "1"}).env == {"OMP_NUM_THREADS": "1", "A": "1"}
    monkeypatch.setattr(type(suite.plugin), "processes", "toy_frameworks:with_own_thread_count")
    assert suite.spec("linear", env={"A": "1"}).env == {"A": "1"}


def test_one_start_serves_all_tests_of_a_cell(monkeypatch):
    suite, cell = suite_of("narrow"), Cell(("linear",))
    suite.test_trains(cell)
    monkeypatch.setattr("dlperf_sdk.testing.subject.ask", None)
    monkeypatch.setattr("dlperf_sdk.testing.subject.Case", None)
    suite.test_worker_answers(cell)
    suite.test_follows_reference(cell)


def test_leftovers_of_one_source_show_with_that_source_only():
    suite_of("leftover-file-of-source").test_no_files_or_processes_are_left()


def test_framework_recognizes_its_own_out_of_memory_error():
    suite_of("arena").test_own_out_of_memory_error_is_recognized()


def test_steps_that_fit_in_memory_are_skipped():
    with pytest.raises(pytest.skip.Exception, match="find room in what little memory"):
        suite_of("narrow").test_own_out_of_memory_error_is_recognized()


def test_value_refused_for_the_tested_models_is_skipped():
    suite = suite_of("refuses-declared-compiler")
    type(suite).models = ("linear",)
    with pytest.raises(pytest.skip.Exception, match="may be for models that are not tried"):
        suite.test_declared_values_are_not_always_refused("compiler")


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_VERDICT, ids=lambda fault: fault.plugin)
def test_verdict_detects_fault(fault):
    fields = {"batch_size": 8, "warmup": 1, "steps": 5, "repeats": 1, "store": None, "registry": REGISTRY}
    result = run(fault.plugin, "linear", **{"topology": "1n2d", **dict(fault.where)}, **fields)
    actual = verdict(result, fault.detector)
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual
    assert result.exit_code == 1


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_WINDOW, ids=lambda fault: fault.plugin)
def test_window_verification_detects_fault(fault):
    fields = {"batch_size": 8, "warmup": 4, "steps": 5, "store": None, "registry": REGISTRY}
    case = {"topology": "1n2d", "repeats": 2, **dict(fault.where)}
    result = run(fault.plugin, "linear", **case, **fields)
    actual = verdict(result, fault.detector)
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual
    assert verdict(result, "parity").outcome != "fail"  # parity checks the first steps, which are correct


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_AGENT, ids=lambda fault: fault.plugin)
def test_agent_detects_fault(fault):
    """A step takes at least 20 ms, so the window takes at least 2.6 s: a third of it is impossible."""
    fields = {"batch_size": 8, "warmup": 1, "steps": 130, "repeats": 1, "store": None, "registry": REGISTRY}
    result = run(fault.plugin, "linear", **fields)
    assert result.failure is not None
    assert result.failure.kind == fault.detector
    assert fault.message in result.failure.message


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize("fault", BY_PARITY, ids=lambda fault: fault.plugin)
def test_parity_detects_fault(fault):
    suite = suite_of(fault.plugin)
    actual = suite.parity_of(suite.spec("linear", topology="1n2d"))
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual
    with pytest.raises(AssertionError, match="What to change"):
        suite.test_replicas_follow_reference(Cell(("linear",), strategy="all_reduce"))
