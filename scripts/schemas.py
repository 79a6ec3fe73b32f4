"""Write `schemas/*.schema.json` from the classes that documents are made of: `make schemas`.

A property is described by the docstring below its field (or the field's `help`), bounded by its type
(`dlperf_sdk.documents.field_types`) and its validator (`dlperf_sdk.spec.fields`), and required if it has no default.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import attrs

from dlperf_sdk.campaigns.file import CAMPAIGN_VERSION
from dlperf_sdk.campaigns.file_format import CampaignFile
from dlperf_sdk.documents import field_types
from dlperf_sdk.documents.field_types import Schema, Version, WrittenAs
from dlperf_sdk.interfaces import request_types
from dlperf_sdk.interfaces.figure import FIGURE_VERSION, PublishedFigure
from dlperf_sdk.parity.record import ParityRecord
from dlperf_sdk.parity.reference import REFERENCE_VERSION, Reference
from dlperf_sdk.results.convert import Attempt
from dlperf_sdk.results.records import FailedRecord, Record
from dlperf_sdk.results.result import RESULT_VERSION, Result
from dlperf_sdk.spec.fields import keywords_of
from dlperf_sdk.spec.run_spec import SPEC_VERSION, RunSpec
from dlperf_sdk.worker.request import PARITY_VERSION, RECORD_VERSION, REQUEST_VERSION, Request

FOLDER = Path(__file__).resolve().parents[1] / "schemas"
_VERSION = (
    "Version of this format. A reader of 1.x reads every 1.y that uses only what it knows; a change that such a reader "
    "cannot follow raises the first number."
)
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_STANDALONE = {"type", "anyOf", "$ref"}
"""Keywords that stand for all that follows from a type."""


class Document(NamedTuple):
    """A kind of document: its schema's name, its class (or classes, by their `status`), and how it is versioned."""

    name: str
    root: Any
    version: str
    is_written_by_hand: bool = False
    """People leave out the version."""
    is_complete: bool = False
    """A writer writes every field, and a reader relies on it, also if the class has a default."""
    is_sparse: bool = False
    """A field without a value is left out, never null."""
    parts: tuple[type, ...] = ()
    """Classes that are checked by themselves and occur in no document of this kind."""
    description: str = ""

    @property
    def id(self) -> str:
        """The `$id` of the schema: a URN with the name and the first number of the version."""
        return f"urn:dlperf-sdk:schema:{self.name}:{self.version.split('.')[0]}"


DOCUMENTS = (
    Document("run-spec", RunSpec, SPEC_VERSION, is_written_by_hand=True),
    Document("worker-request", Request, REQUEST_VERSION, is_complete=True),
    Document(
        "worker-record",
        Record | FailedRecord,
        RECORD_VERSION,
        description="The record that a trainer process writes at its end.",
    ),
    Document("parity-record", ParityRecord, PARITY_VERSION),
    Document("reference", Reference, REFERENCE_VERSION),
    Document("result", Result, RESULT_VERSION, parts=(Attempt,)),
    Document("published", PublishedFigure, FIGURE_VERSION, is_sparse=True),
    Document("campaign", CampaignFile, CAMPAIGN_VERSION, is_written_by_hand=True, is_sparse=True),
)


def _definition_name(cls: type) -> str:
    """Return the name of a class in `$defs`: `WorkerFailure` is `worker-failure`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


@cache
def summary(cls: type) -> str:
    """Return the first paragraph of a class's docstring, in one line; empty without a docstring."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())


@cache
def _field_docstrings(cls: type) -> Mapping[str, str]:
    """Return the docstrings below the fields of a class and of the classes that it inherits from, each in one line."""
    docstrings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (attrs.has(base) or base is cls):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                docstrings[statement.target.id] = " ".join(following.value.value.split())  # type: ignore[union-attr,attr-defined]
    return docstrings


class Field(NamedTuple):
    """A field of an attrs class or of a named tuple.

    Attributes:
        name: Its key in documents.
        type: Its type, with annotations.
        is_required: True if a document must have it.
        keywords: Keywords of its schema that do not follow from the type, such as `description`.
    """

    name: str
    type: Any
    is_required: bool
    keywords: Mapping[str, Any]


