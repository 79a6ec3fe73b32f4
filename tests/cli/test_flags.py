"""The flags: one per field of RunSpec, and what is behind an equals sign."""

import contextlib
import inspect
import io
import json
import math
import os

import attrs
import cyclopts
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import RunSpec
from dlperf_sdk.cli import flags, running
from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.fields import context

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True)
VARIABLES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
TEXTS = {"options": NAMES.map("{}=1".format), "env": VARIABLES, "deadlines": NAMES.map("{}=1.5".format)}
TEXTS["labels"] = TEXTS["options"]


def parameters(command):
    return inspect.signature(command).parameters


@pytest.mark.parametrize("command", [running.run, running.plan])
def test_every_field_of_the_spec_has_a_flag_and_no_flag_is_without_a_field(command):
    own = {"framework", "model", "output_options", "common", "dry_run", "files", "trace"}
    fields = {field.name for field in attrs.fields(RunSpec)} - {"framework", "model"}
    assert set(parameters(command)) - own == fields


def test_omitted_flag_leaves_its_field_unchanged():
    assert flags.collect_fields({"batch_size": None, "options": None, "steps": 0}) == {"steps": 0}


# -- scalars


@given(st.integers(-(10**400) + 1, 10**400 - 1))
def test_whole_numbers_come_back(number):
    scalar = flags.parse_scalar(str(number))
    assert type(scalar) is int
    assert scalar == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back(number):
    scalar = flags.parse_scalar(repr(number))
    assert type(scalar) is float
    assert math.copysign(1, scalar) == math.copysign(1, number)
    assert scalar == number


@given(st.text())
def test_flag_values_are_parsed_as_numbers_booleans_or_text(text):
    scalar = flags.parse_scalar(text)
    if isinstance(scalar, str):
        assert scalar == text
    elif scalar is None or isinstance(scalar, bool):
        assert text in ("null", "true", "false")
    else:
        assert type(scalar)(text) == scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("True", "True"),
        ("+3", 3),
        ("-3", -3),
        ("007", 7),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e-3", 0.001),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("٣", "٣"),
        (" 1", " 1"),
        ("1\n", "1\n"),
        ("", ""),
        ("1e999", math.inf),
    ],
)
def test_value_is_the_text_after_the_equals_sign(text, value):
    scalar = flags.parse_scalar(text)
    assert (type(scalar), scalar) == (type(value), value)


def test_number_with_too_many_digits_is_refused():
    digits = "9" * 5000
    scalar = flags.parse_scalar(digits)
    assert scalar == math.inf  # and the spec refuses what is not finite
    with pytest.raises(SpecError, match="finite"):
        RunSpec(framework="a", model="b", options={"x": scalar})


# -- entries


@pytest.mark.parametrize("field", sorted(TEXTS))
@given(data=st.data())
def test_entries_hold_each_name_once(field, data):
    names = data.draw(st.lists(TEXTS[field], unique_by=lambda text: text.partition("=")[0], max_size=4))
    entries = flags.parse_entries(field, names)
    assert list(entries) == [text.partition("=")[0] for text in names]


@pytest.mark.parametrize("field", sorted(TEXTS))
def test_name_set_twice_is_refused(field):
    with pytest.raises(SpecError, match=r"--\w+ gives 'step' twice"):
        flags.parse_entries(field, ["step=1", "step=2"])


def test_a_value_may_hold_equals_signs():
    assert flags.parse_entries("options", ["a=b=c", "d=3"]) == {"a": "b=c", "d": "3"}
    assert flags.parse_entries("env", ["A=b=c", "B", "C="]) == {"A": "b=c", "B": None, "C": ""}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("options", "image_size"),
        ("options", "=3"),
        ("options", ""),
        ("env", ""),
        ("env", "=x"),
        ("deadlines", "step"),
        ("deadlines", "step="),
        ("deadlines", "step=soon"),
        ("deadlines", "=3"),
        ("deadlines", "step=nan"),
        ("labels", "commit"),
        ("labels", "=1f3a9c"),
    ],
)
def test_entries_of_another_form_are_refused_with_an_example(field, text):
    with pytest.raises(SpecError, match="write "):
        flags.parse_entries(field, [text])


