"""What a schema finds wrong, in words: where, what was expected, what was found."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlperf_sdk.documents.json_values import shown

if TYPE_CHECKING:
    from jsonschema import ValidationError


def unknown(error: ValidationError) -> list[str]:
    """The keys that should not be there, where that is what is wrong."""
    if error.validator != "additionalProperties" or not isinstance(error.instance, Mapping):
        return []
    known: Any = error.schema
    return [key for key in error.instance if key not in known["properties"]]


def wrongly_named(error: ValidationError) -> list[str]:
    """The key whose name is wrong, where that is."""
    return [str(error.instance)] if "propertyNames" in list(error.absolute_schema_path)[-2:] else []


def where(error: ValidationError) -> str:
    """JSON path: `$.repeats[0].records[1].rank`."""
    path = "$"
    for key in error.absolute_path:
        plain = isinstance(key, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,60}", key)
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if plain else f"[{shown(key)}]"
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
    "type": lambda types: " or ".join(_TYPES[one] for one in ([types] if isinstance(types, str) else types)),
    "const": json.dumps,
    "enum": lambda values: f"one of {', '.join(json.dumps(value) for value in values)}",
    "minimum": lambda least: f"{least} or more",
    "maximum": lambda most: f"{most} or less",
    "exclusiveMinimum": lambda least: f"more than {least}",
    "minItems": lambda least: f"{least} or more items",
    "maxItems": lambda most: f"{most} items or fewer",
    "anyOf": lambda _: "something else",
}


_NAME = "a name (lower-case letters and digits, and '.', '_' and '-' behind the first)"
_ID = "a name (at most 128 letters and digits, and '.', '_' and '-' behind the first)"
_TIME = "a time in UTC such as 2026-01-31T12:00:00Z"
_PATH = "a text without null characters"
FORMS = {
    r"^1\.[0-9]+$": 'a version such as "1.0"',
    r"^max$": "max",
    r"^[a-z0-9][a-z0-9._-]*$": _NAME,
    r"^[a-z0-9][a-z0-9._-]{0,63}$": f"{_NAME} of at most 64 characters",
    r"^[a-z0-9][a-z0-9._-]{0,127}$": f"{_NAME} of at most 128 characters",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": _ID,
    r"^[1-9][0-9]{0,5}n[1-9][0-9]{0,5}d$": "NODESnDEVICESd, both from 1 to 999999, such as 1n1d or 2n8d",
    r"^[1-9][0-9]{0,5}n[1-9][0-9]{0,5}d(@[a-z0-9][a-z0-9._-]*)?$": (
        "NODESnDEVICESd, both from 1 to 999999, such as 1n1d or 2n8d, and @ENGINE behind it if it is not this machine"
    ),
    r"^[a-z0-9][a-z0-9._-]*(:[^\u0000]+)?$": "SOURCE or SOURCE:FOLDER, such as synthetic or images:FOLDER",
    r"^[^\u0000]+$": f"{_PATH}, not empty",
    r"^[^\u0000]*$": _PATH,
    r"^[^\u0000]{1,256}$": f"{_PATH}, of 1 to 256 characters",
    r"^(podman|docker|apptainer|enroot):[A-Za-z0-9./][^\u0000\s]*$": (
        "podman:IMAGE, docker:IMAGE, apptainer:IMAGE or enroot:IMAGE"
    ),
    r"^/dev/[A-Za-z0-9._/-]{1,200}(,/dev/[A-Za-z0-9._/-]{1,200}){0,99}$": (
        "paths below /dev, with commas between them"
    ),
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a variable's name (letters, digits and '_', no digit first)",
    r"^[A-Za-z_][A-Za-z0-9_.-]*$": "an option's name (letters, digits, '_', '.' and '-', a letter or '_' first)",
    r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$": "module:attribute",
    r"^[0-9]{4}(-[0-9]{2})?$": "a year, or a year and a month: 2020 or 2020-07",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$": _TIME,
    r"^[0-9a-f]{40}$": "40 hexadecimal digits",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^.{0,128}$": "a line of at most 128 characters",
    r"^.{1,128}$": "a line of 1 to 128 characters",
    r"^.{1,512}$": "a line of 1 to 512 characters",
    r"^.{0,1024}$": "a line of at most 1024 characters",
}
"""What the schemas' patterns allow, in words."""


def _allowed(schema: Mapping[str, Any]) -> str:
    """What a schema with a pattern allows: `a whole number from 1, or max`."""
    types = schema.get("type", "string")
    words = dict(_TYPES, string=FORMS.get(schema["pattern"], "a text of another form"))
    if "minimum" in schema:
        words["integer"] += f" from {schema['minimum']}"
    said = [words[one] for one in ([types] if isinstance(types, str) else types)]
    return ", or ".join(said)


def explained(error: ValidationError, strange: Sequence[str]) -> str:
    """What was expected, what was found; `strange` is the key that should not be there, if one is."""
    schema: Any = error.schema
    if error.validator == "required":
        missing = [key for key in schema["required"] if key not in error.instance]  # type: ignore[operator]
        return f"{', '.join(repr(key) for key in missing)} must be there"
    if strange:
        return f"{shown(strange[0])} is no key of it{_meant(strange[0], schema['properties'])}"
    mixed = "pattern" in schema and "integer" in schema.get("type", ())
    if error.validator == "pattern" or (mixed and error.validator in ("type", "minimum")):
        expected = _allowed(schema)
    else:
        expected = EXPECTED[str(error.validator)](error.validator_value)
    choices: Any = error.validator_value if error.validator == "enum" else ()
    return f"expected {expected}; found {shown(error.instance)}{_meant(error.instance, choices)}"


def _meant(found: Any, known: Iterable[Any]) -> str:
    choices = [choice for choice in known if isinstance(choice, str)]
    close = difflib.get_close_matches(found[:100], choices, n=1, cutoff=0.5) if isinstance(found, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""