def fields_of(cls: type) -> Iterator[Field]:
    """Yield the fields of a class, in order, with the keywords that do not follow from their types.

    Raises:
        KeyError: A field of a named tuple has no docstring.
    """
    hints = get_type_hints(cls, localns={**vars(field_types), **vars(request_types)}, include_extras=True)
    described = _field_docstrings(cls)
    if not attrs.has(cls):  # a named tuple is written and read as a whole
        for name in cls._fields:  # type: ignore[attr-defined]
            defaults = cls._field_defaults  # type: ignore[attr-defined]
            default = {"default": defaults[name]} if name in defaults else {}
            yield Field(name, hints[name], True, {"description": described[name], **default})
        return
    for field in attrs.fields(cls):
        keywords = {"description": field.metadata.get("help") or described.get(field.name, "")}
        keywords |= keywords_of(field.validator)
        if field.default is not attrs.NOTHING and field.init:
            keywords |= _plain_default(field.default)
        is_required = field.default is attrs.NOTHING or not field.init
        yield Field(field.metadata.get("key", field.name), hints[field.name], is_required, keywords)


def _plain_default(default: Any) -> dict[str, Any]:
    """Return the keyword `default` of a field; none if it is an object of a class, which has defaults itself."""
    value = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
    if value is None or isinstance(value, str | int | float | dict):
        return {"default": value}
    if isinstance(value, tuple):
        return {"default": list(value)}
    return {"default": str(value)} if type(value).__str__ is not object.__str__ else {}


class Generator:
    """The schema of one kind of document, with the definitions that it needs."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.definitions: dict[str, dict[str, Any]] = {}

    def generate(self) -> dict[str, Any]:
        """Return the JSON schema of the kind of document, as JSON values.

        Raises:
            SystemExit: A field has no docstring, or is a number without bounds; the message names it.
        """
        document = self.document
        head = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": document.id,
            "title": document.name.replace("-", " ").capitalize(),
        }
        if get_origin(document.root) is types.UnionType:
            root = {"description": document.description, **self._by_status(get_args(document.root))}
        else:
            root = self._object(document.root, is_root=True)
        for part in document.parts:
            self._define(_definition_name(part), lambda part=part: self._object(part))
        definitions = {"$defs": dict(sorted(self.definitions.items()))} if self.definitions else {}
        return {**head, **root, **definitions}

    def _by_status(self, classes: Sequence[type]) -> dict[str, Any]:
        """Tell two classes apart by their `status`: an error is then about the class that was meant."""
        (_, second), names = classes, [_definition_name(cls) for cls in classes]
        for name, cls in zip(names, classes, strict=True):
            self._define(name, lambda cls=cls: self._object(cls, is_root=True))
        status = next(field.type for field in fields_of(second) if field.name == "status")
        return {
            "if": {"properties": {"status": {"const": get_args(status)[0]}}, "required": ["status"]},
            "then": {"$ref": f"#/$defs/{names[1]}"},
            "else": {"$ref": f"#/$defs/{names[0]}"},
        }

    def _object(self, cls: type, *, is_root: bool = False) -> dict[str, Any]:
        fields = list(fields_of(cls))
        properties: dict[str, Any] = {}
        required = [field.name for field in fields if field.is_required or self.document.is_complete]
        if is_root and attrs.has(cls):
            properties["schema_version"] = {
                "description": _VERSION,
                **self._type(Version),
                "default": self.document.version,
            }
            required = required if self.document.is_written_by_hand else ["schema_version", *required]
        for field in fields:
            properties[field.name] = merged(self._type(field.type), field.keywords)
            if self.document.is_sparse and properties[field.name].get("default", 0) is None:
                del properties[field.name]["default"]
            if not properties[field.name]["description"]:
                raise SystemExit(f"{cls.__module__}.{cls.__name__}.{field.name} has no docstring.")
            if not _has_bounds(properties[field.name]):
                raise SystemExit(
                    f"{cls.__module__}.{cls.__name__}.{field.name} is a number without bounds; give it a type of "
                    "dlperf_sdk.documents.field_types, such as Count, or Annotated[int, Schema(minimum=…, maximum=…)]."
                )
        return {
            "description": summary(cls),
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def _define(self, name: str, make: Any) -> dict[str, Any]:
        """Return a reference to a definition, which is made with the first."""
        if name not in self.definitions:
            self.definitions[name] = {}  # it holds the place while it is made
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{name}"}

    def _type(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        for other in DOCUMENTS:
            if other is not self.document and kind == other.root:
                return {"$ref": other.id}
            if other is not self.document and kind in get_args(other.root):
                return {"$ref": f"{other.id}#/$defs/{_definition_name(kind)}"}
        if get_origin(kind) is not None:
            return self._generic(get_origin(kind), get_args(kind))
        if attrs.has(kind):
            return self._define(_definition_name(kind), lambda: self._object(kind))
        if kind is Any:
            return {}
        return {"type": _TYPES[kind]}

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the schema of a type with arguments."""
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Literal:
            return (
                {"const": arguments[0]} if len(arguments) == 1 else {"type": "string", "enum": [*arguments]}
            )
        if origin in (Union, types.UnionType):
            kinds = [kind for kind in arguments if not (self.document.is_sparse and kind is type(None))]
            return union([self._type(kind) for kind in kinds])
        if issubclass(origin, Mapping):
            return self._mapping(*arguments)
        return {"type": "array", "items": self._type(arguments[0])}

    def _annotated(self, kind: Any, annotations: Iterable[Any]) -> dict[str, Any]:
        schema: dict[str, Any] | None = None
        for annotation in annotations:
            if isinstance(annotation, WrittenAs):
                schema = self._type(annotation.type)
            elif isinstance(annotation, Schema):
                created = schema

                def make(
                    created: Any = created, keywords: Mapping[str, Any] = annotation.keywords
                ) -> dict[str, Any]:
                    if _STANDALONE & keywords.keys():
                        return dict(keywords)
                    return merged(self._type(kind) if created is None else created, keywords)

                schema = self._define(annotation.name, make) if annotation.name else make()
        return self._type(kind) if schema is None else schema

    def _mapping(self, key: Any, value: Any) -> dict[str, Any]:
        names = {word: item for word, item in self._type(key).items() if word != "type"}
        schema: dict[str, Any] = {"type": "object"}
        if names:
            schema["propertyNames"] = names
        return {**schema, "additionalProperties": self._type(value) or True}


