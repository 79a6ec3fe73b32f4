"""References: the trajectories that ship with a model (schema `reference`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import numbers
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.spec.values import Scalar

REFERENCE_VERSION = "1.0"
LARGEST = 32 * 1024 * 1024
"""Bytes of a reference; those that ship have some hundred thousand."""

Fingerprint = tuple[float, ...]
"""The 2-norm, then eight products (`dlperf_sdk.worker.canonical.fingerprint`)."""


def fingerprints(plain: Mapping[str, list[float | str]]) -> dict[str, Fingerprint]:
    """Name → fingerprint."""
    return {name: numbers(values) for name, values in plain.items()}


@frozen
class Trajectory:
    """What one replica goes through on its canonical shard."""

    losses: tuple[float, ...] = field(converter=numbers)
    updates: Mapping[str, Fingerprint] = field(converter=fingerprints)
    """Parameter → its first update, in the model's order; empty where another replica of the pair has them."""
    running_means: Mapping[str, Fingerprint] = field(converter=fingerprints)
    """Running mean → itself after the first step."""


def _trajectories(plain: list[Mapping[str, Any]]) -> tuple[Trajectory, ...]:
    return tuple(Trajectory(**one) for one in plain)


@frozen
class Mistake:
    """A known mistake, and where it leads."""

    name: str
    topology: str
    """`alone` or `pair`."""
    replicas: tuple[Trajectory, ...] = field(converter=_trajectories)
    """Of its updates and running means only those that differ most from what is right."""


def _mistakes(plain: list[Mapping[str, Any]]) -> tuple[Mistake, ...]:
    return tuple(Mistake(**one) for one in plain)


@frozen
class ReferenceCase:
    """A configuration of the model, and its trajectories."""

    options: Mapping[str, Scalar]
    batch_size: int
    """Samples per replica."""
    seed: int
    steps: int
    noise: Mapping[str, float]
    """Parameter or running mean → relative deviation of float32 from float64 in one implementation."""
    alone: tuple[Trajectory, ...] = field(converter=_trajectories)
    """Single replicas, on shard 0 and on shard 1."""
    pair: tuple[Trajectory, ...] = field(converter=_trajectories)
    """Two replicas on the two shards, whose gradients are averaged; their batch norms are their own."""
    mistakes: tuple[Mistake, ...] = field(converter=_mistakes)


@frozen
class Tolerance:
    """How far a precision may be from float64; all relative."""

    losses: float
    """The most that a loss may deviate."""
    updates: float
    """The most that the first updates as a whole may deviate, where single ones are not held."""
    means: float
    """The most that the running means as a whole may deviate, where single ones are not held."""
    least: float
    """The least that the running means as a whole must deviate, or the first updates of a model without any: closer
    means that the precision was not in effect."""
    parameter: float | None
    """The most that a single update or running mean may deviate, or ten times its noise; None where they are not
    held."""
    why: str


def _tolerances(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, Tolerance]:
    return {name: Tolerance(**one) for name, one in plain.items()}


def _cases(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, ReferenceCase]:
    return {name: ReferenceCase(**one) for name, one in plain.items()}


@frozen
class Reference:
    """A model's reference."""

    model: str
    source: str
    tolerances: Mapping[str, Tolerance] = field(converter=_tolerances)
    cases: Mapping[str, ReferenceCase] = field(converter=_cases)

    @property
    def digest(self) -> str:
        """SHA-256 of all that it holds: evidence is evidence against this very reference."""
        return hashlib.sha256(json.dumps(attrs.asdict(self), sort_keys=True).encode()).hexdigest()


@cache
def load(path: Path) -> Reference:
    """Read a reference.

    Raises:
        DocumentError: it cannot be read, or breaks the schema `reference`.
    """
    document = load_document(path, LARGEST)
    schema.check("reference", document)
    for name, case in document["cases"].items():
        for trajectory in case["alone"] + case["pair"]:
            if len(trajectory["losses"]) != case["steps"]:
                raise DocumentError(
                    f"The reference {path} contradicts itself: its case {name!r} has {case['steps']} steps, and a "
                    f"trajectory in it {len(trajectory['losses'])} losses."
                )
    document.pop("schema_version")
    return Reference(**document)
