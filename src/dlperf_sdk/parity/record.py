"""What the parity program left: the records of one parity run, as values (schema `parity-record`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import numbers
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.parity.reference import Fingerprint, fingerprints

PARITY_VERSION = "1.0"


@frozen
class Follower:
    """What one replica did."""

    index: int
    digest: str
    """Over its trainable parameters, after the last step."""
    losses: tuple[float, ...] = field(converter=numbers)
    """Of the steps that updated the parameters."""
    updates: Mapping[str, Fingerprint] = field(converter=fingerprints)
    """Parameter → its first update, in the manifest's order; empty but for the case's first two replicas."""
    running_means: Mapping[str, Fingerprint] = field(converter=fingerprints)


@frozen
class ParityRecord:
    """What one trainer process wrote."""

    request: str
    attempt: int
    rank: int
    node: int
    replicas: tuple[Follower, ...]
    skipped_steps: int
    """Steps that the loss scaler skipped; they are not among the losses."""
    facts: Mapping[str, Any]
    observed: Mapping[str, Any]


def records_from(documents: Sequence[Any]) -> tuple[ParityRecord, ...]:
    """The records of one parity run, by rank.

    Raises:
        DocumentError: one breaks its schema.
    """
    found = []
    for document in documents:
        schema.check("parity-record", document)
        plain = {key: value for key, value in document.items() if key not in _HEAD}
        replicas = tuple(Follower(**replica) for replica in plain.pop("replicas"))
        found.append(ParityRecord(**plain, replicas=replicas))
    if len({record.rank for record in found}) < len(found):
        raise DocumentError("Two parity records are of one rank.")
    return tuple(sorted(found, key=lambda record: record.rank))


_HEAD = {"schema_version", "status", "failure"}
