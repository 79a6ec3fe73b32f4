"""Conversion of results, records and attempts to documents and back.

Both ways follow the attrs classes; a document is checked against its schema before it becomes values. The round trip
is exact, also for losses that are not finite. Only in fields that take any value (`facts`, `observed`, `hardware`, a
fact's `requested`) does a tuple come back as a list, and a number that is not finite as its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from attrs import frozen

from dlperf_sdk.documents import schema, structuring
from dlperf_sdk.documents.field_types import Index, NoteText, WrittenAs
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import DocumentError, SpecError
from dlperf_sdk.results.records import Exit, FailedRecord, Failure, Record, Repeat, Series
from dlperf_sdk.results.result import RESULT_VERSION, Parity, Result, Status
from dlperf_sdk.results.stored_repeats import StoredRepeats, attempts_of
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.request import RECORD_VERSION

if TYPE_CHECKING:
    from cattrs import Converter


@frozen
class Attempt:
    """One attempt at a repeat, finished or failed, as the coordinator reports it and the store keeps it."""

    attempt: Index
    """Number of the attempt, counted from 1."""
    status: Status
    """`ok`, or the kind of the failure."""
    failure: Failure | None
    """Failure of the run; null exactly if the status is `ok`."""
    records: Annotated[tuple[Record, ...], WrittenAs(tuple[Record | FailedRecord, ...])]
    """The records of the trainers; those of failed ones are in the document only."""
    series: tuple[Series, ...]
    """The samplers' series."""
    exits: tuple[Exit, ...]
    """Exits of the workers."""
    nodes: tuple[Mapping[str, Any], ...] = ()
    """Each node's description of itself."""
    notes: tuple[NoteText, ...] = ()
    """Remarks of the nodes, such as a busy device."""

    @property
    def repeat(self) -> Repeat:
        """The attempt as a repeat of a result: its number, records, series and exits."""
        return Repeat(self.attempt, self.records, self.series, self.exits)


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return a result, with the records of all repeats, as a document of the schema `result`: a dict of JSON values.

    It shares nothing mutable with the result, and is not checked against the schema.

    Raises:
        DocumentError: The result is in the store, and its records cannot be read; or a plugin put a value into the
            result that JSON cannot represent.
    """
    return {"schema_version": RESULT_VERSION, **_fields(result)}


def result_to_dict_without_records(result: Result) -> dict[str, Any]:
    """Return a result as a document of the schema `result` whose `repeats` are attempt numbers instead of records.

    Records in the store are not read. The document, a dict of JSON values, shares nothing mutable with the result, and
    is not checked against the schema.

    Raises:
        DocumentError: A plugin put a value into the result that JSON cannot represent.
    """
    numbers = list(attempts_of(result.repeats))
    return {**result_to_dict(attrs.evolve(result, repeats=())), "repeats": numbers}


def record_to_dict(record: Record) -> dict[str, Any]:
    """Return a record as a document (a dict of JSON values) of the schema `worker-record`, as trainers write it.

    Raises:
        DocumentError: The record holds a value that JSON cannot represent.
    """
    return {"schema_version": RECORD_VERSION, **_fields(record)}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: to_plain(getattr(value, field.name)) for field in attrs.fields(type(value))}


def to_plain(value: Any) -> Any:
    """Return a value as JSON values that share nothing mutable with it.

    An attrs instance becomes an object with its fields, in which a run spec and a record also have their
    `schema_version`; a tuple becomes a list, and a key that is not text becomes text. A number that is not finite
    becomes text: `nan`, `inf`, `-inf`.

    Raises:
        DocumentError: The value holds repeats in the store whose records cannot be read; or the value, or a part of it,
            is neither a JSON value nor an attrs instance.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple | list | StoredRepeats):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if attrs.has(type(value)):
        write = _WRITERS.get(type(value), _fields)
        return write(value)
    raise DocumentError(
        f"A result cannot hold {format_value(value)}, a {type(value).__name__}: JSON has no such value. Report it to "
        "the plugin that has put it there."
    )


_WRITERS: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    RunSpec: RunSpec.to_dict,
    Record: record_to_dict,
}
"""Documents inside documents, which have their own version."""


def _refuse_stored(number: int) -> Repeat:
    raise DocumentError(
        f"The records of attempt {number} are not in this document, but beside it, in attempts/{number}: load the "
        "file or its directory."
    )


