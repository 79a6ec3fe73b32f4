"""Observers: what they are told, in which order, and that none can hurt a run."""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings

import attrs
import pytest
from throwaway import distribution

from dlperf_sdk import hookimpl, hookspecs, run
from dlperf_sdk.cli import main
from dlperf_sdk.errors import PluginError
from dlperf_sdk.hookspecs import Hooks, Observers, listeners

HOOKS = [name for name in vars(Hooks) if name.startswith("dlperf_")]
QUICK = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 2, "store": None}
INSTALLED = listeners().keys()
"""Observers of the distributions in this environment."""


def recorder(message):
    """An observer that notes every call of every hook."""

    def implementation(name):
        arguments = [
            argument for argument in inspect.signature(getattr(Hooks, name)).parameters if argument != "self"
        ]
        scope = {"told": message}
        exec(
            f"def {name}(self, {', '.join(arguments)}): "
            f"told.append(({name!r}, dict({', '.join(f'{a}={a}' for a in arguments)})))",
            scope,
        )
        return hookimpl(scope[name])

    return type("Recorder", (), {name: implementation(name) for name in HOOKS})()


class Failing:
    @hookimpl
    def dlperf_repeat_started(self, attempt):
        raise RuntimeError("the tracker is down")

    @hookimpl
    def dlperf_result(self, result):
        raise AssertionError("it was left out")


@pytest.fixture(scope="module")
def observed():
    """One real run, with an observer that fails among those that do not."""
    messages = []
    with pytest.warns(RuntimeWarning) as warned:
        result = run("numpy", "linear", topology="1n2d", observers=[Failing(), recorder(messages)], **QUICK)
    return result, messages, [str(one.message) for one in warned]


def test_the_firing_order_of_a_run(observed):
    result, message, _ = observed
    names = [name for name, _ in message]
    assert names[0] == "dlperf_run_started"
    assert names[-1] == "dlperf_result"
    assert "dlperf_error" not in names
    first = names.index("dlperf_repeat_started")
    stages = [arguments["stage"] for name, arguments in message[1:first]]
    assert names[1:first] == ["dlperf_stage"] * (first - 1)
    assert stages[0] == "environment"
    assert stages[-2:] == ["bundle", "launch"]
    # Each repeat: started, its workers, their progress, ended.
    repeats = re.findall("s(w+)(p*)e", "".join(_LETTERS[name] for name in names[first:-1]))
    assert len(repeats) == 2
    assert all(len(workers) == 2 for workers, _ in repeats)
    for _, arguments in message:
        assert arguments["run_id"] == result.id


_LETTERS = {
    "dlperf_repeat_started": "s",
    "dlperf_worker_started": "w",
    "dlperf_step_progress": "p",
    "dlperf_repeat_ended": "e",
}


def test_observers_receive_all_events(observed):
    result, message, _ = observed
    by_name = {name: [arguments for told_name, arguments in message if told_name == name] for name in HOOKS}
    assert by_name["dlperf_run_started"][0]["plan"].spec == result.spec
    assert by_name["dlperf_run_started"][0]["directory"] is None
    assert [one["attempt"] for one in by_name["dlperf_repeat_started"]] == [1, 2]
    assert {one["name"] for one in by_name["dlperf_worker_started"]} == {"rank-0", "rank-1"}
    ended = by_name["dlperf_repeat_ended"]
    assert [one["status"] for one in ended] == ["ok", "ok"]
    assert [one["throughput"] for one in ended] == list(result.metric("throughput").repeats)
    assert by_name["dlperf_result"][0]["result"] is result


def test_failing_observer_is_reported_once_and_removed(observed):
    result, message, warned = observed
    assert result.ok
    assert len(warned) == 1
    assert warned[0].startswith(
        "The observer Failing (observer 1) failed in dlperf_repeat_started and is left out"
    )
    assert "RuntimeError: the tracker is down" in warned[0]
    assert message[-1][0] == "dlperf_result"


def test_refused_case_reaches_observers():
    messages = []
    result = run("numpy", "linear", precision="amp-bf16", observers=[recorder(messages)], store=None)
    assert [name for name, _ in messages] == ["dlperf_error", "dlperf_result"]
    assert messages[0][1]["failure"] == result.failure


def test_failed_repeat_reaches_observers():
    messages = []
    run("faulty", "linear", options={"fault": "exception"}, observers=[recorder(messages)], **QUICK)
    names = [name for name, _ in messages]
    assert names[-3:] == ["dlperf_repeat_ended", "dlperf_error", "dlperf_result"]
    assert messages[-3][1]["status"] == "crashed"
    assert messages[-3][1]["throughput"] is None


def test_a_misspelt_hook_is_an_error():
    class Misspelt:
        @hookimpl
        def dlperf_resutl(self, result): ...

    with pytest.raises(PluginError, match="unknown hook 'dlperf_resutl'.*dlperf_result"):
        run("numpy", "linear", observers=[Misspelt()], store=None)


