"""Predicates that select cases, written as data. Nothing in them is executed.

::

    {framework: [mxnet, paddle], precision: amp-fp16, batch_size: {min: 64}}     all of these hold
    {nodes: {not: 1}}                                                            not this one
    {options.image_size: {in: [64, 128], not: 96}}
    {any: [{compiler: xla}, {devices: {min: 16}}]}                               one of these holds

A field is one of a run spec's, an option of the model or the framework (`options.NAME`), or follows from the
topology: `nodes`, `devices_per_node`, `devices`, `launcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import TopologySpec

OPERATORS = ("in", "not", "min", "max")
_TOPOLOGY = {
    "nodes": lambda topology: topology.nodes,
    "devices_per_node": lambda topology: topology.devices_per_node,
    "devices": lambda topology: topology.devices,
    "launcher": lambda topology: topology.launcher,
}
_WORDS: dict[str, tuple[type, ...]] = {"a text": (str,), "a whole number": (int,), "a number": (int, float)}

Test = Callable[[Mapping[str, Any]], bool]


def _kinds() -> dict[str, str]:
    """Return the kind of each field's values as a phrase. Predicates cannot test fields that hold mappings."""
    kinds: dict[str, str] = {}
    for name, hint in get_type_hints(RunSpec).items():
        members = [member for member in get_args(hint) if member is not type(None)] or [hint]
        if get_origin(members[0]) is None and get_origin(hint) is not dict:
            kinds[name] = {int: "a whole number", float: "a number"}.get(members[0], "a text")
    return kinds | {name: "a text" if name == "launcher" else "a whole number" for name in _TOPOLOGY}


KINDS = _kinds()
"""Field → kind of its values, as a phrase."""
_DEFAULTS = {
    field.name: field.default
    for field in attrs.fields(RunSpec)
    if not isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
}


@frozen
class Predicate:
    """A condition on the fields of a case."""

    source: Mapping[str, Any]
    """The mapping that the predicate was read from."""
    holds: Test
    """Function that returns True if the condition holds for the fields of a case. It raises a `SpecError` if the
    condition is on a property of the topology, and the topology is malformed."""
    values: tuple[tuple[str, str], ...]
    """Each text that the condition compares a field with, as (field, text), so that a misspelt name can be found."""


def predicate(plain: Any) -> Predicate:
    """Return the predicate that a mapping describes, such as `{"precision": "fp32", "nodes": {"min": 2}}`.

    Args:
        plain: Mapping from the name of a field to its condition; a case must meet all conditions. A condition is the
            required value, a list of the allowed values, or a mapping with the keys `in`, `not`, `min` or `max`. The
            key `any` has a list of mappings like `plain`, of which at least one must match. This argument comes from a
            file and is checked.

    Raises:
        SpecError: The value is not such a mapping, has an empty condition, or compares a field with a value of
            another kind.
        UnknownName: There is no field or operator of a given name.
    """
    if not isinstance(plain, Mapping) or not plain:
        raise SpecError(
            f"A predicate is {format_value(plain)}; it must be fields and what they shall be, such as "
            f"{{precision: fp32}}."
        )
    tests: list[Test] = []
    values: list[tuple[str, str]] = []
    for name, requirement in plain.items():
        if name == "any":
            tests.append(_read_any(requirement, values))
            continue
        kind = _kind_of(name)
        tests += [
            _test_field(name, condition) for condition in _read_conditions(name, kind, requirement, values)
        ]
    return Predicate(dict(plain), lambda fields: all(test(fields) for test in tests), tuple(values))


