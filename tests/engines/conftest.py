"""The cluster, made once; tests of engines run one after another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import cluster as cluster_module

MISSING = (
    cluster_module.missing()
    if os.environ.get("DLPERF_TEST_ENGINES")
    else "only `make test-engines` makes a cluster"
)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and "cluster" in item.fixturenames and MISSING:
            item.add_marker(pytest.mark.skip(reason=f"no cluster: {MISSING}"))


@pytest.fixture(scope="session")
def cluster():
    """Four nodes with real engines."""
    made = cluster_module.Cluster()
    try:
        made.start_slurm()
        before = {name: os.environ.get(name) for name in made.environment}
        os.environ.update(made.environment)
        yield made
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    finally:
        made.close()
