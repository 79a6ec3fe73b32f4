"""The interleaved gate: both sides in one campaign, in pairs, from the command line to the exit code."""

from __future__ import annotations

import json
import sys

import attrs
import pytest
from test_runner import SMALL, entries_of

from dlperf_sdk import RunSpec
from dlperf_sdk.campaigns import order
from dlperf_sdk.campaigns.campaign import Settings
from dlperf_sdk.campaigns.campaign_directory import open_campaign
from dlperf_sdk.campaigns.interleaved import baseline_cases, load_cases, make_interleaved
from dlperf_sdk.cli import main
from dlperf_sdk.errors import UnknownName, UsageError

pytestmark = pytest.mark.long

SPEC = RunSpec(framework="numpy", **SMALL)


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"framework": "numpy", **SMALL}))
    return path


def test_adjacent_cases_stay_together_in_random_order():
    ids = [f"{side}{pair}" for pair in range(4) for side in "ab"]
    rounds = [order.order_round(ids, 3, number, 2) for number in range(64)]
    for taken in rounds:
        assert sorted(taken) == sorted(ids)
        assert all(first[1] == second[1] for first, second in zip(taken[::2], taken[1::2], strict=True))
    first = [taken[taken.index("a0") - 1 : taken.index("a0")] != ["b0"] for taken in rounds]
    assert 16 < sum(first) < 48
    assert len({tuple(taken[::2]) for taken in rounds}) > 8


@pytest.mark.timeout(600)
def test_both_sides_are_measured_in_one_run(case, tmp_path, capfd):
    directory = tmp_path / "ab"
    words = ["--against", "env.OMP_NUM_THREADS=1", "--quiet", "--repeats", "5"]
    junit = tmp_path / "gate.xml"
    code = main(["gate", str(case), *words, "--output", str(directory), "--json", "--junit", str(junit)])
    answer = json.loads(capfd.readouterr().out)
    (decision,) = answer["decisions"]
    assert code == answer["exit_code"] and junit.exists()
    assert decision["basis"] == "interleaved in one run" and "5 pairs" in decision["detail"]
    assert any("OMP_NUM_THREADS" in text for text in decision["differences"])
    campaign = open_campaign(directory)
    baseline, candidate = campaign.cases
    assert (baseline.spec.env, candidate.spec.env) == ({"OMP_NUM_THREADS": "1"}, {})
    started = [entry["case"] for entry in entries_of(directory) if entry["event"] == "attempt-started"]
    expected = [
        order.order_round([baseline.id, candidate.id], campaign.settings.seed, n, 2) for n in range(1, 6)
    ]
    assert started == [id for pair in expected for id in pair]
    # The directory alone gives the same answer, also after it was interrupted and resumed.
    assert main(["gate", str(directory), "--json"]) == code
    assert json.loads(capfd.readouterr().out) == answer
    (directory / "runs" / candidate.id / "result.json").unlink()
    assert main(["gate", str(directory)]) == 2
    assert "No case of the interleaved run is finished" in capfd.readouterr().err


def test_a_baseline_is_an_environment_a_file_or_fields(case, tmp_path):
    cases, settings = load_cases(str(case))
    assert cases == [SPEC] and settings == Settings()
    assert baseline_cases(cases, sys.prefix) == [attrs.evolve(SPEC, python=sys.prefix)]
    assert baseline_cases(cases, {"options.features": 8}) == [attrs.evolve(SPEC, options={"features": 8})]
    other = tmp_path / "other.yaml"
    other.write_text("framework: numpy\nmodel: linear\nbatch_size: 4\n")
    assert baseline_cases(cases, str(other)) == [RunSpec(framework="numpy", model="linear", batch_size=4)]
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(
        "name: m\nfields: {framework: numpy, model: linear}\naxes: {seed: [1, 2]}\ncooldown: 3\n"
    )
    several, settings = load_cases(str(matrix))
    assert [spec.seed for spec in several] == [1, 2] and settings.cooldown == 3
    with pytest.raises(UsageError, match=r"The candidate has 1 cases, and .*matrix.yaml has 2"):
        baseline_cases(cases, str(matrix))
    with pytest.raises(UnknownName, match="no spec file, managed environment or interpreter named 'torch-x'"):
        baseline_cases(cases, "torch-x")
    with pytest.raises(UsageError, match=r"^/nowhere/venv does not exist\. Name an interpreter"):
        baseline_cases([SPEC], "/nowhere/venv")
    with pytest.raises(UnknownName, match="field of a run spec"):
        baseline_cases(cases, {"presicion": "fp32"})


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({}, "the same case on both sides"),
        ({"batch_size": 8}, "do not measure equal work: batch_size 8 against 4"),
        ({"steps": 9}, "differ in their protocol"),
        ({"protocol": "adaptive"}, "adaptive protocol"),
    ],
)
def test_sides_that_do_not_pair_are_refused_before_measuring(changes, output):
    with pytest.raises(UsageError, match=output):
        make_interleaved([SPEC], [attrs.evolve(SPEC, **changes)], Settings())


def test_a_case_belongs_to_one_pair():
    several = [attrs.evolve(SPEC, seed=1), attrs.evolve(SPEC, seed=1, device="cpu")]
    with pytest.raises(UsageError, match="measured for two pairs"):
        make_interleaved(several, several[::-1], Settings())
