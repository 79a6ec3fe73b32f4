"""Parity records: what the trainers of one parity run wrote, as values (schema `parity-record`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from attrs import frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.field_types import Count, Fingerprints, Index, Schema
from dlperf_sdk.documents.structuring import structure
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.parity.reference import TrajectoryLosses
from dlperf_sdk.results.records import WorkerRecord


@frozen
class Follower:
    """First steps of one replica in a parity run."""

    index: Index
    """Index of the replica in the case, counted from 0."""
    digest: str
    """Digest over the replica's trainable parameters, after the last step."""
    losses: TrajectoryLosses
    """Loss of each step that updated the parameters."""
    updates: Fingerprints
    """Parameter → fingerprint of its first update, in the manifest's order; empty except for the case's first two
    replicas."""
    running_means: Fingerprints
    """Running mean → its fingerprint after the first update; empty except for the case's first two replicas."""


@frozen
class ParityRecord(WorkerRecord):
    """Record of a trainer process that finished a parity run. One that failed writes a failed worker record."""

    replicas: Annotated[tuple[Follower, ...], Schema(maxItems=999_999)]
    """The replicas that this process owns."""
    skipped_steps: Count
    """Number of steps that the loss scaler skipped; they are not among the losses."""
    facts: Mapping[str, Any]
    """Facts that the runtime reported: versions, devices, threads, transport."""
    observed: Mapping[str, Any]
    """The settings in effect, under the names of the request."""


def records_from(documents: Sequence[Any]) -> tuple[ParityRecord, ...]:
    """Return the records of one parity run, sorted by rank.

    Args:
        documents: The record of each trainer process, as JSON values in any order.

    Raises:
        DocumentError: A document breaks the schema `parity-record`, or two have the same rank.
    """
    records = []
    for document in documents:
        schema.check("parity-record", document)
        records.append(structure(document, ParityRecord))
    if len({record.rank for record in records}) < len(records):
        raise DocumentError("Two parity records have the same rank.")
    return tuple(sorted(records, key=lambda record: record.rank))
