"""Answers of a worker to the conformance suite."""

from __future__ import annotations

import pytest

from dlperf_sdk.worker.conformance import _floats


def test_a_loss_that_is_not_finite_is_an_error_of_its_question():
    """In an answer, NaN would fail when the file is written: without the question, as if the worker had crashed."""
    assert _floats([[1], [2.5]]) == [[1.0], [2.5]]
    with pytest.raises(ValueError, match="are not all finite: .*nan"):
        _floats([[1.0], [float("nan")]])
