"""A schema as a function says what `jsonschema` says: of documents that follow it, and of such that do not."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_instances import FREE, instances

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.schema_predicate import compile_schema

few = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def places(value, path=()):
    """Every place in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def changed(document, path, value):
    if not path:
        return value
    copied = copy.deepcopy(document)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


def alike(name, document):
    fine = schema._validator(name, "").is_valid(document)
    assert schema._follows(name, "")(document) == fine
    return fine


@pytest.mark.parametrize("name", schema.NAMES)
@few
@given(data=st.data())
def test_they_agree_on_documents_right_and_wrong(name, data):
    document = data.draw(instances(name))
    assert alike(name, document)
    found = list(places(document))
    path = found[data.draw(st.integers(0, len(found) - 1))]
    other = data.draw(
        FREE
        | st.sampled_from([-1, 0, 1.0, 1.5, 2**70, -1e300, 1e300, "", "a\n", True, [], [1.5, 2.5], {}, None])
    )
    alike(name, changed(document, path, other))
    if path:
        copied = copy.deepcopy(document)
        inner = copied
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        alike(name, copied)


@pytest.mark.parametrize(
    ("part", "right", "wrong"),
    [
        ({"type": "integer"}, [1, 1.0, "x"][:2], [True, 1.5, "1", None]),
        ({"type": "number", "minimum": 0, "maximum": 1}, [0, 0.5, 1], [-0.1, 2, True]),
        ({"type": "string", "pattern": "^a$"}, ["a"], ["a\n", "b", 1]),
        ({"type": ["integer", "null"], "minimum": 3}, [None, 3], [2, "x"]),
        ({"const": "x"}, ["x"], ["y", 1]),
        (
            {
                "type": "array",
                "items": {"type": "number", "minimum": 0, "maximum": 9},
                "minItems": 1,
                "maxItems": 2,
            },
            [[1.5], [1, 2.5]],
            [[], [9.5], [float("nan")], [1.0, 2.0, 3.0], ["1"], {}],
        ),
        ({"if": {"type": "string"}, "then": {"const": "a"}, "else": {"type": "null"}}, ["a", None], ["b", 1]),
        (
            {"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": {"const": "x"}},
            [{"ab": "x"}],
            [{"b": "x"}, {"a": 1}],
        ),
    ],
)
def test_each_keyword(part, right, wrong):
    follows = compile_schema(part, "here", {"here": part})
    assert all(map(follows, right))
    assert not any(map(follows, wrong))


@pytest.mark.parametrize(
    "part", [{"uniqueItems": True}, {"type": "array", "items": {"allOf": []}}, {"enum": [1]}]
)
def test_a_keyword_that_is_not_covered_is_refused(part):
    with pytest.raises(ValueError, match="the schema here"):
        compile_schema(part, "here", {"here": part})
