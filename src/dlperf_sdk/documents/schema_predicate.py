"""A JSON Schema as a function: whether a document follows it, and nothing else.

It is what makes thousands of results readable in seconds: most documents are right, and for those that are not,
`jsonschema` says what is wrong. It covers the keywords that our schemas use and refuses all others; the tests hold it
against `jsonschema`, on documents that follow the schemas and on such that do not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Predicate = Callable[[Any], bool]

_SAYING_NOTHING = frozenset({"$schema", "$id", "$defs", "title", "description", "default"})


def compile_schema(
    part: Mapping[str, Any], base: str, documents: Mapping[str, Mapping[str, Any]]
) -> Predicate:
    """Whether a value follows the schema `part`, which stands in the document with the id `base`.

    `documents` are all schemas by their id, for references. A schema must not refer to itself.

    Raises:
        ValueError: the schema has a keyword that is not covered.
    """
    return _Compiler(documents).compiled(part, base)


class _Compiler:
    def __init__(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        self.documents = documents
        self._targets: dict[tuple[str, str], Predicate] = {}

    def compiled(self, part: Mapping[str, Any], base: str) -> Predicate:
        """All keywords of a schema, together."""
        tests: list[Predicate] = []
        words = {word: value for word, value in part.items() if word not in _SAYING_NOTHING}
        for group, make in _GROUPS:
            if group & words.keys():
                tests.append(make(self, words, base))
        unknown = words.keys() - frozenset().union(*(group for group, _ in _GROUPS))
        if unknown:
            raise ValueError(
                f"the schema {base} has keywords that are not covered: {', '.join(sorted(unknown))}"
            )
        return _together(tests)

    def reference(self, words: Mapping[str, Any], base: str) -> Predicate:
        document, _, pointer = words["$ref"].partition("#")
        document = document or base
        at = (document, pointer)
        if at not in self._targets:
            target: Any = self.documents[document]
            for step in pointer.split("/")[1:]:
                target = target[step]
            self._targets[at] = self.compiled(target, document)
        return self._targets[at]

    def kinds(self, words: Mapping[str, Any], base: str) -> Predicate:
        names = words["type"] if isinstance(words["type"], list) else [words["type"]]
        tests = [_TYPES[name] for name in names]
        # Almost always a value is of the very type; a whole number may be a float, and classes have subclasses.
        exact = frozenset(kind for name in names for kind in _EXACT[name])
        return lambda value: type(value) in exact or any(test(value) for test in tests)

    def values(self, words: Mapping[str, Any], base: str) -> Predicate:
        choices = words["enum"] if "enum" in words else [words["const"]]
        if not all(isinstance(choice, str) for choice in choices):
            raise ValueError(f"the schema {base} has an enum or const of something else than texts")
        known = frozenset(choices)
        return lambda value: isinstance(value, str) and value in known

    def bounds(self, words: Mapping[str, Any], base: str) -> Predicate:
        least, most, above = (words.get(word) for word in ("minimum", "maximum", "exclusiveMinimum"))

        def test(value: Any) -> bool:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return True
            return (
                (least is None or value >= least)
                and (most is None or value <= most)
                and (above is None or value > above)
            )

        return test

    def pattern(self, words: Mapping[str, Any], base: str) -> Predicate:
        # As ECMA 262 has it: `$` is the end, where Python's also stands before a last newline.
        search = re.compile(re.sub(r"\$$", r"\\Z", words["pattern"])).search
        return lambda value: not isinstance(value, str) or search(value) is not None

    def items(self, words: Mapping[str, Any], base: str) -> Predicate:
        fewest, most = words.get("minItems", 0), words.get("maxItems")
        each = self.compiled(words["items"], base) if "items" in words else None
        numbers = self._floats(words["items"], base) if "items" in words else None

        def test(value: Any) -> bool:
            if not isinstance(value, list):
                return True
            if len(value) < fewest or (most is not None and len(value) > most):
                return False
            if each is None or not value:
                return True
            if numbers is not None and set(map(type, value)) == {float}:
                # A NaN has no place in a minimum; documents have none, but the function must not depend on it.
                return numbers[0] <= min(value) and max(value) <= numbers[1] and not math.isnan(sum(value))
            return all(map(each, value))

        return test

    def _floats(self, part: Mapping[str, Any], base: str) -> tuple[float, float] | None:
        """Between which bounds a float follows the schema, where that is all there is to it."""
        words = part.keys() - _SAYING_NOTHING
        if words == {"$ref"}:
            document, _, pointer = part["$ref"].partition("#")
            target: Any = self.documents[document or base]
            for step in pointer.split("/")[1:]:
                target = target[step]
            return self._floats(target, document or base)
        if words == {"anyOf"}:
            # Whatever else is allowed is no number.
            branches = [self._floats(each, base) for each in part["anyOf"]]
            found = [branch for branch in branches if branch is not None]
            return found[0] if len(found) == 1 else None
        if words == {"type", "minimum", "maximum"} and part["type"] == "number":
            return part["minimum"], part["maximum"]
        return None

    def members(self, words: Mapping[str, Any], base: str) -> Predicate:
        known = {name: self.compiled(each, base) for name, each in words.get("properties", {}).items()}
        needed = frozenset(words.get("required", ()))
        other = words.get("additionalProperties", True)
        rest = self.compiled(other, base) if isinstance(other, Mapping) else None
        named = self.compiled(words["propertyNames"], base) if "propertyNames" in words else None

        def test(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            if not needed <= value.keys() or (named is not None and not all(map(named, value))):
                return False
            for name, each in value.items():
                check = known.get(name, rest)
                if check is None:
                    if other is False:
                        return False
                elif check is not _anything and not check(each):
                    return False
            return True

        return test

    def choice(self, words: Mapping[str, Any], base: str) -> Predicate:
        branches = [self.compiled(each, base) for each in words["anyOf"]]
        if len(branches) == 2:
            one, other = branches
            return lambda value: one(value) or other(value)
        return lambda value: any(branch(value) for branch in branches)

    def condition(self, words: Mapping[str, Any], base: str) -> Predicate:
        when = self.compiled(words["if"], base)
        then, otherwise = (
            self.compiled(words[word], base) if word in words else _anything for word in ("then", "else")
        )
        return lambda value: then(value) if when(value) else otherwise(value)


def _anything(_: Any) -> bool:
    return True


def _both(one: Predicate, other: Predicate) -> Predicate:
    return lambda value: one(value) and other(value)


def _together(tests: list[Predicate]) -> Predicate:
    """All of them, without a loop: this is where the time goes."""
    if not tests:
        return _anything
    return _both(tests[0], _together(tests[1:])) if len(tests) > 1 else tests[0]


def _whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


_TYPES: dict[str, Predicate] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": _whole,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}

_EXACT: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_GROUPS: tuple[tuple[frozenset[str], Callable[[_Compiler, Mapping[str, Any], str], Predicate]], ...] = (
    (frozenset({"$ref"}), _Compiler.reference),
    (frozenset({"type"}), _Compiler.kinds),
    (frozenset({"const", "enum"}), _Compiler.values),
    (frozenset({"minimum", "maximum", "exclusiveMinimum"}), _Compiler.bounds),
    (frozenset({"pattern"}), _Compiler.pattern),
    (frozenset({"items", "minItems", "maxItems"}), _Compiler.items),
    (frozenset({"properties", "required", "additionalProperties", "propertyNames"}), _Compiler.members),
    (frozenset({"anyOf"}), _Compiler.choice),
    (frozenset({"if", "then", "else"}), _Compiler.condition),
)
"""Keywords that belong together, and what makes a predicate of them."""