def value_of(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field in a case.

    Args:
        fields: Fields of the case's spec; missing fields have their defaults.
        name: A field of a run spec, `options.NAME`, or a property of the topology such as `nodes`.

    Returns:
        The value as text, number or boolean; None for an option that is not set.

    Raises:
        SpecError: A property of a malformed topology is requested.
    """
    if name.startswith("options."):
        return (fields.get("options") or {}).get(name.removeprefix("options."))
    if name in _TOPOLOGY:
        return _TOPOLOGY[name](TopologySpec.parse(fields.get("topology", _DEFAULTS["topology"])))
    value = fields.get(name, _DEFAULTS.get(name))
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _read_any(alternatives: Any, values: list[tuple[str, str]]) -> Test:
    if not isinstance(alternatives, Sequence) or isinstance(alternatives, str) or not alternatives:
        raise SpecError(
            f"any is {format_value(alternatives)}; it must be a list of predicates, one of which is to hold."
        )
    branches = [predicate(alternative) for alternative in alternatives]
    for branch in branches:
        values += branch.values
    return lambda fields: any(branch.holds(fields) for branch in branches)


def _kind_of(name: Any) -> str | None:
    """Return the kind of a field's values as a phrase; None for an option, whose kind only its plugin knows.

    Raises:
        UnknownName: There is no such field.
    """
    if isinstance(name, str) and name.startswith("options.") and len(name) > len("options."):
        return None
    if name not in KINDS:
        raise UnknownName("field to ask for in a predicate", str(name), (*KINDS, "any", "options.NAME"))
    return KINDS[name]


def _test_field(name: str, condition: Callable[[Any], bool]) -> Test:
    return lambda fields: condition(value_of(fields, name))


def _read_conditions(
    name: str, kind: str | None, condition: Any, values: list[tuple[str, str]]
) -> list[Callable[[Any], bool]]:
    if not isinstance(condition, Mapping):
        return [_read_membership(name, kind, condition, values)]
    if not condition:
        raise SpecError(
            f"{name} is compared with {{}}; write a value, a list of them, or {', '.join(OPERATORS)}."
        )
    tests: list[Callable[[Any], bool]] = []
    for operator, value in condition.items():
        if operator == "in":
            tests.append(_read_membership(name, kind, value, values))
        elif operator == "not":
            is_excluded = _read_membership(name, kind, value, values)
            tests.append(lambda actual, is_excluded=is_excluded: not is_excluded(actual))  # type: ignore[misc]
        elif operator in ("min", "max"):
            tests.append(_read_bound(name, kind, operator, value))
        else:
            raise UnknownName("operator of a predicate", str(operator), OPERATORS)
    return tests


def _read_membership(
    name: str, kind: str | None, allowed: Any, values: list[tuple[str, str]]
) -> Callable[[Any], bool]:
    listed = list(allowed) if isinstance(allowed, list | tuple) else [allowed]
    if not listed:
        raise SpecError(f"{name} is compared with an empty list; write one or more values.")
    for value in listed:
        _check_kind(name, kind, value)
        if kind == "a text" and isinstance(value, str):
            values.append((name, value))
    # 1 and true are equal in Python, but not in a file.
    return lambda actual: (
        any(type(actual) is type(value) and actual == value for value in listed)
        or (isinstance(actual, float) and any(actual == value for value in listed))
    )


def _read_bound(name: str, kind: str | None, operator: str, bound: Any) -> Callable[[Any], bool]:
    if kind == "a text" or isinstance(bound, bool) or not isinstance(bound, int | float):
        raise SpecError(
            f"{operator} of {name} is {format_value(bound)}; {operator} takes a number, of a field that holds numbers."
        )

    def holds(actual: Any) -> bool:
        # A value that is not a number, such as the batch size "max", is within no bound.
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            return False
        return actual >= bound if operator == "min" else actual <= bound

    return holds


def _check_kind(name: str, kind: str | None, value: Any) -> None:
    if value is None or (name == "batch_size" and value == "max"):
        return
    if kind is None:
        fits, kind = isinstance(value, str | int | float), "a text, a number, true or false"
    else:
        fits = isinstance(value, _WORDS[kind]) and not isinstance(value, bool)
    if not fits:
        raise SpecError(f"A predicate compares {name} with {format_value(value)}; it must be {kind}.")
