"""The conformance suite of launchers, on a real Ray cluster of several nodes."""

from __future__ import annotations

import pytest

from dlperf_sdk.testing import TopologyConformance


class TestRay(TopologyConformance):
    topology = "ray"
    framework, model = "numpy", "linear"
    nodes = 2

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster):
        type(self).options = cluster.options
