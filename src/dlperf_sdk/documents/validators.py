"""Two validators for a JSON Schema: one that decides quickly, and one that lists errors.

Each imports its library when it is first needed: start-up time matters, and most documents are valid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from dlperf_sdk.documents.json_values import LARGEST_FLOAT, format_value

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema import Draft202012Validator, ValidationError

Schema = dict[str, Any]


MOST_ERRORS = 100
"""Maximum number of errors that are listed of a document, and of the parts of one list or object."""


def deciding_validator(root: Schema, schemas: Iterable[Schema]) -> jsonschema_rs.Draft202012Validator:
    """Return a fast validator, which decides whether plain data is valid and does not list errors.

    It does not check that floats are within the range of a double, because floats in plain data always are.

    Args:
        root: The schema.
        schemas: The schemas that `root` may refer to by `$id`.
    """
    import jsonschema_rs

    registry = jsonschema_rs.Registry([(schema["$id"], _drop_float_range(schema)) for schema in schemas])
    return jsonschema_rs.Draft202012Validator(_drop_float_range(root), registry=registry)


def decide(validator: jsonschema_rs.Draft202012Validator, value: Any) -> bool:
    """Return True if a value is valid, according to a deciding validator."""
    try:
        return validator.is_valid(value)
    except UnicodeEncodeError:  # half of a surrogate pair: JSON allows it, the fast validator does not
        return validator.is_valid(_replace_surrogates(value))


def _replace_surrogates(value: Any) -> Any:
    """Return plain data with another character, which no schema distinguishes, for each half of a surrogate pair."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, list) else value


def _drop_float_range(schema: Any) -> Any:
    """Return a schema without the range of floats, which no plain data leaves: 30 times faster for lists of floats."""
    if isinstance(schema, list):
        return [_drop_float_range(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _drop_float_range(part)
        for key, part in schema.items()
        if not (key in ("minimum", "maximum") and isinstance(part, float) and abs(part) == LARGEST_FLOAT)
    }


def explaining_validator(root: Schema, schemas: Sequence[Schema]) -> Draft202012Validator:
    """Return a validator that lists the errors of a document.

    Of the items of a list, and of the values of an object, it examines only invalid ones, at most `MOST_ERRORS` (100).
    A deciding validator finds them.

    Args:
        root: The schema.
        schemas: The schemas that `root` may refer to by `$id`.
    """
    return _make_validator(root, schemas, {"pattern": _pattern, **_Choice(schemas).keywords()})


def _make_validator(
    root: Schema, schemas: Sequence[Schema], keywords: Mapping[str, Any]
) -> Draft202012Validator:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    # At a reference to a schema that names its dialect, jsonschema would switch to its own class.
    parts = ({key: part for key, part in schema.items() if key != "$schema"} for schema in schemas)
    resources = [(schema["$id"], DRAFT202012.create_resource(schema)) for schema in parts]
    extend: Any = validators.extend
    validator: type[Draft202012Validator] = extend(Draft202012Validator, keywords)
    return validator(root, registry=Registry().with_resources(resources))


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Match as ECMA 262 does, where `$` matches only at the end; in Python it also matches before a last newline."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError(f"{format_value(instance)} does not match {pattern!r}")


class _Choice:
    """Keywords of JSON Schema for lists and objects that look at a few invalid parts of a document only.

    Results have millions of items, and a validator that lists errors takes some 50 µs for each.
    """

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self._schemas = schemas
        self._deciding: dict[tuple[str, int], jsonschema_rs.Draft202012Validator] = {}

    def keywords(self) -> dict[str, Any]:
        return {
            "items": self._items,
            "additionalProperties": self._additional_properties,
            "propertyNames": self._property_names,
            "maxItems": self._max_items,
        }

    def _items(self, validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        # A list that is too long is reported as such.
        if isinstance(instance, list) and len(instance) <= schema.get("maxItems", math.inf):
            for index in self._invalid(validator, part, enumerate(instance)):
                yield from validator.descend(instance[index], part, path=index)

    def _max_items(self, validator: Any, limit: int, instance: Any, schema: Any) -> Iterator[ValidationError]:
        from jsonschema import ValidationError

        if isinstance(instance, list) and len(instance) > limit:
            yield ValidationError(f"a list of {len(instance)} items is too long")

    def _additional_properties(
        self, validator: Any, part: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        from jsonschema import ValidationError

        if not isinstance(instance, dict):
            return
        extra = ((key, value) for key, value in instance.items() if key not in schema.get("properties", {}))
        if isinstance(part, dict):
            for key in self._invalid(validator, part, extra):
                yield from validator.descend(instance[key], part, path=key)
        elif part is False and next(extra, None) is not None:
            yield ValidationError("there are unknown keys")

    def _property_names(
        self, validator: Any, part: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for key in self._invalid(validator, part, ((key, key) for key in instance)):
                yield from validator.descend(instance=key, schema=part)

    def _invalid(self, validator: Any, part: Schema, values: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
        """Yield the keys of the first values that break a part of a schema."""
        low, high = _bounds(validator, part)
        is_valid = self._decide(validator._resolver._base_uri, part)
        invalid = (
            key
            for key, value in values
            if not (type(value) is float and low <= value <= high) and not is_valid(value)
        )
        return islice(invalid, MOST_ERRORS)

    def _decide(self, base: str, part: Schema) -> Callable[[Any], bool]:
        """Return a function that decides whether a value follows a part of the schema whose `$id` is `base`."""
        key = base, id(part)
        if key not in self._deciding:
            self._deciding[key] = deciding_validator(_absolute(part, base), self._schemas)
        return partial(decide, self._deciding[key])


def _absolute(part: Any, base: str) -> Any:
    """Return a part of the schema whose `$id` is `base`, with references that are valid anywhere."""
    if isinstance(part, list):
        return [_absolute(item, base) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: base + item if key == "$ref" and item.startswith("#") else _absolute(item, base)
        for key, item in part.items()
    }


def _bounds(validator: Any, items: Schema) -> tuple[float, float]:
    """Return the interval in which every float satisfies the schema `items`; an empty one if there is more to it."""
    keywords = set(items) - {"description"}
    if keywords == {"$ref"}:
        resolved = validator._resolver.lookup(items["$ref"])
        return _bounds(validator, resolved.contents)
    if keywords == {"anyOf"}:  # a number, or a text such as "nan"
        return _bounds(validator, items["anyOf"][0])
    if keywords == {"type", "minimum", "maximum"} and items["type"] == "number":
        return items["minimum"], items["maximum"]
    return math.inf, -math.inf
