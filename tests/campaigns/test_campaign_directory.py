"""A campaign's directory, handed to the commands that read results, and looked at when nobody carries it on."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time

import pytest
from test_runner import CONTROLLER, SMALL, entries_of, kept_with, small

from dlperf_sdk import Matrix, campaign
from dlperf_sdk.campaigns.campaign_directory import open_campaign
from dlperf_sdk.campaigns.status import status
from dlperf_sdk.cli import main
from dlperf_sdk.cli.campaign_tables import show_progress
from dlperf_sdk.cli.lookup import unit_of
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import terminal

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    directory = tmp_path_factory.mktemp("campaign") / "it"
    return campaign(small(seed=[1, 2]), directory), directory


def test_report_takes_a_campaign(done, capfd):
    outcome, directory = done
    ids = {case.id for case in outcome.directory.cases}
    assert main(["report", str(directory), "--format", "json"]) == 0
    assert {item["id"] for item in json.loads(capfd.readouterr().out)} == ids
    assert main(["report", str(directory), str(directory / "runs"), "--format", "csv"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1 + 2 * len(ids)


def test_report_has_the_order_of_the_plan(tmp_path, capfd):
    """As the table at the end of a campaign has it."""
    outcome = campaign(small(batch_size=[8, 2, 4], repeats=[1]), tmp_path / "it")
    planned = [case.id for case in outcome.directory.cases]
    assert planned not in (sorted(planned), sorted(planned, reverse=True))
    assert [result.id for result in outcome.results()] == planned
    for path in (tmp_path / "it", tmp_path / "it/runs"):
        assert main(["report", str(path), "--format", "json"]) == 0
        assert [item["id"] for item in json.loads(capfd.readouterr().out)] == planned
    # Runs that a shell lists in the order of their names.
    named = [str(tmp_path / "it/runs" / name) for name in sorted(planned)]
    for words, actual in (
        (["json"], lambda text: [item["id"] for item in json.loads(text)]),
        (["csv"], lambda text: [row["id"] for row in csv.DictReader(io.StringIO(text))]),
        (["html"], lambda text: sorted(planned, key=text.index)),
    ):
        assert main(["report", *named, "--format", *words]) == 0
        assert actual(capfd.readouterr().out) == planned
    (tmp_path / "it/campaign.json").write_text("{}")
    assert main(["report", str(tmp_path / "it"), "--format", "json"]) == 0
    assert {item["id"] for item in json.loads(capfd.readouterr().out)} == set(planned)


def test_validate_and_export_take_a_campaign(done, capfd):
    outcome, directory = done
    assert main(["validate", str(directory), "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert {item["run"]: item["valid"] for item in output["runs"]} == dict.fromkeys(
        (case.id for case in outcome.directory.cases), True
    )
    assert main(["export", str(directory), "--to", "csv"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 3
    assert main(["cost", str(directory), "--per-device-hour", "1", "--json"]) == 0


def test_campaign_that_has_not_begun_is_reported_as_such(tmp_path, capfd):
    kept_with(tmp_path / "it", small(seed=[1]))
    assert main(["report", str(tmp_path / "it")]) == 2
    assert "has begun no run yet" in " ".join(capfd.readouterr().err.split())
    assert main(["validate", str(tmp_path / "it")]) == 2
    assert "has no results yet: `dlperf campaign resume" in " ".join(capfd.readouterr().err.split())


def test_case_of_a_killed_controller_is_interrupted(tmp_path, capfd):
    matrix = Matrix(
        fields={**SMALL, "framework": "faulty", "options": {"fault": "hang-step"}}, axes={"seed": [1, 2, 3]}
    )
    directory = tmp_path / "it"
    kept_with(directory, matrix)
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(directory)]) as controller:
        deadline = time.monotonic() + 60
        while not any(e["event"] == "attempt-started" for e in entries_of(directory)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        rows = _rows(directory, capfd)
        assert "1 under way" in rows[0] and sum("under way" in row for row in rows[1:]) == 1
        controller.kill()
    rows = _rows(directory, capfd)
    assert "1 interrupted, 2 pending" in rows[0]
    assert sum("interrupted" in row for row in rows[1:]) == 1
    assert not any("under way" in row for row in rows)


def _rows(directory, capfd):
    """The line that counts the cases, and the table's."""
    capfd.readouterr()
    assert main(["campaign", "status", str(directory)]) == 0
    lines = capfd.readouterr().out.splitlines()
    return [line for line in lines if line.startswith(("cases", "faulty"))]


def test_a_throughput_has_the_unit_of_its_model(tmp_path):
    stored = kept_with(
        tmp_path / "it",
        Matrix(
            fields={"framework": "numpy", "batch_size": 4},
            axes={"model": ["linear", "resnet50", "bert-base"]},
        ),
    )
    for case in stored.cases:
        stored.journal.append("case-started", case=case.id)
        stored.journal.append(
            "attempt-ended", case=case.id, attempt=1, status="ok", throughput=12.5, seconds=3.0
        )
    text = terminal.text_of(show_progress(status(open_campaign(tmp_path / "it")), False), width=120)
    assert [row.split()[-1] for row in text.splitlines() if row.startswith("numpy")] == [
        "samples/s",
        "img/s",
        "seq/s",
    ]
    assert unit_of("not-installed", Registry()) == "samples/s"