def merged(schema: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new schema with the keywords of `schema` and of `keywords`, which take precedence; description first.

    If `keywords` has `type`, `anyOf` or `$ref`, which replace all that follows from a type, `schema` is ignored.
    """
    schema = {**schema, **keywords} if not _STANDALONE & keywords.keys() else dict(keywords)
    return {**({"description": schema["description"]} if "description" in schema else {}), **schema}


def _has_bounds(schema: Mapping[str, Any]) -> bool:
    """Return False for the schema of a number without a smallest and a largest value."""
    kinds = schema.get("type", ())
    if not {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
        return True
    return "enum" in schema or ("maximum" in schema and bool({"minimum", "exclusiveMinimum"} & schema.keys()))


def union(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of the values that at least one of the given schemas allows.

    It is one schema with several types if that is equivalent, else `anyOf`. `schemas` is not empty.
    """
    if len(schemas) == 1:
        return schemas[0]
    if any(
        "type" not in schema or "enum" in schema or schema["type"] in ("array", "object")
        for schema in schemas
    ):
        return {"anyOf": list(schemas)}
    kinds = [schema["type"] for schema in schemas]
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    actual: dict[str, Any] = {"type": kinds}
    for schema in schemas:
        actual |= {word: value for word, value in schema.items() if word != "type"}
    return actual


def main() -> None:
    """Write the files of the schemas that changed. Each is replaced in one step, since tests may be reading it."""
    for document in DOCUMENTS:
        text = json.dumps(Generator(document).generate(), indent=2, ensure_ascii=False) + "\n"
        path = FOLDER / f"{document.name}.schema.json"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            partial = path.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
