"""Hypothesis strategies from the JSON Schemas: what a stranger could write who has nothing but the schema.

Covers the keywords that our schemas use, and refuses the others, so that a new one cannot be missed.
"""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from dlperf_sdk.documents import schema

ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "expected", "$defs"}
FREE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@cache
def instances(name: str, part: str = "") -> st.SearchStrategy[Any]:
    """Documents that the schema `name` (or its `$defs/part`) describes."""
    whole = schema.load(name)
    return _of(whole["$defs"][part] if part else whole, whole)


def resolve(reference: str, whole: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema that a reference names, and the document it is in."""
    uri, _, pointer = reference.partition("#")
    if uri:
        whole = schema.load(uri.removeprefix("urn:dlperf-sdk:schema:").removesuffix(":1"))
    target = whole
    for step in pointer.strip("/").split("/") if pointer else ():
        target = target[step]
    return target, whole


def _of(part: dict[str, Any], whole: dict[str, Any]) -> st.SearchStrategy[Any]:
    keywords = set(part) - ANNOTATIONS
    if not keywords:
        return FREE
    if keywords == {"$ref"}:
        return _of(*resolve(part["$ref"], whole))
    if keywords == {"if", "then", "else"}:
        return _of(part["then"], whole) | _of(part["else"], whole)
    if keywords == {"anyOf"}:
        return st.one_of([_of(one, whole) for one in part["anyOf"]])
    if "const" in part:
        return st.just(part["const"])
    if "enum" in part:
        return st.sampled_from(part["enum"])
    types = part["type"] if isinstance(part["type"], list) else [part["type"]]
    return st.one_of([_TYPES[one](part, whole) for one in types])


def _string(part: dict[str, Any], _: Any) -> st.SearchStrategy[str]:
    # Hypothesis reads `$` as Python does, which lets a last newline pass; the schemas mean the end.
    pattern = part.get("pattern")
    return st.from_regex(pattern.removesuffix("$") + r"\Z") if pattern else st.text(max_size=12)


def _number(part: dict[str, Any], _: Any) -> st.SearchStrategy[float]:
    least = part.get("minimum", part.get("exclusiveMinimum"))
    strict = "exclusiveMinimum" in part
    floats = st.floats(least, part["maximum"], exclude_min=strict)
    whole = st.integers(max(int(least), -(10**20)) + strict, min(int(part["maximum"]), 10**20))
    # A number is a double to whoever reads JSON: one that is none cannot come back as it was.
    return floats | whole.filter(lambda value: int(float(value)) == value)


def _object(part: dict[str, Any], whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    extra = part.get("additionalProperties")
    if "properties" not in part:
        names = _string(part.get("propertyNames", {}), whole)
        return st.dictionaries(names, FREE if extra is True else _of(extra, whole), max_size=3)
    properties = {name: _of(value, whole) for name, value in part["properties"].items()}
    required = {name: properties.pop(name) for name in part.get("required", ())}
    known = st.fixed_dictionaries(required, optional=properties)
    if extra is not False:
        assert extra is not None, part
        more = st.dictionaries(st.text(max_size=8), FREE if extra is True else _of(extra, whole), max_size=2)
        # What is optional and was not drawn must not come in as something else.
        return st.builds(
            lambda one, other: {**{k: v for k, v in other.items() if k not in part["properties"]}, **one},
            known,
            more,
        )
    return known


def _array(part: dict[str, Any], whole: dict[str, Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(
        _of(part["items"], whole), min_size=part.get("minItems", 0), max_size=max(2, part.get("minItems", 0))
    )


_TYPES = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": lambda part, _: st.integers(part["minimum"], part["maximum"]),
    "number": _number,
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
}
