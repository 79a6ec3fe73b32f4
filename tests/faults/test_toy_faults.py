"""Every wrong toy plugin is caught by the test or verdict that is named for it; the right ones pass everything."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from faults import BY_AGENT, BY_CONFORMANCE, BY_PARITY, BY_VERDICT, BY_WINDOW
from imports_the_framework import Imports
from imports_to_refuse import ImportsToRefuse
from toy_frameworks import FRAMEWORKS, Dropping

from dlperf_sdk import run
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import FrameworkConformance
from dlperf_sdk.testing.asynchrony import Asynchrony
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.controller_half import ControllerHalf
from dlperf_sdk.testing.subject import verdict
from dlperf_sdk.testing.worker_half import WorkerHalf

pytestmark = pytest.mark.xdist_group("toy-faults")  # what is swept at the end is all of theirs

IMPORTING = {"imports": Imports, "imports-to-refuse": ImportsToRefuse}
REGISTRY = Registry({"frameworks": {**FRAMEWORKS, **IMPORTING}, "models": {"dropping": Dropping}})


@pytest.mark.long
class TestAsynchronous(FrameworkConformance):
    """The right one: the example itself is held to the suite where it lies."""

    framework = "asynchronous"
    registry = REGISTRY


@pytest.mark.long
class TestEvents(Asynchrony):
    """With a clock of events, time alone is looked at: the rest is the same device's."""

    framework = "events"
    registry = REGISTRY


@pytest.fixture(scope="module", autouse=True)
def swept():
    """What is left on purpose."""
    yield
    for left in Path("/dev/shm").glob("dlperf-planted-*"):
        with suppress(OSError):  # somebody else's
            left.unlink()


def suite_of(name):
    members = {"framework": name, "registry": REGISTRY, "batch_size": 8}
    return type("Suite", (FrameworkConformance,), members)()


# For whoever changes the suite; a plugin that is caught as it is written, before anything of it runs, takes no time.
QUICK = (ControllerHalf, WorkerHalf)


@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            id=fault.plugin,
            marks=() if any(fault.by in vars(half) for half in QUICK) else pytest.mark.long,
        )
        for fault in BY_CONFORMANCE
    ],
)
def test_the_conformance_suite_catches(fault, tmp_path, monkeypatch):
    # Nobody removes what is left in shared memory on purpose.
    monkeypatch.setattr("dlperf_sdk.testing.leftovers.PATIENCE", 0.5)
    suite = suite_of(fault.plugin)
    with pytest.raises((AssertionError, pytest.fail.Exception, pytest.skip.Exception)) as raised:
        fault.hold(suite, tmp_path)
    assert not isinstance(raised.value, pytest.skip.Exception), f"nothing was tested: {raised.value}"
    assert fault.said in str(raised.value), raised.value
    assert "What to change" in str(raised.value), "a failure must advise"


ELSEWHERE_RIGHT = [
    # Asynchronous replicas are asked what no others are: there is no plainer cell of theirs.
    fault
    for fault in BY_CONFORMANCE
    if fault.where and ("strategy", "parameter_server_async") not in fault.where
]


@pytest.mark.long
@pytest.mark.parametrize("fault", ELSEWHERE_RIGHT, ids=lambda fault: fault.plugin)
def test_it_is_wrong_in_that_cell_only(fault, tmp_path):
    """So a suite that tries the plainest case alone would not notice."""
    if fault.plugin == "pretends":
        pytest.skip("it is wrong in several ways")
    attrs.evolve(fault, where=()).hold(suite_of(fault.plugin), tmp_path)


ALONE = Cell(("linear",), compiler="graph")
PAIR = attrs.evolve(ALONE, strategy="all_reduce")
SAID = "not on this machine: .* instructions for this processor; choose none"


@pytest.mark.parametrize(
    ("test", "cell"),
    [
        ("test_it_trains", ALONE),
        ("test_the_worker_answers", ALONE),
        ("test_it_follows_the_reference", ALONE),
        ("test_replicas_follow_the_reference", PAIR),
    ],
)
def test_what_only_other_machines_can_do_is_skipped_and_says_so(test, cell, monkeypatch):
    """By whichever test it is asked for first; and once a run has said so, nothing else is started."""
    suite = suite_of("narrow")
    with pytest.raises(pytest.skip.Exception, match=SAID):
        getattr(suite, test)(cell)
    if test == "test_it_trains":
        monkeypatch.setattr("dlperf_sdk.testing.subject.ask", None)
        monkeypatch.setattr("dlperf_sdk.testing.subject.Case", None)
        for other in (suite.test_the_worker_answers, suite.test_it_follows_the_reference):
            with pytest.raises(pytest.skip.Exception, match=SAID):
                other(cell)