# -- through the front door, as a user writes them


def planned(*words):
    """The spec that a command line leads to."""
    from dlperf_sdk.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["plan", *words, "--json"])
    assert code == 0, err.getvalue()
    return RunSpec.from_dict(json.loads(out.getvalue())["spec"])


def test_all_flags_arrive_in_the_spec():
    words = (
        "numpy linear --topology 2n1d --batch-size 12 --accumulation 1 --precision fp32 --compiler none "
        "--strategy independent --layout auto --device cpu --data synthetic --learning-rate-policy constant --seed 7 "
        "--protocol adaptive --canonical-steps 2 "
        "--warmup 3 --steps 9 --repeats 6 --max-repeats 8 --target 0.5 --python /usr/bin/python3 "
        "--env OMP_DYNAMIC=1 --env HOME --set features=4 --set learning_rate=0.25 --deadline step=5 "
        "--deadline start=6 --on-busy note --label commit=12345 --label branch=main"
    )
    assert planned(*words.split()) == RunSpec(
        framework="numpy",
        model="linear",
        topology="2n1d",
        batch_size=12,
        strategy="independent",
        device="cpu",
        seed=7,
        protocol="adaptive",
        canonical_steps=2,
        warmup=3,
        steps=9,
        repeats=6,
        max_repeats=8,
        target=0.5,
        python="/usr/bin/python3",
        env={"OMP_DYNAMIC": "1", "HOME": None},
        options={"features": 4, "learning_rate": 0.25},
        deadlines={"step": 5.0, "start": 6.0},
        on_busy="note",
        labels={"commit": "12345", "branch": "main"},
    )


def test_without_flags_the_spec_has_its_defaults():
    assert planned("numpy", "linear") == RunSpec(framework="numpy", model="linear")


def test_flags_take_the_place_of_a_files_fields_and_add_to_its_mappings(tmp_path):
    case = tmp_path / "case.toml"
    case.write_text('framework = "numpy"\nmodel = "linear"\nsteps = 9\nseed = 3\n[options]\nfeatures = 4\n')
    expected = RunSpec(
        framework="numpy", model="linear", steps=5, seed=3, options={"features": 4, "learning_rate": 0.5}
    )
    assert planned(str(case), "--steps", "5", "--set", "learning_rate=0.5") == expected


@pytest.fixture
def a_slurm(tmp_path, monkeypatch):
    """A machine that can submit to Slurm, as far as a plan looks."""
    (tmp_path / "srun").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


@pytest.mark.parametrize("value", ["30", "1e3", "1_000", "1:00:00", "true", "null", "", "a=b"])
def test_an_option_that_is_a_text_is_taken_as_it_was_typed(a_slurm, value):
    words = ["numpy", "linear", "--topology", "1n1d@slurm", "--set", "features=4"]
    spec = planned(*words, "--set", f"time_limit={value}")
    assert spec.options == {"features": 4, "time_limit": value}


def test_file_option_that_is_not_text_is_refused(a_slurm, tmp_path):
    from dlperf_sdk.cli import main

    case = tmp_path / "case.toml"
    case.write_text(
        'framework = "numpy"\nmodel = "linear"\ntopology = "1n1d@slurm"\n[options]\ntime_limit = 30\n'
    )
    with contextlib.redirect_stderr(io.StringIO()) as err:
        assert main(["plan", str(case)]) == 2
    assert "must be a text" in err.getvalue()
    assert planned(str(case), "--set", "time_limit=45").options == {"time_limit": "45"}


@attrs.frozen
class Spec:
    profiles: bool = context("Write a profile.", False)


@pytest.mark.parametrize(("words", "value"), [(["--profiles"], True), ([], None)])
def test_boolean_field_is_a_flag_without_a_value(monkeypatch, words, value):
    monkeypatch.setattr(flags, "RunSpec", Spec)

    def command(**given):
        return given.get("profiles")

    app = cyclopts.App(result_action="return_value")
    app.default(flags.add_case_flags(command))
    assert app(words) is value
