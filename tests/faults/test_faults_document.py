"""The table of the planted faults: complete, and the page in the docs is made of it."""

import inspect
from pathlib import Path

import faults
import pytest
import toy_faults
import toy_frameworks

from dlperf_sdk.testing import FrameworkConformance

ROOT = Path(__file__).resolve().parents[2]
LEAST = 25


def test_the_page_is_current():
    scripts = ROOT / "scripts" / "faults_document.py"
    names = {"__file__": str(scripts), "__name__": "faults_document"}
    exec(compile(scripts.read_text(encoding="utf-8"), str(scripts), "exec"), names)
    assert (ROOT / "docs" / "explanation" / "faults.md").read_text(encoding="utf-8") == names["document"](), (
        "run scripts/faults_document.py"
    )


def test_there_are_enough_and_no_two_are_the_same():
    assert len(faults.ALL) >= LEAST
    assert len({(fault.plugin, fault.detector, fault.message) for fault in faults.ALL}) == len(faults.ALL)


@pytest.mark.parametrize("fault", faults.BY_CONFORMANCE, ids=lambda fault: fault.detector)
def test_what_catches_it_is_a_test_of_the_suite(fault):
    assert inspect.isfunction(getattr(FrameworkConformance, fault.detector))


def test_no_wrong_plugin_is_left_out():
    planted = {fault.plugin for fault in faults.ALL}
    assert set(toy_frameworks.WRONG) <= planted
    named = str(toy_frameworks.WRONG)
    mine = [name for name, cls in vars(toy_faults).items() if getattr(cls, "__module__", "") == "toy_faults"]
    assert not [name for name in mine if f":{name}'" not in named]