def result_from_dict(
    plain: Mapping[str, Any], read_attempt: Callable[[int], Repeat] = _refuse_stored
) -> Result:
    """Return the result of a document: the inverse of `result_to_dict` and of `result_to_dict_without_records`.

    Args:
        plain: The document, as JSON values.
        read_attempt: Function that returns the repeat with a given attempt number. It is called only for a document
            that has attempt numbers in place of records, and only when a repeat of the returned result is accessed.
            The default raises a `DocumentError`.

    Raises:
        DocumentError: The document breaks the schema, is of another major version, has a spec with an impossible
            value, or contradicts itself: status and failure differ, or a window does not end after its start.
    """
    schema.check("result", plain)
    _check_failure("result", plain["status"], plain["failure"])
    repeats: Sequence[Any] = plain["repeats"]
    are_stored = repeats and not isinstance(repeats[0], Mapping)
    for i, repeat in enumerate(() if are_stored else repeats):
        for j, record in enumerate(repeat["records"]):
            _check_window(record, f"$.repeats[{i}].records[{j}]")
    try:
        result = _converter().structure({**plain, "repeats": [] if are_stored else repeats}, Result)
    except SpecError as error:
        raise DocumentError(f"The result is not valid at $.spec: {error}") from error
    if not are_stored:
        return result
    return attrs.evolve(result, repeats=StoredRepeats(tuple(map(int, repeats)), read_attempt))


def record_from_dict(plain: Mapping[str, Any]) -> Record:
    """Return the record of a trainer that finished, from a document of the schema `worker-record` as JSON values.

    Raises:
        DocumentError: The document breaks the schema `worker-record`, has a window that does not end after its
            start, or is the record of a trainer that failed.
    """
    schema.check("worker-record", plain)
    if plain["status"] != "ok":
        message = plain["failure"]["message"]
        raise DocumentError(f"The record of rank {plain['rank']} is a failed trainer's: {message}")
    _check_window(plain, "$")
    return _converter().structure(plain, Record)


def attempt_from_dict(event: Mapping[str, Any]) -> Attempt:
    """Return the attempt that the coordinator's event `attempt-ended` reports.

    Records of trainers that failed are left out. The order of the others is kept.

    Args:
        event: The event as JSON values, or the stored attempt. Fields that `Attempt` lacks are ignored.

    Raises:
        DocumentError: The event or a record in it breaks the schema or contradicts itself: status and failure
            differ, a window does not end after its start, or a record failed although the attempt's status is
            `ok`.
    """
    names = [field.name for field in attrs.fields(Attempt)]
    plain = {name: event[name] for name in names if name in event}
    schema.check("result", plain, "attempt")
    _check_failure("attempt", plain["status"], plain["failure"])
    finished = []
    for i, record in enumerate(plain["records"]):
        if record["status"] == "ok":
            _check_window(record, f"$.records[{i}]")
            finished.append(record)
        elif plain["status"] == "ok":
            raise DocumentError(
                f"The attempt's status is 'ok', but the record at $.records[{i}] is a failed one."
            )
    return _converter().structure({**plain, "records": finished}, Attempt)


def parity_from_dict(plain: Any) -> Parity:
    """Return the parity evidence from its JSON values, as `to_plain` gives them for a `Parity`.

    Raises:
        DocumentError: `plain` breaks the definition `parity` of the schema `result`.
    """
    schema.check("result", plain, "parity")
    return _converter().structure(plain, Parity)


def _check_failure(subject: str, status: str, failure: Mapping[str, Any] | None) -> None:
    kind = "ok" if failure is None else failure["kind"]
    if kind != status:
        raise DocumentError(
            f"The {subject} contradicts itself: its status is {status!r}, but the kind of its failure is {kind!r}."
        )


def _check_window(record: Mapping[str, Any], path: str) -> None:
    window = record["window"]
    if not window["start"] < window["end"]:
        raise DocumentError(
            f"The worker record is not valid at {path}.window: its end, {window['end']} s, does not lie "
            f"after its start, {window['start']} s."
        )


@cache
def _converter() -> Converter:
    converter = structuring.converter().copy()
    converter.register_structure_hook_func(
        lambda kind: kind == Sequence[Repeat], lambda value, _: converter.structure(value, tuple[Repeat, ...])
    )
    converter.register_structure_hook(RunSpec, lambda value, _: _spec(value))
    return converter


def _spec(plain: Mapping[str, Any]) -> RunSpec:
    """Return a run spec that has passed its schema as a part of the result's; its validators check the rest."""
    return RunSpec(**{name: value for name, value in plain.items() if name != "schema_version"})
