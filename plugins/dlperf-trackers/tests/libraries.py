"""The trackers' real libraries: required by `make test-trackers`, and skipped by name elsewhere."""

from __future__ import annotations

import importlib.util
import os

import pytest


def requires(*libraries: str) -> pytest.MarkDecorator:
    """Return a mark that skips tests without these libraries. With `DLPERF_TEST_TRACKERS`, they fail instead."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(
        bool(missing) and "DLPERF_TEST_TRACKERS" not in os.environ,
        reason=f"{', '.join(missing)} not installed: make test-trackers",
    )
