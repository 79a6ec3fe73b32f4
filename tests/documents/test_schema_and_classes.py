"""The schemas and the classes accept the same documents. `make schemas` writes the former from the latter."""

import json
import math
from pathlib import Path

import pytest
import schema_instances
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from result_values import RECORDS, results, specs
from schema_instances import instances

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.schema_messages import EXPECTED
from dlperf_sdk.errors import DlperfError, DocumentError, SpecError
from dlperf_sdk.results import result as res
from dlperf_sdk.results.convert import (
    attempt_from_dict,
    record_from_dict,
    record_to_dict,
    result_from_dict,
    result_to_dict,
    result_to_dict_without_records,
    to_plain,
)
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.request import Request

ROOT = Path(__file__).parents[2]
few = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def subschemas(part):
    """Every schema inside a schema, itself included."""
    yield part
    for keyword in ("properties", "$defs"):
        for one in part.get(keyword, {}).values():
            yield from subschemas(one)
    for keyword in ("items", "additionalProperties", "propertyNames", "if", "then", "else"):
        if isinstance(part.get(keyword), dict):
            yield from subschemas(part[keyword])
    for one in part.get("anyOf", ()):
        yield from subschemas(one)


@pytest.mark.parametrize("name", schema.NAMES)
def test_each_schema_is_valid_and_has_a_title(name):
    document = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["$id"] == f"urn:dlperf-sdk:schema:{name}:1"
    assert document["title"] and document["description"]
    for part in subschemas(document):
        for key, value in part.get("properties", {}).items():
            if "if" not in part and part is not document.get("if"):
                assert value.get("description"), f"{name}: {key} is not described"
        if part.get("type") == "object":
            assert "additionalProperties" in part, f"{name}: {part['description']} is open by accident"
    assert {p.name for p in (ROOT / "schemas").iterdir()} == {f"{one}.schema.json" for one in schema.NAMES}


def assert_agreement(fields, fine, name):
    """Compare the answers of the schema and of the class."""
    for judge in (lambda: schema.check("run-spec", fields), lambda: RunSpec(**fields)):
        if fine:
            judge()
        else:
            with pytest.raises((DocumentError, SpecError), match=name):
                judge()


NUMBERS = ("batch_size", "accumulation", "seed", "warmup", "steps", "repeats", "max_repeats", "target")


@pytest.mark.parametrize("name", NUMBERS)
def test_the_spec_has_the_bounds_of_its_schema(name):
    """Exactly: what random values come near of, but never hit."""
    part = schema.load("run-spec")["properties"][name]
    smallest = 5e-324 if "exclusiveMinimum" in part else part["minimum"]
    below = 0.0 if "exclusiveMinimum" in part else part["minimum"] - 1
    above = math.nextafter(part["maximum"], 2) if name == "target" else part["maximum"] + 1
    besides = {
        "framework": "x",
        "model": "x",
        "protocol": "adaptive",
        "batch_size": part["maximum"],
        "repeats": 1,
    }
    if name != "accumulation":
        del besides["batch_size"]
    for value, fine in ((smallest, True), (part["maximum"], True), (below, False), (above, False)):
        fields = {**besides, name: value}
        if name == "repeats":
            fields["max_repeats"] = 100_000
        assert_agreement(fields, fine, name)


@pytest.mark.parametrize(
    ("phase", "fine"), [(1e9, True), (5e-324, True), (math.nextafter(1e9, 2e9), False), (0, False)]
)
def test_deadlines_have_the_bounds_of_their_schema(phase, fine):
    fields = {"framework": "x", "model": "x", "deadlines": {"start": phase}}
    assert_agreement(fields, fine, "start")


def test_the_wording_covers_every_keyword():
    """A keyword that an error message has no words for would be a KeyError in front of a user."""
    worded = {*EXPECTED, "required", "additionalProperties", "pattern"}
    structure = schema_instances.ANNOTATIONS | {
        *("properties", "items", "propertyNames", "$ref", "if", "then", "else")
    }
    for name in schema.NAMES:
        for part in subschemas(schema.load(name)):
            assert set(part) <= worded | structure


