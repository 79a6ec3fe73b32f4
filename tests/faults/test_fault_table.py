"""The table of planted faults is complete. `make docs` generates a page from it."""

import inspect

import faults
import pytest
import toy_faults
import toy_frameworks

from dlperf_sdk.testing import FrameworkConformance

LEAST = 25


def test_faults_are_many_and_distinct():
    assert len(faults.ALL) >= LEAST
    assert len({(fault.plugin, fault.detector, fault.message) for fault in faults.ALL}) == len(faults.ALL)


@pytest.mark.parametrize("fault", faults.BY_CONFORMANCE, ids=lambda fault: fault.detector)
def test_detector_is_a_test_of_the_suite(fault):
    assert inspect.isfunction(getattr(FrameworkConformance, fault.detector))


def test_every_faulty_plugin_is_in_the_table():
    planted = {fault.plugin for fault in faults.ALL}
    assert set(toy_frameworks.FAULTY) <= planted
    named = str(toy_frameworks.FAULTY)
    mine = [name for name, cls in vars(toy_faults).items() if getattr(cls, "__module__", "") == "toy_faults"]
    assert not [name for name in mine if f":{name}'" not in named]
