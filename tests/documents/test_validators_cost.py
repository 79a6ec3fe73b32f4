"""An explanation looks at a few invalid parts of a document, whatever its size."""

import sys

import pytest

from dlperf_sdk.documents import diagnostics, schema, schema_messages, validators
from dlperf_sdk.errors import DocumentError, UnknownName

VERDICT = {"name": "parity", "kind": "integrity", "outcome": "pass", "detail": "It is."}


def lists_of(length, last):
    """Return a worker's record with a long list, whose last item may be invalid."""
    return {"schema_version": "1.0", "step_times": [*[0.5] * length, last], "samples": [1] * length}


def calls(function, *arguments):
    """Return the number of calls of Python functions that a call takes."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(trace)
    try:
        function(*arguments)
    except DocumentError:
        pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("result", lambda n: {"schema_version": "1.0", "verdicts": [VERDICT] * n}),
        ("result", lambda n: {"schema_version": "1.0", "verdicts": [None] * n}),
        ("result", lambda n: {"schema_version": "1.0", "facts": ["x"] * n}),
        ("worker-record", lambda n: lists_of(n, "x")),
        ("worker-record", lambda n: lists_of(n, None)),
        ("parity-record", lambda n: {"gradients": {f"k{i}": [1] for i in range(n)}}),
    ],
)
def test_a_long_list_costs_no_more_than_a_short_one(name, make):
    schema.load_explaining_validator(name)
    with pytest.raises(DocumentError):
        schema.check(name, make(3))
    few, many = (calls(schema.check, name, make(n)) for n in (1_000, 20_000))
    assert many < 1.1 * few + 3 * 20_000  # the values of an object are passed through generators
    assert many < 100_000


def test_a_name_is_suggested_for_few_keys(monkeypatch):
    """Of 80,000 unknown keys, ten are shown."""
    compared = []
    monkeypatch.setattr(
        schema_messages.difflib, "get_close_matches", lambda *a, **k: compared.append(a) or []
    )
    document = {"framework": "numpy", "model": "linear", **{f"k{i}": 1 for i in range(80_000)}}
    errors = schema.list_errors("run-spec", document)
    assert len(errors) == len(compared) == validators.MOST_ERRORS
    assert diagnostics.join_errors(map(str, errors)).endswith("\nAnd more.")


def test_wrong_items_are_listed_up_to_a_number():
    document = {"name": "x", "axes": {"seed": ["x"] * 100_000}}
    assert 10 < len(schema.list_errors("campaign", document)) <= validators.MOST_ERRORS


def test_half_of_a_surrogate_pair_hides_no_invalid_item():
    wrong = {"schema_version": "1.0", "name": "x", "extends": [*["\ud800"] * 500, None]}
    assert not schema.is_valid("campaign", wrong)
    with pytest.raises(DocumentError, match=r"\$\.extends\[500\]: expected a text; found None"):
        schema.check("campaign", wrong)
    assert schema.is_valid("campaign", {**wrong, "extends": ["\ud800"]})


def test_the_message_about_an_unknown_name_is_short():
    assert len(str(UnknownName("precision", "x" * 10**6, ["fp32"]))) < 200