# -- from a value to a document, and back; compared as printed, because NaN does not equal itself


@few
@given(specs())
def test_every_spec_is_a_valid_document(spec):
    document = json.loads(json.dumps(spec.to_dict(), allow_nan=False))
    schema.check("run-spec", document)
    assert RunSpec.from_dict(document) == spec


@few
@given(RECORDS)
def test_every_record_is_a_valid_document(record):
    document = json.loads(json.dumps(record_to_dict(record), allow_nan=False))
    assert repr(record_from_dict(document)) == repr(record)


@pytest.mark.long
@few
@given(results())
def test_every_result_is_a_valid_document(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert repr(res.Result.from_dict(document)) == repr(result)


# -- from a document to a value, and back


def completed(document, value):
    """A document as it is written again: with the defaults of what was left out, in our version."""
    return {**value, **{key: item for key, item in document.items() if key != "schema_version"}}


@few
@given(instances("run-spec"))
def test_every_valid_document_is_a_spec(document):
    """But for the rules between fields, which no schema states."""
    schema.check("run-spec", document)
    try:
        spec = RunSpec.from_dict(document)
    except SpecError as error:
        assert any(word in str(error) for word in ("micro-batches", "adaptive", "max_repeats", "is max")), (
            error
        )
        return
    again = spec.to_dict()
    schema.check("run-spec", again)
    expected = completed(document, again)
    expected["topology"] = again["topology"]  # `1n1d@local` is written `1n1d`
    assert again == expected
    assert document.get("topology", "1n1d").removesuffix("@local") == again["topology"]


@few
@given(instances("worker-request"))
def test_every_valid_document_is_a_request(document):
    schema.check("worker-request", document)
    request = Request.from_dict(document)
    assert request.to_dict() == document


@few
@given(instances("worker-record"))
def test_every_valid_document_is_a_record(document):
    schema.check("worker-record", document)
    try:
        record = record_from_dict(document)
    except DocumentError as error:
        assert document["status"] == "failed" or "does not lie after" in str(error)
        return
    again = record_to_dict(record)
    schema.check("worker-record", again)
    assert again == completed(document, again)


def without_versions(value):
    """Return a document without the versions, of which this writer writes its own."""
    if isinstance(value, dict):
        return {key: without_versions(item) for key, item in value.items() if key != "schema_version"}
    return [without_versions(item) for item in value] if isinstance(value, list) else value


@few
@given(instances("result"))
def test_every_valid_document_is_a_result(document):
    schema.check("result", document)
    try:
        result = result_from_dict(document)
    except DlperfError as error:
        assert isinstance(error, DocumentError)
        assert any(w in str(error) for w in ("contradicts itself", "does not lie after", "$.spec")), error
        return
    beside = result_to_dict_without_records(result)
    schema.check("result", beside)
    if document["repeats"] and not isinstance(document["repeats"][0], dict):
        assert beside["repeats"] == document["repeats"]
        with pytest.raises(DocumentError, match="not in this document"):
            result_to_dict(result)
        return
    again = result_to_dict(result)
    schema.check("result", again)
    assert repr(result_from_dict(again)) == repr(result)
    for key in ("id", "status", "facts", "verdicts", "hardware", "workload", "stopping", "environment"):
        assert again[key] == document[key]
    assert without_versions([repeat["records"] for repeat in again["repeats"]]) == without_versions(
        [repeat["records"] for repeat in document["repeats"]]
    )


@few
@given(instances("result", "attempt"))
def test_every_valid_document_is_an_attempt(document):
    try:
        attempt = attempt_from_dict({**document, "event": "attempt-ended", "logs": []})
    except DocumentError as error:
        assert any(w in str(error) for w in ("contradicts itself", "does not lie after", "status is 'ok'")), (
            error
        )
        return
    assert attempt.repeat.attempt == attempt.attempt
    schema.check("result", to_plain(attempt), "attempt")
    assert len(attempt.records) == sum(record["status"] == "ok" for record in document["records"])
