"""What `check` says, and how documents are read: strictly, as data, and without harm."""

import contextlib
import json
import os
import subprocess
import sys
import time
import tracemalloc

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlperf_sdk.documents import reading, schema
from dlperf_sdk.documents.json_values import DEEPEST, check_plain, format_value
from dlperf_sdk.documents.reading import LARGEST_RESULT, LARGEST_SPEC, load_document, parse_json
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.spec.run_spec import RunSpec

SPEC = {"schema_version": "1.0", "framework": "torch", "model": "resnet50"}


def said(document, name="run-spec", part=""):
    with pytest.raises(DocumentError) as error:
        schema.check(name, document, part)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"batch_size": 0}, "$.batch_size:", ["expected a whole number from 1, or max; found 0"]),
        ({"batch_size": True}, "$.batch_size:", ["expected a whole number from 1, or max; found True"]),
        ({"batch_size": "many"}, "$.batch_size:", ["expected a whole number from 1, or max; found 'many'"]),
        ({"batch_size": 1.5}, "$.batch_size:", ["expected a whole number from 1, or max; found 1.5"]),
        ({"batch_size": 2**40}, "$.batch_size:", ["or less"]),
        ({"seed": -1}, "$.seed:", ["0 or more"]),
        ({"topology": "0n1d"}, "$.topology:", ["NODESnDEVICESd", "'0n1d'"]),
        ({"topology": "2x8"}, "$.topology:", ["NODESnDEVICESd", "'2x8'"]),
        ({"protocol": "quik"}, "$.protocol:", ["did you mean 'quick'"]),
        ({"bach_size": 1}, "$:", ["'bach_size' is not a known key", "did you mean 'batch_size'"]),
        ({"deadlines": {"strt": 1}}, "$.deadlines:", ["did you mean 'start'"]),
        ({"deadlines": {"start": 0}}, "$.deadlines.start:", ["more than 0", "found 0"]),
        ({"env": {"A": 1}}, "$.env.A:", ["a text or null", "found 1"]),
        ({"env": {"A B": "x"}}, "$.env:", ["'A B'"]),
        ({"framework": "torch\n"}, "$.framework:", ["expected a name (lower-case"]),
        ({"framework": None}, "$.framework:", ["a text", "found None"]),
        ({"options": {"x": [1]}}, "$.options.x:", ["a text or a number"]),
    ],
)
def test_error_names_place_expected_and_actual_value(change, path, words):
    message = said({**SPEC, **change})
    assert path in message
    for word in words:
        assert word in message


def _parts_with_patterns(part):
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from _parts_with_patterns(inner)


def test_every_pattern_is_explained_in_words():
    parts = [part for name in schema.NAMES for part in _parts_with_patterns(schema.load(name))]
    assert len({part["pattern"] for part in parts}) > 20
    for part in parts:
        assert part["expected"] and not set("^[") & set(part["expected"]), part


def test_missing_keys_are_named():
    assert "'framework', 'model' must be there" in said({"schema_version": "1.0"})


def test_the_path_leads_into_lists():
    result = {"attempt": 1, "records": [], "series": [{"node": 0}], "exits": []}
    message = said(result, "result", "repeat")
    assert "The repeat is not valid at $.series[0]: 'name', 'device'" in message


def test_a_failed_record_is_judged_as_one():
    record = {"schema_version": "1.0", "status": "failed", "failure": {"kind": "crashd"}, "request": "r"}
    assert "'attempt', 'rank', 'node' must be there" in said(record, "worker-record")


def test_long_actual_values_are_shortened():
    assert len(said({**SPEC, "batch_size": "x" * 10**6})) < 300
    assert len(said({**SPEC, "batch_size": list(range(10**5))})) < 300


@pytest.mark.parametrize("number", [1, 1.0, 99])
def test_a_version_is_text(number):
    with pytest.raises(DocumentError, match=r'schema_version [0-9.]+; write it as text: "1\.'):
        schema.check("run-spec", {"framework": "torch", "model": "resnet50", "schema_version": number})


def test_a_newer_version_asks_for_an_update():
    expected = "The run spec is of version 2.0, this dlperf-sdk reads 1.x: update it."
    assert said({**SPEC, "schema_version": "2.0", "unheard_of": 1}) == expected
    assert "this dlperf-sdk reads 1.x only" in said({**SPEC, "schema_version": "0.9"})
    assert "$.schema_version" in said({**SPEC, "schema_version": "1.0 or so"})


def test_newer_minor_version_with_known_keys_is_read():
    schema.check("run-spec", {**SPEC, "schema_version": "1.7"})
    assert "It is of version 1.7, this dlperf-sdk writes 1.0" in said(
        {**SPEC, "schema_version": "1.7", "new": 1}
    )
    assert "version 1.7" not in said({**SPEC, "schema_version": "1.7", "batch_size": 0})


