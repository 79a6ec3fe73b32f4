"""A job for the tests of launchers."""

import pytest

from dlperf_sdk.interfaces.topology import Job


@pytest.fixture
def job(tmp_path):
    """A job with these options, and a bundle of twelve bytes."""
    (tmp_path / "case.pyz").write_bytes(b"twelve bytes")

    def make(options, nodes=2, **fields):
        return Job("case", tmp_path / "case.pyz", nodes, 1, "cpu", options, **fields)

    return make
