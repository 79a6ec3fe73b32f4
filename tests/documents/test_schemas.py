"""The schemas and the classes say the same: in what they are made of, and in what they accept."""

import json
import math
from pathlib import Path

import attrs
import pytest
import schema_instances
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from result_values import RECORDS, results, specs
from schema_instances import instances

from dlperf_sdk.campaigns.file import CAMPAIGN_VERSION
from dlperf_sdk.documents import schema
from dlperf_sdk.documents.schema_messages import EXPECTED
from dlperf_sdk.errors import FAILURES, DlperfError, DocumentError, SpecError
from dlperf_sdk.interfaces.figure import FIGURE_VERSION
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.parity.record import PARITY_VERSION, Follower, ParityRecord
from dlperf_sdk.parity.reference import (
    REFERENCE_VERSION,
    Mistake,
    Reference,
    ReferenceCase,
    Tolerance,
    Trajectory,
)
from dlperf_sdk.results import records as r
from dlperf_sdk.results import result as res
from dlperf_sdk.results.convert import (
    Attempt,
    attempt_from_dict,
    record_from_dict,
    record_to_dict,
    result_from_dict,
    result_to_dict,
    result_to_dict_beside,
    to_plain,
)
from dlperf_sdk.results.records import RECORD_VERSION
from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.spec.run_spec import SPEC_VERSION, RunSpec
from dlperf_sdk.spec.values import PHASES
from dlperf_sdk.worker import trainer
from dlperf_sdk.worker.request import REQUEST_VERSION, Request

ROOT = Path(__file__).parents[2]
few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


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
def test_each_schema_is_a_schema_and_says_what_it_is(name):
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


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("run-spec", SPEC_VERSION),
        ("worker-request", REQUEST_VERSION),
        ("worker-record", RECORD_VERSION),
        ("result", res.RESULT_VERSION),
        ("published", FIGURE_VERSION),
        ("campaign", CAMPAIGN_VERSION),
        ("parity-record", PARITY_VERSION),
        ("parity-record", trainer.PARITY_VERSION),
        ("reference", REFERENCE_VERSION),
    ],
)
def test_the_schema_knows_the_version_that_is_written(name, version):
    assert schema.version(name) == version


def definition(name, *steps):
    part = schema.load(name)
    for step in steps:
        part = part[step]
    return part


HEAD = {"schema_version", "status", "failure"}


@pytest.mark.parametrize(
    ("part", "cls", "besides"),
    [
        (definition("result"), res.Result, {"schema_version"}),
        (definition("result", "$defs", "failure"), r.Failure, set()),
        (definition("result", "$defs", "fact"), res.Fact, set()),
        (definition("result", "$defs", "metric"), Metric, set()),
        (definition("result", "$defs", "verdict"), res.Verdict, set()),
        (definition("result", "$defs", "parity"), res.Parity, set()),
        (definition("parity-record"), ParityRecord, HEAD),
        (definition("parity-record", "$defs", "replica"), Follower, set()),
        (definition("reference"), Reference, {"schema_version"}),
        (definition("reference", "$defs", "tolerance"), Tolerance, set()),
        (definition("reference", "$defs", "case"), ReferenceCase, set()),
        (definition("reference", "$defs", "trajectory"), Trajectory, set()),
        (definition("reference", "$defs", "mistake"), Mistake, set()),
        (definition("result", "$defs", "series"), r.Series, set()),
        (definition("result", "$defs", "exit"), r.Exit, set()),
        (definition("result", "$defs", "repeat"), r.Repeat, set()),
        (definition("result", "$defs", "attempt"), Attempt, set()),
        (definition("result", "$defs", "stopping"), res.Stopping, set()),
        (definition("result", "$defs", "imported"), res.Imported, set()),
        (definition("result", "$defs", "source"), res.Source, set()),
        (definition("result", "$defs", "environment"), res.Environment, set()),
        (definition("result", "$defs", "workload"), res.Workload, set()),
        (definition("worker-record", "$defs", "record"), r.Record, HEAD),
        (definition("worker-record", "$defs", "record", "properties", "window"), r.Window, set()),
        (definition("worker-record", "$defs", "replica"), r.Replica, set()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_schema_has_the_fields_of_its_class(part, cls, besides):
    """By name, and in what must be there. Repeat's tuples have defaults, but a writer writes everything."""
    fields = attrs.fields(cls)
    assert set(part["properties"]) == {field.name for field in fields} | besides
    mandatory = {field.name for field in fields if field.default is attrs.NOTHING} | besides
    if cls is not r.Repeat:
        assert set(part["required"]) == mandatory
    assert mandatory <= set(part["required"])
    for field in fields:
        nullable = "None" in str(field.type) or str(field.type).endswith("Any")
        assert accepts_null(part["properties"][field.name]) == nullable, field.name


def accepts_null(part):
    if "anyOf" in part:
        return any(accepts_null(one) for one in part["anyOf"])
    return "null" in part.get("type", ()) or set(part) == {"description"}


def test_the_run_spec_has_the_fields_of_its_schema_and_their_defaults():
    document = schema.load("run-spec")
    fields = {field.name: field for field in attrs.fields(RunSpec)}
    assert list(document["properties"]) == ["schema_version", *fields]
    assert document["required"] == [name for name, field in fields.items() if field.default is attrs.NOTHING]
    written = RunSpec(framework="torch", model="resnet50").to_dict()
    for name, part in document["properties"].items():
        if name not in document["required"]:
            assert part["default"] == written[name]
    assert document["properties"]["protocol"]["enum"] == list(PROTOCOLS)
    assert list(document["properties"]["deadlines"]["properties"]) == list(PHASES)


def judged_alike(fields, fine, name):
    """By the schema and by the class."""
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
        judged_alike(fields, fine, name)


@pytest.mark.parametrize(
    ("phase", "fine"), [(1e9, True), (5e-324, True), (math.nextafter(1e9, 2e9), False), (0, False)]
)
def test_deadlines_have_the_bounds_of_their_schema(phase, fine):
    fields = {"framework": "x", "model": "x", "deadlines": {"start": phase}}
    judged_alike(fields, fine, "start")


def test_the_request_has_the_fields_of_its_schema():
    document = schema.load("worker-request")
    assert set(document["properties"]) == set(document["required"]) == set(Request._fields)
    assert set(document["properties"]["deadlines"]["required"]) == set(PHASES)


def test_failures_have_the_kinds_of_the_exceptions():
    assert definition("result", "$defs", "failure", "properties", "kind", "enum") == list(FAILURES)
    assert definition("result", "properties", "status", "enum") == ["ok", *FAILURES]
    failed = definition("worker-record", "$defs", "failed", "properties")
    assert failed["failure"]["properties"]["kind"]["enum"] == list(FAILURES)
    assert definition("result", "$defs", "real") == definition("worker-record", "$defs", "real")


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
        assert any(word in str(error) for word in ("micro-batches", "adaptive", "max_repeats")), error
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
    assert again == {**document, "schema_version": RECORD_VERSION}


def normal(value):
    """A document with what may be left out, and with the versions that this writer writes."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items() if key != "schema_version"}
    return [normal(item) for item in value] if isinstance(value, list) else value


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
    beside = result_to_dict_beside(result)
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
    assert normal([repeat["records"] for repeat in again["repeats"]]) == normal(
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