def refused(document):
    """What a spec made of Python values is refused with."""
    with pytest.raises(DocumentError) as caught:
        RunSpec.from_dict(document)
    return str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**5000], ids=["nan", "inf", "endless"])
def test_numbers_that_no_document_holds(number):
    refused({**SPEC, "options": {"x": number}})


def test_whole_numbers_end_with_the_floats():
    largest = int(sys.float_info.max)
    check_plain({"x": largest, "y": -largest}, "The options")
    for number in (largest + 1, -largest - 1):
        assert "a whole number of 1024 bits" in refused({**SPEC, "options": {"x": number}})


def test_values_that_are_not_json():
    for value in ({1: 2}, (1, 2), {"x": object()}, b"x", {1}):
        refused({**SPEC, "options": value})
    deep = []
    for _ in range(10_000):
        deep = [deep]
    assert "nested" in refused({**SPEC, "options": deep})


def test_shown_survives_everything():
    class Rude:
        def __repr__(self):
            return "r" * 10**6

    for value in (10**5000, "x" * 10**6, Rude(), [[[[[]]]]], {"a": "b" * 500}):
        assert len(format_value(value)) <= 100


@pytest.mark.long
def test_long_lists_of_floats_are_checked_quickly_and_all():
    times = [0.25] * 200_000
    series = {"node": 0, "name": "power", "device": "0", "unit": "W", "kind": "gauge", "times": times}
    schema.check("result", {**series, "values": times}, "series")
    spoilt = [*times[:-1], -1.0]
    message = said({**series, "times": spoilt, "values": times}, "result", "series")
    assert "$.times[199999]" in message
    assert "0 or more" in message


@pytest.mark.parametrize(
    "program",
    [
        "from dlperf_sdk import run; import dlperf_sdk.spec.run_spec",
        "import sys; sys.argv = ['dlperf', '--help']; from dlperf_sdk.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass",
    ],
    ids=["run", "help"],
)
def test_validators_and_parsers_are_imported_when_they_are_needed(program):
    program += "\nimport sys; print({'jsonschema', 'jsonschema_rs', 'yaml', 'cattrs'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


# -- reading

SAME = {
    ".json": '{"framework": "torch", "model": "resnet50", "steps": 5, "env": {"OMP_DYNAMIC": "no"}, "target": null}',
    ".toml": 'framework = "torch"\nmodel = "resnet50"\nsteps = 5\nenv = { OMP_DYNAMIC = "no" }\n',
    ".yaml": "framework: torch\nmodel: 'resnet50'\nsteps: 5\nenv: {OMP_DYNAMIC: no}\ntarget: ~\n",
    ".yml": "framework: torch\nmodel: resnet50\nsteps: +5\nenv:\n  OMP_DYNAMIC: no\n",
}


def test_what_is_no_document_is_named(tmp_path):
    (tmp_path / "file.md").write_text("")
    (tmp_path / "folder").mkdir()
    for name, words in {
        "gone": "does not exist",
        "folder": "is a folder",
        "file.md": "has the suffix .md",
    }.items():
        with pytest.raises(DocumentError, match=f"{name} {words}; a document is a file that ends in .json"):
            load_document(tmp_path / name)


@pytest.mark.parametrize("suffix", SAME)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_spec_is_the_same_in_every_format(tmp_path, suffix, mark):
    path = tmp_path / f"spec{suffix}"
    path.write_text(mark + SAME[suffix], encoding="utf-8")
    assert load_spec(path) == RunSpec(framework="torch", model="resnet50", steps=5, env={"OMP_DYNAMIC": "no"})