def test_workers_have_one_thread_unless_their_plugin_gives_them_a_number(monkeypatch):
    suite = suite_of("narrow")
    assert suite.spec("linear", env={"A": "1"}).env == {"OMP_NUM_THREADS": "1", "A": "1"}
    monkeypatch.setattr(type(suite.plugin), "processes", "toy_frameworks:with_threads_of_their_own")
    assert suite.spec("linear", env={"A": "1"}).env == {"A": "1"}


def test_one_start_answers_everything_that_is_asked_of_a_cell(monkeypatch):
    suite, cell = suite_of("narrow"), Cell(("linear",))
    suite.test_it_trains(cell)
    monkeypatch.setattr("dlperf_sdk.testing.subject.ask", None)
    monkeypatch.setattr("dlperf_sdk.testing.subject.Case", None)
    suite.test_the_worker_answers(cell)
    suite.test_it_follows_the_reference(cell)


def test_what_one_source_leaves_behind_shows_with_that_source_alone():
    suite_of("leaves-what-fed-it").test_it_leaves_nothing_behind()


def test_a_framework_that_knows_its_own_error_of_memory():
    suite_of("arena").test_its_own_error_is_told_as_memory_running_out()


def test_steps_that_find_room_show_nothing_of_memory():
    with pytest.raises(pytest.skip.Exception, match="find room in what little memory"):
        suite_of("narrow").test_its_own_error_is_told_as_memory_running_out()


def test_what_a_model_that_is_not_tried_may_have_is_not_judged():
    suite = suite_of("refuses-altogether")
    type(suite).models = ("linear",)
    with pytest.raises(pytest.skip.Exception, match="may be for models that are not tried"):
        suite.test_it_refuses_nothing_altogether_that_it_declares("compiler")


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_VERDICT, ids=lambda fault: fault.plugin)
def test_a_verdict_catches(fault):
    fields = {"batch_size": 8, "warmup": 1, "steps": 5, "repeats": 1, "store": None, "registry": REGISTRY}
    result = run(fault.plugin, "linear", **{"topology": "1n2d", **dict(fault.where)}, **fields)
    actual = verdict(result, fault.by)
    assert actual.outcome == "fail", actual
    assert fault.said in actual.detail, actual
    assert result.exit_code == 1


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_WINDOW, ids=lambda fault: fault.plugin)
def test_the_window_is_verified(fault):
    fields = {"batch_size": 8, "warmup": 4, "steps": 5, "store": None, "registry": REGISTRY}
    case = {"topology": "1n2d", "repeats": 2, **dict(fault.where)}
    result = run(fault.plugin, "linear", **case, **fields)
    actual = verdict(result, fault.by)
    assert actual.outcome == "fail", actual
    assert fault.said in actual.detail, actual
    assert verdict(result, "parity").outcome != "fail"  # it looks at the first steps, which are right


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_AGENT, ids=lambda fault: fault.plugin)
def test_the_agent_contradicts(fault):
    """A step takes this device 20 ms, so the window takes 2.6 s: a third of it is not to be had."""
    fields = {"batch_size": 8, "warmup": 1, "steps": 130, "repeats": 1, "store": None, "registry": REGISTRY}
    result = run(fault.plugin, "linear", **fields)
    assert result.failure is not None
    assert result.failure.kind == fault.by
    assert fault.said in result.failure.message


@pytest.mark.long
@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize("fault", BY_PARITY, ids=lambda fault: fault.plugin)
def test_parity_catches(fault):
    suite = suite_of(fault.plugin)
    actual = suite.parity_of(suite.spec("linear", topology="1n2d"))
    assert actual.outcome == "fail", actual
    assert fault.said in actual.detail, actual
    with pytest.raises(AssertionError, match="What to change"):
        suite.test_replicas_follow_the_reference(Cell(("linear",), strategy="all_reduce"))
