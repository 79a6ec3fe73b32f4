"""References: the trajectories that ship with a model (schema `reference`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import attrs
from attrs import frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.field_types import (
    Deviation,
    Fingerprints,
    Name,
    ParameterName,
    Real,
    SampleCount,
    Schema,
    Seed,
)
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.documents.structuring import structure
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.spec.values import FiniteScalar

REFERENCE_VERSION = "1.0"
MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of a reference in bytes; those that ship have some hundred thousand."""

TrajectoryLosses = Annotated[tuple[Real, ...], Schema(maxItems=100_000)]


@frozen
class Trajectory:
    """The trajectory of one replica on its canonical shard."""

    losses: TrajectoryLosses
    """Loss of each step."""
    updates: Fingerprints
    """Parameter → fingerprint of its first update, in the model's order; empty if another replica of the pair has
    them. Of a mistake, those that differ most."""
    running_means: Fingerprints
    """Running mean → its fingerprint after the first step; of a mistake, those that differ most."""


@frozen
class Mistake:
    """A known mistake of implementations, and the trajectories that it leads to."""

    name: str
    """Name of the mistake in a diagnosis."""
    topology: Annotated[str, Schema(enum=["alone", "pair"])]
    """The trajectories that it is compared with: `alone` (`replicas` has the first) or `pair` (`replicas` has both)."""
    replicas: Annotated[tuple[Trajectory, ...], Schema(maxItems=2)]
    """The trajectories of the mistake."""


@frozen
class ReferenceCase:
    """A configuration of the model and its trajectories."""

    options: Mapping[str, FiniteScalar]
    """The model's options."""
    batch_size: SampleCount
    """Samples per replica."""
    seed: Seed
    """Seed of the canonical weights and batches."""
    steps: Annotated[int, Schema(minimum=1, maximum=100_000)]
    """Steps of each trajectory."""
    learning_rate_policy: Annotated[str, Schema(enum=["constant", "warmup"])]
    """The policy by which the learning rate of each step follows from the optimizer's numbers."""
    noise: Mapping[ParameterName, Deviation]
    """Parameter or running mean → deviation of float32 from float64 in one implementation, relative to its norm; absent
    below a millionth."""
    alone: Annotated[tuple[Trajectory, ...], Schema(maxItems=2)]
    """Single replicas, on canonical shard 0 and on shard 1."""
    pair: Annotated[tuple[Trajectory, ...], Schema(maxItems=2)]
    """Two replicas on the two shards, whose gradients are averaged; each replica has batch norms of its own."""
    mistakes: tuple[Mistake, ...]
    """Known mistakes."""


@frozen
class Tolerance:
    """Tolerances of a precision around float64; all relative."""

    losses: Deviation
    """Largest deviation of a loss."""
    updates: Deviation
    """Largest deviation of the first updates as a whole, if single ones are not compared."""
    means: Deviation
    """Largest deviation of the running means as a whole, if single ones are not compared."""
    least: Deviation
    """Smallest deviation of the running means as a whole, or of the first updates of a model without running means;
    less means that the precision was not in effect."""
    parameter: Deviation | None
    """Largest deviation of a single update or running mean, relative to its norm, or ten times its noise if that is
    more; null if they are not compared."""
    reason: str
    """Source of these bounds."""


@frozen
class Reference:
    """A model's reference: the trajectories that every framework must follow."""

    model: Name
    """Name of the model."""
    source: str
    """The program that computed the reference."""
    tolerances: Mapping[Name, Tolerance]
    """Precision → tolerances."""
    cases: Mapping[Name, ReferenceCase]
    """Name → a case, small or full."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the reference's content, in hexadecimal. Parity evidence is valid for one digest only."""
        return hashlib.sha256(json.dumps(attrs.asdict(self), sort_keys=True).encode()).hexdigest()


@cache
def load(path: Path) -> Reference:
    """Return the reference in a file. Each file is read once per process; later calls return the same object.

    Args:
        path: A file of the schema `reference`.

    Raises:
        DocumentError: The file cannot be read, breaks the schema `reference`, or has a trajectory whose number of
            losses is not the number of steps of its case.
    """
    document = load_document(path, MAX_BYTES)
    schema.check("reference", document)
    for name, case in document["cases"].items():
        for trajectory in case["alone"] + case["pair"]:
            if len(trajectory["losses"]) != case["steps"]:
                raise DocumentError(
                    f"The reference {path} contradicts itself: its case {name!r} has {case['steps']} steps, and a "
                    f"trajectory in it {len(trajectory['losses'])} losses."
                )
    return structure(document, Reference)
