"""The validator that decides accepts exactly what the one that explains accepts."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_instances import FREE, instances

from dlperf_sdk.documents import schema, validators
from dlperf_sdk.documents.validators import deciding_validator, explaining_validator
from dlperf_sdk.errors import DocumentError

pytestmark = pytest.mark.long


def exhaustive_validator(root, schemas):
    """A validator that looks at all items and values itself."""
    return validators._make_validator(root, schemas, {"pattern": validators._pattern})


few = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def paths_in(value, path=()):
    """Yield the path of every value in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths_in(inner, (*path, key))


def parent_of(document, path):
    for key in path[:-1]:
        document = document[key]
    return document


def replace(document, path, value):
    if not path:
        return value
    changed = copy.deepcopy(document)
    parent_of(changed, path)[path[-1]] = value
    return changed


def remove(document, path):
    changed = copy.deepcopy(document)
    del parent_of(changed, path)[path[-1]]
    return changed


def assert_agreement(name, document):
    """Compare the two validators on a document, and return their common answer."""
    schemas = [*schema._schemas().values()]
    explained = exhaustive_validator(schema._schemas()[name], schemas).is_valid(document)
    assert schema.load_explaining_validator(name).is_valid(document) == explained
    assert schema.is_valid(name, document) == explained
    return explained


ODD_VALUES = st.sampled_from(
    [
        *(-1, 0, 1.0, 1.5, 2**63, 2**70, -1e300, 1e300, 1.7976931348623157e308),
        "",
        "a\n",
        "a\0",
        "é",
        True,
        "\ud800",
    ]
    + [[], [1.5, 2.5], {}, None]
)


@pytest.mark.parametrize("name", schema.NAMES)
@few
@given(data=st.data())
def test_validators_agree_on_valid_and_invalid_documents(name, data):
    document = data.draw(instances(name))
    assert assert_agreement(name, document)
    paths = list(paths_in(document))
    path = paths[data.draw(st.integers(0, len(paths) - 1))]
    assert_agreement(name, replace(document, path, data.draw(FREE | ODD_VALUES)))
    if path:
        assert_agreement(name, remove(document, path))


def patterns_in(part):
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from patterns_in(inner)


PATTERNS = sorted({pattern for name in schema.NAMES for pattern in patterns_in(schema.load(name))})


@pytest.mark.parametrize("pattern", PATTERNS)
@few
@given(data=st.data())
def test_the_regular_expression_engines_agree(pattern, data):
    """A last newline, a null character and a letter beyond ASCII are where engines differ."""
    text = data.draw(st.from_regex(pattern.removesuffix("$") + r"\Z") | st.text(max_size=20))
    part = {"type": "string", "pattern": pattern}
    validators = deciding_validator(part, ()), explaining_validator(part, [])
    at = data.draw(st.integers(0, len(text)))
    for value in (text, f"{text}\n", f"\n{text}", *(text[:at] + char + text[at:] for char in "\n\0\u2028é٣")):
        decided, explained = (validator.is_valid(value) for validator in validators)
        assert decided == explained, json.dumps(value)


def test_validators_agree_across_references_to_other_documents():
    """The explaining one would match with Python's `$` there, and take a name that ends in a newline."""
    schemas = [schema.load(name) for name in schema.NAMES]
    root = {"$ref": schema.load("run-spec")["$id"]}
    for compiler, expected in (("none", True), ("none\n", False)):
        spec = {"framework": "torch", "model": "resnet50", "compiler": compiler}
        for validator in (deciding_validator(root, schemas), explaining_validator(root, schemas)):
            assert validator.is_valid(spec) == expected


def test_every_invalid_document_has_an_explanation():
    """A document that only one validator refuses would be accepted in silence, or refused without a reason."""
    for name in schema.NAMES:
        with pytest.raises(DocumentError, match="is not valid at"):
            schema.check(name, {"schema_version": "1.0"})
