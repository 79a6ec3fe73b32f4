"""Validation of documents against the JSON Schemas in `schemas/` (draft 2020-12), whose names are `NAMES`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dlperf_sdk
from dlperf_sdk.documents import schema_messages
from dlperf_sdk.documents.reading import load_document, parse_json
from dlperf_sdk.documents.validators import MOST_ERRORS, decide, deciding_validator, explaining_validator
from dlperf_sdk.errors import DocumentError

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema import Draft202012Validator, ValidationError

__all__ = [
    "MOST_ERRORS",
    "NAMES",
    "check",
    "embed_references",
    "list_errors",
    "load",
    "load_document",
    "parse_json",
    "version",
]

NAMES = (
    "run-spec",
    "worker-request",
    "worker-record",
    "parity-record",
    "reference",
    "result",
    "published",
    "campaign",
)


def check(name: str, document: Any, part: str = "") -> None:
    """Check a document against a schema.

    Args:
        name: Name of the schema, one of `NAMES`.
        document: Plain data, as `load_document` and `parse_json` return it; `check_plain` checks other values.
        part: Name of a definition in the schema's `$defs` to check against; empty: the schema itself.

    Raises:
        DocumentError: The document breaks the schema, or states another major version than that of the schema. If it
            breaks the schema, the message names the place as a JSON path, and `.place` has its keys and indexes.
    """
    title = _title(name, part)
    _check_version(name, title, document)
    if is_valid(name, document, part):
        return
    from jsonschema.exceptions import best_match

    errors = load_explaining_validator(name, part).iter_errors(document)
    error = best_match(islice(errors, MOST_ERRORS))
    if error is None:
        raise DocumentError(f"The {title} is not valid.")
    raise _refusal(name, title, document, error)


def is_valid(name: str, document: Any, part: str = "") -> bool:
    """Return True if a document follows a schema. Its version is not compared.

    Args:
        name: Name of the schema, one of `NAMES`.
        document: Plain data.
        part: Name of a definition in the schema's `$defs`; empty: the schema itself.
    """
    return decide(_load_deciding_validator(name, part), document)


def list_errors(name: str, document: Any) -> list[DocumentError]:
    """Return an error for each part of a document that breaks a schema.

    Args:
        name: Name of the schema, one of `NAMES`.
        document: Plain data.

    Returns:
        The errors, each with its `.place`, without duplicates and in no particular order; empty if the document is
        valid. Of a document with at least `MOST_ERRORS` (100) errors, some may be left out.

    Raises:
        DocumentError: The document states another major version than that of the schema.
    """
    title = _title(name, "")
    _check_version(name, title, document)
    if is_valid(name, document):
        return []
    from jsonschema.exceptions import best_match

    errors: dict[str, DocumentError] = {}
    for error in islice(load_explaining_validator(name, "").iter_errors(document), MOST_ERRORS):
        inner = best_match([error]) or error
        keys: list[str | None] = [*schema_messages.find_unknown_keys(inner)[:MOST_ERRORS]]
        for key in keys or [None]:
            refusal = _refusal(name, title, document, inner, key)
            errors[str(refusal)] = refusal
    return list(errors.values())


def _title(name: str, part: str) -> str:
    return part.replace("-", " ") or str(_schemas()[name]["title"]).lower()


def _refusal(
    name: str, title: str, document: Any, error: ValidationError, key: str | None = None
) -> DocumentError:
    """Return the exception for one error; of several unknown keys it is about `key`, or the first."""
    unknown = schema_messages.find_unknown_keys(error)[:1] if key is None else [key]
    hint = _newer_minor(name, document) if error.validator in ("additionalProperties", "enum") else ""
    location, reason = schema_messages.json_path(error), schema_messages.explain(error, unknown)
    place = (*error.absolute_path, *(unknown or schema_messages.find_misnamed_keys(error)))
    return DocumentError(f"The {title} is not valid at {location}: {reason}.{hint}", place)


def load(name: str) -> dict[str, Any]:
    """Return the schema `name`, one of `NAMES`, as a new dictionary, read from its file.

    Raises:
        OSError: There is no such file, or it cannot be read.
    """
    document: dict[str, Any] = json.loads((_directory() / f"{name}.schema.json").read_text(encoding="utf-8"))
    return document


def embed_references(name: str) -> dict[str, Any]:
    """Return the schema `name`, one of `NAMES`, as one document for editors, without `$id`.

    Schemas that it refers to, directly or indirectly, are under its own `$defs`, by their names. The document is a new
    dictionary.
    """
    ids = {schema["$id"]: definition for definition, schema in _schemas().items()}
    used: set[str] = set()

    def move_references(part: Any, current: str) -> Any:
        """Return a part of the schema `current` with its references changed to the new places."""
        if isinstance(part, list):
            return [move_references(item, current) for item in part]
        if not isinstance(part, dict):
            return part
        copy = {key: move_references(value, current) for key, value in part.items()}
        if isinstance(part.get("$ref"), str):
            home, _, pointer = part["$ref"].partition("#")
            definition = ids[home] if home else current
            if definition != name:
                used.add(definition)
            copy["$ref"] = f"#{pointer}" if definition == name else f"#/$defs/{definition}{pointer}"
        return copy

    document: dict[str, Any] = move_references(
        {k: v for k, v in _schemas()[name].items() if k != "$id"}, name
    )
    definitions: dict[str, Any] = {}
    while used - set(definitions):
        definition = min(used - set(definitions))
        inner = {k: v for k, v in _schemas()[definition].items() if k not in ("$id", "$schema")}
        definitions[definition] = move_references(inner, definition)
    if definitions:
        document["$defs"] = {**document.get("$defs", {}), **definitions}
    return document


def version(name: str) -> str:
    """Return the version of the schema `name`, one of `NAMES`, that this dlperf-sdk writes, such as `1.0`."""
    schema = _schemas()[name]
    properties = schema.get("properties") or schema["$defs"]["record"]["properties"]
    return str(properties["schema_version"]["default"])


def _directory() -> Path:
    """Return the folder of the schemas: in a wheel in this package, in a checkout at its top."""
    package = Path(dlperf_sdk.__file__).resolve().parent
    packaged = package / "schemas"
    return packaged if packaged.is_dir() else package.parents[1] / "schemas"


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return {name: load(name) for name in NAMES}


@cache
def _load_deciding_validator(name: str, part: str) -> jsonschema_rs.Draft202012Validator:
    return deciding_validator(_root(name, part), _schemas().values())


@cache
def load_explaining_validator(name: str, part: str = "") -> Draft202012Validator:
    """Return a validator that lists the errors of a document; it is a hundred times slower than `is_valid`.

    Later calls return the same validator.

    Args:
        name: Name of the schema, one of `NAMES`.
        part: Name of a definition in the schema's `$defs`; empty: the schema itself.
    """
    return explaining_validator(_root(name, part), [*_schemas().values()])


def _root(name: str, part: str) -> dict[str, Any]:
    """Return the schema `name`, or a reference to its `$defs/part`."""
    schema = _schemas()[name]
    return {"$ref": f"{schema['$id']}#/$defs/{part}"} if part else schema


def _check_version(name: str, title: str, document: Any) -> None:
    document_version = document.get("schema_version") if isinstance(document, Mapping) else None
    if isinstance(document_version, int | float) and not isinstance(document_version, bool):
        raise DocumentError(
            f'The {title} has the schema_version {document_version}; write it as text: "{version(name)}".'
        )
    match = (
        re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", document_version)
        if isinstance(document_version, str)
        else None
    )
    major = version(name).split(".")[0]
    if match and int(match[1]) > int(major):
        raise DocumentError(
            f"The {title} is of version {document_version}, this dlperf-sdk reads {major}.x: update it."
        )
    if match and int(match[1]) < int(major):
        raise DocumentError(
            f"The {title} is of version {document_version}, this dlperf-sdk reads {major}.x only."
        )


def _newer_minor(name: str, document: Any) -> str:
    """Explain why a document of a newer minor version may have unknown keys."""
    document_version = document.get("schema_version") if isinstance(document, Mapping) else None
    own_version = version(name)
    if (
        isinstance(document_version, str)
        and re.fullmatch(r"1\.[0-9]{1,9}", document_version)
        and int(document_version[2:]) > int(own_version[2:])
    ):
        return (
            f" It is of version {document_version}, this dlperf-sdk writes {own_version}: update dlperf-sdk to read "
            "newer documents."
        )
    return ""
