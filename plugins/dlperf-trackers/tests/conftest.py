"""A real result with intervals, and an environment in which no tracker of the user is reached."""

from __future__ import annotations

import os

import pytest

from dlperf_sdk import run

PREFIXES = ("DLPERF_TRACKERS", "MLFLOW_", "WANDB_")
CASE = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 6}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in tuple(os.environ):
        if name.startswith(PREFIXES):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def result(store):
    measured = run("numpy", "linear", store=store, progress=False, **CASE)
    assert measured.ok and measured.metric("throughput").low is not None
    return measured
