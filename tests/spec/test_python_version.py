"""Versions of Python that a spec names and a plugin accepts."""

import pytest

from dlperf_sdk.spec.python_version import restrict_specifier


@pytest.mark.parametrize(
    ("specifier", "version", "restricted"),
    [
        (">=3.9,<3.12", "3.11", ">=3.9,<3.12,==3.11.*"),
        (">=3.9,<3.12", "3.11.7", ">=3.9,<3.12,==3.11.7.*"),
        (">=3.9,<3.12", "3.12", None),
        (">=3.10.5", "3.10", ">=3.10.5,==3.10.*"),
        (">=3.10.5", "3.10.4", None),
    ],
)
def test_a_specifier_restricted_to_a_version(specifier: str, version: str, restricted: str | None) -> None:
    assert restrict_specifier(specifier, version) == restricted
