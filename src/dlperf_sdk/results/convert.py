"""Values ↔ documents: results, records and attempts as plain JSON values, and back.

The way out follows the values, the way in follows the types of the attrs classes, after the schema has been
checked. The round trip is exact, also for losses that are not finite. Only in fields that take any value
(`facts`, `observed`, `hardware`, a fact's `requested`) does a tuple come back as a list, and a number that
is not finite as its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import number, numbers, shown
from dlperf_sdk.errors import DocumentError, SpecError
from dlperf_sdk.results.records import RECORD_VERSION, Exit, Failure, Record, Repeat, Series
from dlperf_sdk.results.result import RESULT_VERSION, Parity, Result
from dlperf_sdk.results.stored_repeats import StoredRepeats, attempts_of
from dlperf_sdk.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from cattrs import Converter


@frozen
class Attempt:
    """One attempt at a repeat, as the coordinator reported it: finished, or failed."""

    attempt: int
    status: str
    """`ok`, or the kind of the failure."""
    failure: Failure | None
    records: tuple[Record, ...]
    """From the trainers that came to the end; where the status is `ok`, from all."""
    series: tuple[Series, ...]
    exits: tuple[Exit, ...]
    nodes: tuple[Mapping[str, Any], ...] = ()
    """What each node found of itself, as the store keeps it with the attempt."""
    notes: tuple[str, ...] = ()

    @property
    def repeat(self) -> Repeat:
        """What a finished attempt adds to a result."""
        return Repeat(self.attempt, self.records, self.series, self.exits)


# -- out


def result_to_dict(result: Result) -> dict[str, Any]:
    """A document of the schema `result`, with all its records.

    Raises:
        TypeError: a plugin put a value into the result that JSON does not have.
        DocumentError: it lies in the store, and its records cannot be read.
    """
    return {"schema_version": RESULT_VERSION, **_fields(result)}


def result_to_dict_beside(result: Result) -> dict[str, Any]:
    """A document of the schema `result` that lies beside its records: it has the numbers of the attempts for them.

    Raises:
        TypeError: a plugin put a value into the result that JSON does not have.
    """
    numbers = list(attempts_of(result.repeats))
    return {**result_to_dict(attrs.evolve(result, repeats=())), "repeats": numbers}


def record_to_dict(record: Record) -> dict[str, Any]:
    """A document of the schema `worker-record`, as the trainer wrote it."""
    return {"schema_version": RECORD_VERSION, "status": "ok", "failure": None, **_fields(record)}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: to_plain(getattr(value, field.name)) for field in attrs.fields(type(value))}


def to_plain(value: Any) -> Any:
    """Any value of ours as JSON values, sharing nothing that can change with the original.

    Raises:
        TypeError: it is none of ours, and JSON does not have it.
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
    raise TypeError(f"a result cannot hold {shown(value)}, a {type(value).__name__}: JSON has no such value")


_WRITERS: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    RunSpec: RunSpec.to_dict,
    Record: record_to_dict,
}
"""The documents inside documents, which carry a version of their own."""


# -- in


def _elsewhere(number: int) -> Repeat:
    raise DocumentError(
        f"The records of attempt {number} are not in this document, but beside it, in attempts/{number}: load the "
        "file or its directory."
    )


def result_from_dict(plain: Mapping[str, Any], beside: Callable[[int], Repeat] = _elsewhere) -> Result:
    """The inverse of `result_to_dict`.

    Where the document has only the number of a repeat's attempt, `beside` reads it, when it is asked for.

    Raises:
        DocumentError: it breaks the schema, is of a newer major version, or contradicts itself.
    """
    schema.check("result", plain)
    _check_failure("result", plain["status"], plain["failure"])
    repeats: Sequence[Any] = plain["repeats"]
    kept = repeats and not isinstance(repeats[0], Mapping)
    for i, repeat in enumerate(() if kept else repeats):
        for j, record in enumerate(repeat["records"]):
            _check_window(record, f"$.repeats[{i}].records[{j}]")
    try:
        result = _converter().structure({**plain, "repeats": [] if kept else repeats}, Result)
    except SpecError as error:
        raise DocumentError(f"The result is not valid at $.spec: {error}") from error
    if not kept:
        return result
    return attrs.evolve(result, repeats=StoredRepeats(tuple(map(int, repeats)), beside))


def record_from_dict(plain: Mapping[str, Any]) -> Record:
    """The record of a trainer that came to the end.

    Raises:
        DocumentError: it breaks the schema `worker-record`, contradicts itself, or is a failed trainer's.
    """
    schema.check("worker-record", plain)
    if plain["status"] != "ok":
        said = plain["failure"]["message"]
        raise DocumentError(f"The record of rank {plain['rank']} is a failed trainer's: {said}")
    _check_window(plain, "$")
    return _converter().structure(plain, Record)


def attempt_from_dict(event: Mapping[str, Any]) -> Attempt:
    """The event `attempt-ended` of the coordinator; its name and the logs are left aside.

    Raises:
        DocumentError: it, or a record in it, breaks the schema or contradicts itself.
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
    """Parity evidence by itself, as `to_plain` writes it.

    Raises:
        DocumentError: it breaks the schema.
    """
    schema.check("result", plain, "parity")
    return _converter().structure(plain, Parity)


def _check_failure(what: str, status: str, failure: Mapping[str, Any] | None) -> None:
    said = "ok" if failure is None else failure["kind"]
    if said != status:
        raise DocumentError(
            f"The {what} contradicts itself: its status is {status!r}, its failure says {said!r}."
        )


def _check_window(record: Mapping[str, Any], where: str) -> None:
    window = record["window"]
    if not window["start"] < window["end"]:
        raise DocumentError(
            f"The worker record is not valid at {where}.window: its end, {window['end']} s, does not lie "
            f"after its start, {window['start']} s."
        )


@cache
def _converter() -> Converter:
    """Follows the types. What it is handed has passed the schema, so nothing is left to complain about."""
    from cattrs import Converter

    converter = Converter(detailed_validation=False)
    converter.register_structure_hook_func(lambda kind: kind is Any, lambda value, _: to_plain(value))
    converter.register_structure_hook(float, lambda value, _: number(value))
    converter.register_structure_hook_func(
        lambda kind: kind == tuple[float, ...], lambda value, _: numbers(value)
    )
    converter.register_structure_hook_func(
        lambda kind: kind == Sequence[Repeat], lambda value, _: converter.structure(value, tuple[Repeat, ...])
    )
    converter.register_structure_hook(RunSpec, lambda value, _: _spec(value))
    return converter


def _spec(plain: Mapping[str, Any]) -> RunSpec:
    """A run spec that has passed its schema as a part of the result's; its own checks see to the rest."""
    return RunSpec(**{name: value for name, value in plain.items() if name != "schema_version"})
