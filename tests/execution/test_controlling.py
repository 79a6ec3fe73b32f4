"""A launcher is asked about this process's part once, before the cases, and is told the exit code after them."""

from __future__ import annotations

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import LostNode, SpecError
from dlperf_sdk.execution.controlling import controlling
from dlperf_sdk.interfaces.framework import NoOptions
from dlperf_sdk.interfaces.topology import Topology


class Recorder(Topology):
    """A launcher that records how it is called; `ends` is the exit code of a process that is not the controller."""

    name = "recorder"
    Options = NoOptions

    def __init__(self, ends=None):
        self.calls, self._ends = [], ends

    def join_job(self, cases, options):
        self.calls.append(("join", [case.batch_size for case in cases]))
        if self._ends is not None:
            raise SystemExit(self._ends)

    def set_exit_code(self, code):
        self.calls.append(("exit", code))

    def commands(self, job):
        return ()

    def launch(self, job):
        raise NotImplementedError


class Plugins:
    def __init__(self, **launchers):
        self._launchers = launchers

    def topology(self, name):
        return self._launchers[name]


def spec(batch_size=1, launcher="first"):
    return RunSpec(framework="numpy", model="linear", topology=f"1n1d@{launcher}", batch_size=batch_size)


def test_each_launcher_gets_its_cases_and_the_exit_code():
    first, second = Recorder(), Recorder()
    specs = [spec(1), spec(2, "second"), spec(3)]
    with controlling(specs, Plugins(first=first, second=second)) as set_exit_code:
        assert first.calls == [("join", [1, 3])]
        set_exit_code(5)
    assert first.calls == [("join", [1, 3]), ("exit", 5)]
    assert second.calls == [("join", [2]), ("exit", 5)]


@pytest.mark.parametrize(
    ("error", "code"),
    [(SpecError("no"), 2), (LostNode("gone"), 4), (KeyboardInterrupt(), 130), (RuntimeError("a fault"), 4)],
)
def test_an_exception_has_an_exit_code_too(error, code):
    launcher = Recorder()
    with pytest.raises(type(error)), controlling([spec()], Plugins(first=launcher)):
        raise error
    assert launcher.calls[1:] == [("exit", code)]


def test_a_process_that_is_not_the_controller_never_enters():
    launcher = Recorder(ends=4)
    with pytest.raises(SystemExit) as ended, controlling([spec()], Plugins(first=launcher)):
        pytest.fail("this process is not the controller")
    assert ended.value.code == 4
    assert launcher.calls == [("join", [1])]