def test_a_repeated_key_is_found_without_a_place_for_each_value():
    text = '{"x":' + "[" * 900 + "1,\n" * 20_000 + '{"a": 1, "b": {"a": 2}, "a": 3}' + "]" * 900 + "}"
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="the key 'a' is there twice, in line 20001"):
            parse_json(text.encode(), "x")
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def test_a_folder_a_pipe_and_nothing_are_told_apart(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, reason in {"pipe": "is not a file", "folder": "is a folder", "none": "does not exist"}.items():
        with pytest.raises(DocumentError, match=f"{name} {reason}"):
            load_document(tmp_path / name)


BAD = {
    "nan.json": '{"a": NaN}',
    "infinity.json": '{"a": -Infinity}',
    "overflow.json": '{"a": 1e999}',
    "twice.json": '{"a": 1, "a": 2}',
    "twice-inside.json": '{"b": [{"a": 1, "a": 2}]}',
    "deep.json": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep-enough.json": '{"a": ' + "[" * 70 + "]" * 70 + "}",
    "digits.json": '{"a": ' + "9" * 5000 + "}",
    "long.json": '{"a": ' + "9" * 4000 + "}",
    "half.json": '{"a": ',
    "empty.json": "",
    "list.json": "[1]",
    "nan.toml": "a = nan",
    "twice.toml": "a = 1\na = 2",
    "date.toml": "a = 2020-01-01",
    "deep.toml": "a = " + "[" * 100_000 + "]" * 100_000,
    "digits.toml": "a = " + "9" * 5000,
    "half.toml": "a = [",
    "tag.yaml": "a: !!python/object/apply:os.system ['true']",
    "tag-standard.yaml": "a: !!str 5",
    "tag-plain.yaml": "a: ! 5",
    "anchor.yaml": "a: &x 1",
    "alias.yaml": "a: *x",
    "laughs.yaml": "a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]",
    "merge.yaml": "a: {b: 1}\n? {c: 1}\n: 2",
    "twice.yaml": "a: 1\na: 2",
    "number-key.yaml": "1: 2",
    "null-key.yaml": "~: 2",
    "documents.yaml": "a: 1\n---\nb: 2",
    "deep.yaml": "a: " + "[" * 5000 + "]" * 5000,
    "deep-enough.yaml": "a: " + "[" * 70 + "]" * 70,
    "digits.yaml": "a: " + "9" * 5000,
    "overflow.yaml": "a: 1e999",
    "half.yaml": "a: [",
    "tab.yaml": "a:\n\t- 1",
    "control.yaml": "a: \x01",
    "empty.yaml": "",
    "text.yaml": "just text",
    "spec.ini": "a = 1",
    "spec": "{}",
}


LINES = {
    "twice.json": ('{"name": "x",\n "fields": {"a": 1,\n  "b": [{"a": 2}],\n  "a": 3}}', 4),
    "twice-above.json": ('{"a": 1,\n "b": {"c": 1},\n "a": {"d": 1,\n  "d": 2}}', 3),
    # Python 3.13 points at the comma, earlier versions at the brace.
    "comma.json": ('{"a": 1,\n "b": 2,\n}', 2 if sys.version_info >= (3, 13) else 3),
    "nan.json": ('{"a": "NaN",\n "b": [1,\n NaN]}', 3),
    "digits.json": ('{"a": 1,\n "b": ' + "9" * 5000 + "}", 2),
    "empty.json": ("", 1),
    "list.json": ("[1]", 1),
    "null.json": ("null", 1),
    "twice.toml": ("a = 1\nb = 2\na = 3\n", 3),
    "half.toml": ("a = 1\nb = [\n", 3),
    "word.toml": ("a = 1\n\nb = yes\n", 3),
    "twice.yaml": ("name: x\nfields:\n  a: 1\n  b: 2\n  a: 3\n", 5),
    "twice-at-the-top.yaml": ("a: 1\nb: 2\n\na: 3\n", 4),
    "colon.yaml": ("name: x\nfields:\n  framework torch\n  model: y\n", 4),
    "indent.yaml": ("name: x\nfields:\n  a: 1\n   b: 2\n", 4),
    "tab.yaml": ("name: x\nfields:\n\ta: 1\n", 3),
    "tag.yaml": ("name: x\nfields: !!map {}\n", 2),
    "anchor.yaml": ("name: x\nfields:\n  a: &b 1\n", 3),
    "control.yaml": ("name: x\nfields: \x01\n", 2),
    "digits.yaml": ("name: x\nseed: " + "9" * 5000 + "\n", 2),
    "deep.yaml": ("name: x\nfields: " + "[" * 70 + "]" * 70, 2),
    "key.yaml": ("name: x\n1: 2\n", 2),
    "empty.yaml": ("", 1),
    "comment.yaml": ("# nothing\n\n", 1),
    "text.yaml": ("just text", 1),
}


@pytest.mark.parametrize("name", LINES)
def test_syntax_error_is_reported_with_its_line(tmp_path, name):
    text, line = LINES[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DocumentError) as error:
        load_document(path)
    assert str(error.value).startswith(f"{path}:{line}: "), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", BAD)
def test_unsupported_yaml_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_text(BAD[name])
    started = time.monotonic()
    with pytest.raises(DocumentError) as error:
        load_document(path)
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - started < 20


def test_yaml_scalars_have_json_types(tmp_path):
    path = tmp_path / "scalars.yaml"
    path.write_text(
        "a: [no, yes, on, 010, 0x1F, 1:30, 2020-01-01, 1_000, .inf, .nan, True, NULL, '5', '']\n"
        "b: [true, false, null, ~, 10, -3, 1.5, 2e3, .5, 1.]\n"
        "<<: text\n"
        "c:\n"
    )
    document = load_document(path)
    assert document["a"] == [
        *(
            "no",
            "yes",
            "on",
            "010",
            "0x1F",
            "1:30",
            "2020-01-01",
            "1_000",
            ".inf",
            ".nan",
            "True",
            "NULL",
            "5",
            "",
        )
    ]
    assert document["b"] == [True, False, None, None, 10, -3, 1.5, 2000.0, 0.5, 1.0]
    assert [type(value) for value in document["b"]] == [
        bool,
        bool,
        type(None),
        type(None),
        int,
        int,
        *[float] * 4,
    ]
    assert document["<<"] == "text"
    assert document["c"] is None


