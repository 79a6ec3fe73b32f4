"""What tests share: nothing is kept between them, and no process outlives them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from dlperf_sdk import RunSpec
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).resolve().parent.parent

# A shell's background job ignores Ctrl-C, and one under nohup SIGHUP; so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The core's tests are run often, so they stay short; explaining a failure takes longer than reading it.
settings.register_profile("short", max_examples=40, deadline=None, phases=set(Phase) - {Phase.explain})
settings.load_profile("short")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def keep_signal_handlers():
    """Fail a test that leaves a signal ignored: the processes that later tests start would ignore it as well."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.fixture
def stream(tmp_path):
    """Run a case of the toy frameworks with this interpreter and give all events of agent 0."""

    def run(framework: str = "numpy", python: str = sys.executable, **fields) -> list[dict]:
        fields = {"batch_size": 8, "warmup": 2, "steps": 20, "repeats": 2, **fields}
        spec = RunSpec(framework=framework, model="linear", **fields)
        plan = make_plan(spec, Registry())
        request = plan.request("case", (python,), spec.env, {"source": "synthetic"})
        bundle = build(request, tmp_path / "case.pyz")
        job = Job("case", bundle.path, spec.topology.nodes, spec.topology.devices_per_node, plan.device)
        return list(launch_events(Local(), job))

    return run


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch) -> None:
    """Let the cache lie in a folder that all tests of this process share, such as the indexes of their stores."""
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def without_reference(monkeypatch) -> None:
    """Remove the toy model's reference, so that runs need no parity evidence; test_parity_evidence tests that."""
    monkeypatch.setattr("dlperf_numpy.framework.Linear.references", None)


@pytest.fixture
def planted_fault(record_property) -> None:
    """Mark a test as one of a planted fault (`tests/faults`), to be counted in the summary."""
    record_property("planted_fault", True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that are allowed most time, so that no process is left alone with one at the end."""
    items.sort(key=_allowed_time, reverse=True)


def _allowed_time(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0] if limit is not None else item.config.getini("timeout"))


def pytest_terminal_summary(terminalreporter) -> None:
    """Print how many planted faults were detected, if any were tested."""
    tested = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call" and dict(report.user_properties).get("planted_fault")
    ]
    if tested:
        detected = sum(report.passed for report in tested)
        terminalreporter.write_line(
            f"planted faults: {detected} of {len(tested)} detected (docs/explanation/faults.md)"
        )