def test_a_misspelt_argument_is_an_error():
    class Misspelt:
        @hookimpl
        def dlperf_result(self, resutl): ...

    with pytest.raises(PluginError, match="resutl"):
        run("numpy", "linear", observers=[Misspelt()], store=None)


def test_any_object_may_observe():
    """Also those that are equal, or cannot be hashed, as pluggy wants of what one of its managers manages."""

    @attrs.define
    class Last:
        seen: list

        @hookimpl
        def dlperf_error(self, failure):
            self.seen.append(failure)

    one, other = Last([]), Last([])
    observers = Observers.load([one, other, one])
    observers.notify("dlperf_error", run_id="x", failure="f")
    assert (one.seen, other.seen) == (["f", "f"], ["f"])


def test_a_warning_that_is_an_error_does_not_bring_the_observer_back():
    observers = Observers.load([Failing()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            observers.notify("dlperf_repeat_started", run_id="x", attempt=1)
        observers.notify("dlperf_result", run_id="x", result=None)


NOTIFIER = """
from dlperf_sdk import hookimpl
seen = []
class Notifier:
    @hookimpl
    def dlperf_error(self, run_id):
        seen.append(run_id)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    created = []

    def add(dist, source, name="notifier"):
        module = dist.replace("-", "_")
        entry = {"dlperf_sdk.observers": {name: f"{module}:Notifier"}}
        distribution(tmp_path / dist, dist, entry, {module: source})
        monkeypatch.syspath_prepend(tmp_path / dist)
        created.append(module)

    yield add
    for module in created:
        sys.modules.pop(module, None)


def test_observers_are_found_by_entry_point_and_are_all_notified(install):
    install("one-notifier", NOTIFIER)
    install("other-notifier", NOTIFIER, "other")
    Observers.load().notify("dlperf_error", run_id="x", failure=None)
    assert sys.modules["one_notifier"].seen == sys.modules["other_notifier"].seen == ["x"]


def test_two_observers_of_one_name_are_left_out_with_a_warning(install):
    install("one-notifier", NOTIFIER)
    install("other-notifier", NOTIFIER)
    with pytest.warns(RuntimeWarning, match="'notifier' is registered twice: by one-notifier.*left out"):
        assert listeners().keys() == INSTALLED


def test_an_object_without_a_name_may_be_registered(install):
    install("one-notifier", NOTIFIER + "Notifier = Notifier()")
    assert listeners().keys() == INSTALLED | {"notifier"}


@pytest.mark.long
def test_lists_describe_and_check_an_observer(install, capsys):
    install("one-notifier", NOTIFIER)
    assert main(["list", "observers", "--check"]) == 0
    assert "notifier" in capsys.readouterr().out
    assert main(["describe", "notifier", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hooks"] == ["dlperf_error"]
    assert main(["check", "notifier"]) == 0
    assert "3 passed, 0 failed" in capsys.readouterr().out


def test_a_misspelt_hook_fails_lists_and_checks(install, capsys):
    install("one-notifier", NOTIFIER.replace("dlperf_error", "dlperf_eror"))
    assert main(["list", "observers", "--check"]) == 3
    assert "dlperf_eror" in capsys.readouterr().out
    assert main(["check", "notifier", "--only", "hooks"]) == 1
    capsys.readouterr()


def test_an_observer_that_raises_fails_its_check(install, capsys):
    install(
        "one-notifier",
        NOTIFIER.replace("dlperf_error", "dlperf_result").replace("seen.append(run_id)", "1 / 0"),
    )
    assert main(["check", "notifier", "--only", "follows"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["import no_such_module", "raise SystemExit(3)", "Notifier = 1 / 0"])
def test_a_broken_installed_observer_is_named(install, source):
    install("one-notifier", source)
    with pytest.warns(RuntimeWarning, match=r"'notifier' of one-notifier 1\.0 cannot be used"):
        assert listeners().keys() == INSTALLED


def test_an_installed_observers_misspelt_hook_is_named(install):
    install("one-notifier", NOTIFIER.replace("dlperf_error", "dlperf_eror"))
    with pytest.warns(RuntimeWarning, match=r"'notifier' of one-notifier 1\.0 .*unknown hook 'dlperf_eror'"):
        assert listeners().keys() == INSTALLED


def test_a_broken_installed_observer_ends_no_run(install):
    install("one-notifier", "import no_such_module")
    with pytest.warns(RuntimeWarning, match="It is left out"):
        assert run("numpy", "linear", **QUICK).ok


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_documents_when_it_is_called(name):
    doc = inspect.getdoc(getattr(Hooks, name))
    assert re.search(r"\b[Ff]ires\b", doc), doc


def test_the_page_lists_the_hooks_in_their_order():
    listed = re.findall(r"^ {4,}(dlperf_\w+)", hookspecs.__doc__, re.MULTILINE)
    assert listed == HOOKS