def test_not_text(tmp_path):
    path = tmp_path / "latin.json"
    path.write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(DocumentError, match="not text in UTF-8"):
        load_document(path)


def test_not_a_file(tmp_path):
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name in ("folder", "pipe", "device", "loop", "missing", "nul\0"):
        with pytest.raises(DocumentError):
            load_document(tmp_path / f"{name}.json")


def test_too_large(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(DocumentError, match="larger than"):
        load_document(path)


COSTLY = {
    "dots.toml": (
        "x = 1\n" + ".".join(["a"] * 40_000) + " = 1\n",
        r":2: .*a key is nested more than 64 deep",
    ),
    "spaced.toml": (" . ".join(['"a"'] * 20_000) + " = 1\n", r":1: .*a key is nested more than 64 deep"),
    "header.toml": ("[" + ".".join(["a"] * 40_000) + "]\n", r":1: .*a key is nested more than 64 deep"),
    "inline.toml": (
        "a = {" + ".".join(["a"] * 40_000) + " = 1}\n",
        r":1: .*a key is nested more than 64 deep",
    ),
    "list.toml": ("a = [" + "1," * 200_000 + "]\n", "larger than 262144 bytes"),
    "list.yaml": ("a:\n" + "- 1\n" * 250_000, "larger than"),
    "lists.json": ('{"a": [' + "[]," * 3_000_000 + "1]}", "would take about [0-9]+ MiB of memory"),
    "objects.json": ('{"a": [' + "{}," * 3_000_000 + "1]}", "would take about [0-9]+ MiB of memory"),
}


@pytest.mark.parametrize("name", COSTLY)
def test_expensive_documents_are_refused_before_parsing(tmp_path, monkeypatch, name):
    def parse(*args, **kwargs):
        raise AssertionError("it was parsed")

    for parser in ("tomllib.loads", "yaml.load", "json.loads"):
        monkeypatch.setattr(parser, parse)
    text, why = COSTLY[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(DocumentError, match=why):
        load_document(tmp_path / name, LARGEST_RESULT if name.endswith(".json") else LARGEST_SPEC)


@pytest.mark.parametrize(("letter", "copies"), [("a", 3), ("é", 5), ("😀", 9)])
def test_long_texts_count_as_memory(letter, copies, monkeypatch):
    """A text is in memory as bytes, decoded, and as a value; one wide character widens all of it."""
    monkeypatch.setattr(reading, "_MOST_MEMORY", 10**6)
    most = 10**6 // copies
    assert parse_json(f'["{letter * 9:{"a"}<{most - 1000}}"]'.encode(), "it")
    with pytest.raises(DocumentError, match="would take about [0-9]+ MiB of memory"):
        parse_json(f'["{letter * 9:{"a"}<{most}}"]'.encode(), "it")


@pytest.mark.long
def test_yaml_of_too_many_values_is_refused(tmp_path):
    (tmp_path / "many.yaml").write_text("a: [" + "1," * 60_000 + "]\n")
    with pytest.raises(
        DocumentError, match=r"many.yaml:1: .*more than 20000 keys and values: write it as JSON"
    ):
        load_document(tmp_path / "many.yaml")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_json_is_read_back_exactly(value):
    assert repr(parse_json(json.dumps(value).encode(), "it")) == repr(value)


# Of what JSON writes without escapes, YAML takes all but its own line breaks and what cannot be printed.
PRINTABLE = st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=["Cc", "Zl", "Zp"]))
PRINTABLE_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(PRINTABLE, PRINTABLE_JSON, max_size=3))
def test_json_is_the_same_read_as_yaml(tmp_path, value):
    path = tmp_path / "value.yaml"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    assert repr(load_document(path)) == repr(value)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([".json", ".toml", ".yaml"]),
    st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
)
def test_garbage_is_a_document_error_or_a_document(tmp_path, suffix, data):
    path = tmp_path / f"garbage{suffix}"
    path.write_bytes(data)
    with contextlib.suppress(DocumentError):
        assert isinstance(load_document(path), dict)


def test_loader_accepts_no_more_than_the_safe_loader():
    from dlperf_sdk.documents.yaml_subset import PlainLoader

    assert issubclass(PlainLoader, yaml.SafeLoader)
    assert set(PlainLoader.yaml_constructors) == set(yaml.SafeLoader.yaml_constructors)
    assert PlainLoader.yaml_multi_constructors == {}
    assert sys.getrecursionlimit() // 10 > DEEPEST
