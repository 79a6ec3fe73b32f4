"""The suite that ships for authors of launchers, over the real ones."""

from __future__ import annotations

import pytest

from dlperf_sdk.testing import TopologyConformance


class Real(TopologyConformance):
    framework, model = "numpy", "linear"
    nodes = 4

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster):
        type(self).options = cluster.options(self.topology)


class TestSsh(Real):
    topology = "ssh"


class TestMpi(Real):
    topology = "mpi"


class TestSlurm(Real):
    topology = "slurm"
