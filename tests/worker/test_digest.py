"""The digest of parameters, and what it refuses."""

from __future__ import annotations

import hashlib

import numpy
import pytest

from dlperf_sdk.worker.digest import digest_of

MANIFEST = [{"name": "a", "shape": [2, 3]}, {"name": "b", "shape": [4]}]
A, B = numpy.arange(6, dtype="float32").reshape(2, 3), numpy.ones(4, "float32")


def test_a_digest_is_of_the_bytes_in_the_manifests_order() -> None:
    assert (
        digest_of(MANIFEST, iter([("a", A), ("b", B)]))
        == hashlib.sha256(A.tobytes() + B.tobytes()).hexdigest()
    )


@pytest.mark.parametrize(
    ("parameters", "output"),
    [
        ([("a", A)], "lacks the manifest's parameter b"),
        ([("a", A), ("b", B), ("c", B)], "parameter c that is not in"),
        ([("b", B), ("a", A)], "the manifest has a"),
        ([("a", A.T), ("b", B)], r"\(3, 2\)"),
        ([("a", A.astype("float64")), ("b", B)], "float64"),
        ([("a", numpy.asfortranarray(A)), ("b", B)], "contiguous"),
    ],
)
def test_parameters_outside_the_manifest_are_refused(
    parameters: list[tuple[str, numpy.ndarray]], output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        digest_of(MANIFEST, parameters)
