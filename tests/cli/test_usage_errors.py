"""Command lines that cannot be understood: one paragraph of ours that says what, and what to write instead."""

import re

import pytest
from cli_fixtures import CASE, dlperf, isolated_directory  # noqa: F401
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dlperf_sdk.cli import COMMANDS

THEIRS = re.compile(
    r"Unknown (option|command)|Invalid value|unable to convert|requires an argument|Unused Tokens"
)
"""The words of cyclopts."""


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (
            ["run"],
            "`dlperf run` needs FRAMEWORK: a framework's name, or a spec file (.toml, .json, .yaml) with the complete "
            "case. Write `dlperf run FRAMEWORK [MODEL]`. See `dlperf run --help`.",
        ),
        (["plan"], "`dlperf plan` needs FRAMEWORK: "),
        (["bundle", "numpy", "linear"], "Write `dlperf bundle FRAMEWORK [MODEL] --output FILE`."),
        (["export"], "`dlperf export` needs --to: csv or parquet"),
        (["validate"], "`dlperf validate` needs PATH: "),
        (["verify"], "`dlperf verify` needs FRAMEWORKS: frameworks' names."),
        (["gate", "."], "Write `dlperf gate BASELINE CANDIDATE`, or"),
        (["import"], "Write `dlperf import IMPORTER [LOGS…]`."),
        (["env", "remove"], "`dlperf env remove` needs NAME: a name that `dlperf env list` shows."),
        (["campaign", "run"], "`dlperf campaign run` needs FILE: "),
        (["check"], "`dlperf check` needs NAME: a plugin's name."),
        (
            ["run", *CASE, "--seed"],
            "--seed needs a value: seed of the canonical weights and batches.",
        ),
        (["report", "-o"], "-o needs a value: file to write instead of standard output"),
        (
            ["run", *CASE, "--seed", "1", "--seed", "2"],
            "--seed is given more than once; give it once.",
        ),
        (["run", *CASE, "--topologie", "1n1d"], "There is no option --topologie. Did you mean --topology?"),
        (["run", *CASE, "--topologie=1n1d"], "There is no option --topologie. Did you mean --topology?"),
        (["run", *CASE, "-z"], "There is no option -z. See"),
        (
            ["reprot"],
            "There is no command named 'reprot'. Did you mean 'report'? Also similar: export, rerun.",
        ),
        (
            ["campaign", "run", "preset:dlperf-v1", "--dry-run"],
            "There is no option --dry-run. To list its cases, and start nothing: `dlperf plan FILE`. See",
        ),
        (["campaign", "resume", "here", "--dry-run"], "`dlperf campaign status DIR`"),
        (["env", "crate"], "There is no command named 'crate'. Did you mean 'create'?"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_message_names_the_mistake_and_the_correction(dlperf, words, output):
    code, out, err = dlperf(*words)
    assert (code, out) == (2, "")
    assert output in err
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert not THEIRS.search(err), err


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--batch-size", "four"], "--batch-size is 'four'; it takes a whole number or max."),
        (["--batch-size", "2.5"], "--batch-size is '2.5'; it takes a whole number or max."),
        (["--batch-size", "mx"], "Did you mean max?"),
        (["--steps", "1.7"], "--steps is '1.7'; it takes a whole number."),
        (["--steps", "1e3"], "--steps is '1e3'; it takes a whole number."),
        (["--steps", "0x10"], "--steps is '0x10'; it takes a whole number."),
        (["--steps", "٣"], "it takes a whole number."),
        (["--steps", "9" * 5000], "it takes a whole number."),
        (["--target", "half"], "--target is 'half'; it takes a number."),
        (["--json=perhaps"], "--json is 'perhaps'; it takes true or false."),
    ],
)
def test_a_value_of_another_kind_is_refused_and_never_rounded(dlperf, words, output):
    code, out, err = dlperf("plan", "numpy", "linear", *words)
    assert (code, out) == (2, "")
    assert output in err
    assert len(err.splitlines()) == 1
    assert not THEIRS.search(err), err


def test_choices_are_named(dlperf):
    err = dlperf("export", "--to", "cvs")[2]
    assert "--to is 'cvs'; it takes csv, parquet, markdown or mllog. Did you mean csv?" in err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [*COMMANDS, *CASE, "create", "list", "--set", "a=1", "--to", "csv", "-o", "-q", "x"]
            ),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12).filter(
                lambda word: not word.startswith("-")
            ),
        ),
        max_size=8,
    )
)
@example(["run", "", "linear"])
def test_message_is_one_paragraph(dlperf, words):
    code, out, err = dlperf(*words, "--no-such-option-at-all")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert len(err.splitlines()) == 1
    assert not THEIRS.search(err), err
