"""A campaign goes on as it was resolved, and says what of its file was edited since."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk import Matrix
from dlperf_sdk.campaigns import file, planning
from dlperf_sdk.campaigns.campaign import make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign, open_campaign
from dlperf_sdk.campaigns.edits import describe_edits, differences
from dlperf_sdk.cli import main
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

SMALL = {"model": "linear", "batch_size": 4, "canonical_steps": 2, "warmup": 1, "steps": 4, "repeats": 2}
FILE = f"""name: mine
fields: {json.dumps(SMALL)}
axes: {{framework: [numpy], seed: [1, 2], precision: [fp32, amp-fp16]}}
order: {{seed: 3}}
"""
GOES_ON = (
    "DIR continues with the cases that it started with. To measure other cases, start another campaign: "
    "`dlperf campaign run FILE`."
)


def kept_of(directory, what):
    stamp, entries = planning.plan_campaign(what, Registry())
    create_campaign(directory, what, entries, stamp)
    return open_campaign(directory)


def edited(tmp_path, before, after, **settings):
    """What a later session says of a file that was changed after the start."""
    path = tmp_path / "matrix.yaml"
    path.write_text(before)
    stored = kept_of(tmp_path / "it", make_campaign(file.load_campaign(path), **settings))
    if after is None:
        path.unlink()
    else:
        path.write_text(after)
    return [
        item.replace(str(path), "FILE").replace(str(stored.path), "DIR") for item in describe_edits(stored)
    ]


def test_an_unchanged_file_is_nothing_to_speak_of(tmp_path):
    assert edited(tmp_path, FILE, "# a comment\n" + FILE, max_cases=4) == []


def test_a_campaign_without_a_file_has_none_that_was_edited(tmp_path):
    matrix = Matrix(fields=SMALL, axes={"framework": ["numpy"]})
    assert describe_edits(kept_of(tmp_path / "it", make_campaign(matrix))) == []


@pytest.mark.parametrize(
    ("was", "is_", "output"),
    [
        (
            "seed: [1, 2]",
            "seed: [1, 2, 3]",
            "2 cases new in it (numpy linear 1n1d b4 fp32 seed=3; numpy linear 1n1d b4 amp-fp16 seed=3).",
        ),
        (
            "seed: [1, 2]",
            "seed: [1]",
            "2 cases no longer in it (numpy linear 1n1d b4 fp32 seed=2; numpy linear 1n1d b4 amp-fp16 seed=2).",
        ),
        (
            "amp-fp16",
            "amp-bf16",
            "2 cases have precision 'amp-bf16' instead of 'amp-fp16' (numpy linear 1n1d b4 amp-fp16 seed=1; numpy "
            "linear 1n1d b4 amp-fp16 seed=2).",
        ),
        (
            'warmup": 1, "steps": 4',
            'warmup": 2, "steps": 8',
            "4 cases have warmup 2 instead of 1, steps 8 instead of 4 (numpy linear 1n1d b4 fp32 seed=1; numpy linear "
            "1n1d b4 amp-fp16 seed=1; numpy linear 1n1d b4 fp32 seed=2; numpy linear 1n1d b4 amp-fp16 seed=2).",
        ),
        ("seed: 3}", "seed: 4}", "the setting seed is 4 instead of 3."),
        ("order:", "cooldown: 5\norder:", "the setting cooldown is 5 instead of 0.0."),
    ],
)
def test_edits_are_described(tmp_path, was, is_, output):
    assert edited(tmp_path, FILE, FILE.replace(was, is_)) == [
        f"FILE was edited since the start: {output}",
        GOES_ON,
    ]


def test_command_line_settings_are_not_edits(tmp_path):
    assert edited(tmp_path, FILE, FILE.replace("seed: 3}", "seed: 4}"), seed=5) == []


def test_cases_skipped_at_the_start_are_not_edits(tmp_path):
    more = FILE.replace("[numpy]", "[numpy, nobody-has-this]") + "missing: skip\n"
    assert edited(tmp_path, more, more) == []


def test_of_many_cases_the_first_are_named(tmp_path):
    output, _ = edited(tmp_path, FILE, FILE.replace("[1, 2]", str(list(range(1, 20)))))
    assert output.startswith("FILE was edited since the start: 34 cases new in it (numpy linear ")
    assert output.endswith("; and 29 more).")


def test_edit_of_a_file_that_extends_another_is_described(tmp_path):
    (tmp_path / "base.yaml").write_text(FILE)
    output = edited(
        tmp_path, "name: top\nextends: [base.yaml]\n", "name: top\nextends: [base.yaml]\ncooldown: 5\n"
    )
    assert output[0] == "FILE was edited since the start: the setting cooldown is 5 instead of 0.0."
    assert describe_edits(kept_of(tmp_path / "smoke", file.load_campaign("preset:smoke"))) == []


@pytest.mark.parametrize(
    ("after", "why"), [(None, "cannot be read"), ("name: [", "FILE"), ("name: x\n", "has no case")]
)
def test_missing_or_invalid_file_does_not_stop_resuming(tmp_path, after, why):
    (output,) = edited(tmp_path, FILE, after)
    assert output.startswith("FILE cannot be read as a campaign any more: ")
    assert why in output
    assert output.endswith(GOES_ON)


_CASES = st.sets(
    st.tuples(st.integers(1, 4), st.sampled_from(["fp32", "amp-bf16"]), st.integers(1, 3)), max_size=8
)


@given(_CASES, _CASES)
def test_every_case_that_differs_is_counted_once(one, other):
    def specs(cases):
        return [
            RunSpec(framework="numpy", model="linear", steps=a, precision=b, seed=c)
            for a, b, c in sorted(cases)
        ]

    before, now = specs(one), specs(other)
    counts = {"has": 0, "have": 0, "no": 0, "new": 0}
    for output in differences(before, now):
        number, _, verb = output.split()[:3]
        counts[verb] += int(number)
    changed = counts["has"] + counts["have"]
    assert counts["no"] + changed == sum(item not in now for item in before)
    assert counts["new"] + changed == sum(item not in before for item in now)


@pytest.mark.long
def test_resuming_describes_edits_and_measures_the_original_cases(tmp_path, capfd):
    path, directory = tmp_path / "matrix.yaml", tmp_path / "it"
    path.write_text(FILE.replace(", amp-fp16", ""))
    assert main(["campaign", "run", str(path), "--output", str(directory), "-q"]) == 0
    path.write_text(FILE)
    capfd.readouterr()
    assert main(["campaign", "resume", str(directory)]) == 0
    assert "was edited since the start: 2 cases new in it" in " ".join(capfd.readouterr().err.split())
    assert len(open_campaign(directory).cases) == 2
    assert main(["campaign", "status", str(directory)]) == 0
    assert "2 cases new in it" in " ".join(capfd.readouterr().out.split())
