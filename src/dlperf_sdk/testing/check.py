"""Run a conformance suite without a test file, and return the outcomes as values; `dlperf check` uses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen

from dlperf_sdk.errors import PluginError, UsageError
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import (
    FrameworkConformance,
    MeasurerConformance,
    ModelConformance,
    ObserverConformance,
    TopologyConformance,
)
from dlperf_sdk.testing.conformance import Conformance

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"
"""Values of `Check.outcome`."""
SUITES: Mapping[str, tuple[type[Conformance], str]] = {
    "frameworks": (FrameworkConformance, "framework"),
    "models": (ModelConformance, "model"),
    "topologies": (TopologyConformance, "topology"),
    "measurers": (MeasurerConformance, "measurer"),
    "observers": (ObserverConformance, "observer"),
}
"""Plugin group → its suite, and the suite's attribute that holds the plugin's name."""

_chosen: list[type[Conformance]] = []


@frozen
class Check:
    """One test of a suite and its outcome."""

    name: str
    """The test's name, with its parameter in brackets."""
    outcome: str
    """`pass`, `fail` or `skipped`."""
    seconds: float
    """Duration of the test; of a setup or teardown alone, if that did not pass."""
    detail: str
    """The message of a failure or the reason of a skip; empty for a pass."""


def check(
    group: str,
    name: str,
    on_check: Callable[[Check], None] = lambda check: None,
    only: Sequence[str] = (),
    on_start: Callable[[str, int, int], None] = lambda name, number, count: None,
    *,
    skip: Sequence[str] = (),
    passed: Collection[str] = (),
    **members: Any,
) -> tuple[Check, ...]:
    """Run the conformance suite of a group on an installed plugin; return the outcomes in the order of the tests.

    A test whose teardown fails has a second outcome, `fail`. While the suite runs, the environment variables that
    configure pytest are changed; they are restored at the end. Only one check can run at a time in a process.

    Args:
        group: A key of `SUITES`, such as `frameworks`.
        name: The plugin's name in that group. If there is no such plugin, tests fail, and nothing is raised.
        on_check: Called with each outcome. An exception that it raises stops the suite and is raised again.
        only: Words; a test runs if its name, with its parameter in brackets, contains one of them. Empty: all tests
            run.
        on_start: Called before each test with its name, its number from 1, and the number of tests to run. An exception
            that it raises stops the suite and is raised again.
        skip: Words; a test is left out if its name contains one of them.
        passed: Names of tests to leave out, each with its parameter in brackets.
        members: Attributes of the suite's class to set for this check, such as `models` or `batch_size`.

    Returns:
        The outcomes; empty if `passed` leaves out all tests that `only` and `skip` select.

    Raises:
        KeyError: There is no such group.
        UsageError: `only` and `skip` select no test.
        PluginError: Pytest could not collect the tests.
        KeyboardInterrupt: The user interrupted the tests.
        RuntimeError: Pytest ended with an internal error.
    """
    suite, subject = SUITES[group]
    _chosen[:] = [type("TestPlugin", (suite,), {subject: name, "registry": Registry(), **members})]
    reporter = _Reporter(on_check, on_start, tuple(only), tuple(skip), frozenset(passed))
    place = Path(__file__).with_name("selected_suite.py")
    arguments = [
        str(place),
        f"--rootdir={place.parent}",
        f"--confcutdir={place.parent}",
        "--import-mode=importlib",
    ]
    arguments += ["-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler"]
    with _isolate_pytest():
        code = pytest.main(arguments, plugins=[reporter])
    if reporter.raised is not None:
        raise reporter.raised
    if reporter.uncollected:
        raise PluginError(f"The tests of {name} cannot be put together: {reporter.uncollected}")
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and reporter.had_tests:
        return ()
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        names = " or ".join(map(repr, only))
        reason = f"{names} is in the name of none of them" if only else "all are left out"
        raise UsageError(f"The suite has no test to run: {reason}.")
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r}; its output is above")
    return tuple(reporter.checks)


def get_suite() -> type[Conformance]:
    """Return the class of tests that the running `check` has made.

    Only the module that pytest imports calls this.

    Raises:
        IndexError: No check has been started in this process.
    """
    return _chosen[0]


@contextmanager
def _isolate_pytest() -> Iterator[None]:
    """Exclude other plugins of pytest and this shell's settings for it, and import the suite's module anew."""
    names = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        for name in [name for name in sys.modules if name.endswith("testing.selected_suite")]:
            del sys.modules[name]


@define
class _Reporter:
    """A pytest plugin that selects tests, reports the running one, and collects the outcomes."""

    on_check: Callable[[Check], None]
    on_start: Callable[[str, int, int], None]
    only: tuple[str, ...]
    skip: tuple[str, ...]
    passed: frozenset[str]
    checks: list[Check] = field(factory=list)
    raised: BaseException | None = None
    """Exception that a listener raised: pytest would take it for a fault of its own."""
    uncollected: str = ""
    had_tests: bool = False
    """Tests were chosen, perhaps only such as have passed."""
    _session: pytest.Session | None = None
    _started: int = 0
    _count: int = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep what can be asked to stop."""
        self._session = session

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record the collection of the suite."""
        if report.failed:
            self.uncollected = str(report.longrepr)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the chosen ones."""
        items[:] = [
            item
            for item in items
            if (not self.only or any(word in item.name for word in self.only))
            and not any(word in item.name for word in self.skip)
        ]
        self.had_tests = bool(items)
        items[:] = [item for item in items if item.name not in self.passed]
        self._count = len(items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record the start of a test."""
        self._started += 1
        self._notify(self.on_start, nodeid.rpartition("::")[2], self._started, self._count)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the end of a test's setup, call or teardown."""
        if report.when != "call" and report.outcome == "passed":
            return
        outcome = {"passed": PASS, "failed": FAIL, "skipped": SKIPPED}[report.outcome]
        check = Check(report.nodeid.rpartition("::")[2], outcome, report.duration, _detail(report))
        self.checks.append(check)
        self._notify(self.on_check, check)

    def _notify(self, listener: Callable[..., None], *arguments: Any) -> None:
        if self.raised is not None:
            return
        try:
            listener(*arguments)
        except BaseException as error:
            self.raised = error
            if self._session is not None:
                self._session.shouldstop = "a listener failed"


def _detail(report: pytest.TestReport) -> str:
    """Return the reason of a skip, or the message of the raised error."""
    representation = report.longrepr
    if isinstance(representation, tuple):
        return str(representation[2]).removeprefix("Skipped: ")
    crash = getattr(representation, "reprcrash", None)
    return str(crash.message if crash is not None else representation or "").removeprefix("AssertionError: ")
