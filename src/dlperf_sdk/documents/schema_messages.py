"""Messages about schema errors: the place, what was expected, and what the document has."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlperf_sdk.documents.json_values import format_value

if TYPE_CHECKING:
    from jsonschema import ValidationError


def find_unknown_keys(error: ValidationError) -> list[str]:
    """Return the keys that an object has and its schema does not, in the object's order.

    Empty if the error is about something other than unknown keys.
    """
    if error.validator != "additionalProperties" or not isinstance(error.instance, Mapping):
        return []
    known: Any = error.schema
    return [key for key in error.instance if key not in known["properties"]]


def find_misnamed_keys(error: ValidationError) -> list[str]:
    """Return a list with the key whose name breaks the schema's pattern; empty if the error is not about a name."""
    return [str(error.instance)] if "propertyNames" in list(error.absolute_schema_path)[-2:] else []


def json_path(error: ValidationError) -> str:
    """Return the JSON path of an error: `$.repeats[0].records[1].rank`; `$` if it is about the whole document."""
    path = "$"
    for key in error.absolute_path:
        plain = isinstance(key, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,60}", key)
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if plain else f"[{format_value(key)}]"
    return path


_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

EXPECTED: dict[str, Callable[[Any], str]] = {
    "type": lambda types: " or ".join(
        _TYPES[name] for name in ([types] if isinstance(types, str) else types)
    ),
    "const": json.dumps,
    "enum": lambda values: f"one of {', '.join(json.dumps(value) for value in values)}",
    "minimum": lambda limit: f"{limit} or more",
    "maximum": lambda limit: f"{limit} or less",
    "exclusiveMinimum": lambda limit: f"more than {limit}",
    "maxLength": lambda limit: f"{limit} characters or fewer",
    "minItems": lambda limit: f"{limit} or more items",
    "maxItems": lambda limit: f"{limit} items or fewer",
    "anyOf": lambda _: "something else",
}
"""Keyword of JSON Schema → function that describes in words what a value of the keyword allows."""


def _describe_pattern(schema: Mapping[str, Any]) -> str:
    """Describe what a schema with a pattern allows: `a whole number from 1, or max`."""
    types = schema.get("type", "string")
    names = dict(_TYPES, string=schema["expected"])
    if "minimum" in schema:
        names["integer"] += f" from {schema['minimum']}"
    return ", or ".join(names[kind] for kind in ([types] if isinstance(types, str) else types))


def explain(error: ValidationError, unknown: Sequence[str]) -> str:
    """Return a phrase that says what was expected and what the document has, without a full stop.

    Args:
        error: The error.
        unknown: Keys that `find_unknown_keys` returns for the error. The phrase names the first one. Empty if there
            are none.

    Raises:
        KeyError: The document breaks a keyword of JSON Schema that dlperf-sdk's schemas do not use, such as
            `minProperties`.
    """
    schema: Any = error.schema
    if error.validator == "required":
        missing = [key for key in schema["required"] if key not in error.instance]  # type: ignore[operator]
        return f"{', '.join(repr(key) for key in missing)} must be there"
    if unknown:
        return f"{format_value(unknown[0])} is not a known key{_suggestion(unknown[0], schema['properties'])}"
    mixed = "pattern" in schema and "integer" in schema.get("type", ())
    if error.validator == "pattern" or (mixed and error.validator in ("type", "minimum")):
        expected = _describe_pattern(schema)
    else:
        expected = EXPECTED[str(error.validator)](error.validator_value)
    choices: Any = error.validator_value if error.validator == "enum" else ()
    return f"expected {expected}; found {format_value(error.instance)}{_suggestion(error.instance, choices)}"


def _suggestion(value: Any, known: Iterable[Any]) -> str:
    choices = [choice for choice in known if isinstance(choice, str)]
    close = difflib.get_close_matches(value[:100], choices, n=1, cutoff=0.5) if isinstance(value, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""
