"""`dlperf predict`: measured series and their larger topologies, as a table, as JSON and as a plot."""

from __future__ import annotations

import json

import attrs
import pytest
from result_samples import a_result

from dlperf_sdk.cli import main
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.store import ResultStore


def measured(topology, rate, **fields):
    """A result with the throughput `rate`."""
    result = a_result(fields={"topology": topology, **fields})
    repeats = tuple(rate * (1 + step / 1000) for step in range(7))
    metric = Metric("throughput", "img/s", repeats[3], repeats[0], repeats[6], repeats, "elapsed")
    return attrs.evolve(result, metrics=(metric,))


@pytest.fixture
def store(tmp_path):
    """A store with one series of three topologies, and one with a single topology."""
    results = [
        *(measured(topology, rate) for topology, rate in (("1n8d", 3000), ("2n8d", 5800), ("1n1d", 400))),
        measured("1n8d", 5000, precision="amp-fp16"),
    ]
    runs = ResultStore(tmp_path / "runs")
    for number, result in enumerate(results):
        runs.open_run(f"run-{number}").write_result(attrs.evolve(result, id=f"run-{number}"))
    return tmp_path / "runs"


def test_a_larger_topology_is_predicted(store, tmp_path, capfd):
    plot = tmp_path / "plot.html"
    assert main(["predict", str(store), "--to", "4n8d", "--plot", str(plot)]) == 5
    shown = capfd.readouterr()
    assert "4n8d" in shown.out and "efficiency kept" in shown.out
    assert "Left out: " in shown.err and "two numbers of nodes with 8 devices each" in " ".join(
        shown.err.split()
    )
    page = plot.read_text()
    assert "Prediction for 4n8d" in page and "forecast_low" in page and "4n8d (predicted" in page


def test_a_report_on_results_of_a_launcher_has_a_prediction(tmp_path):
    runs = ResultStore(tmp_path / "runs")
    for number, (topology, rate) in enumerate((("1n8d@ssh", 3000), ("2n8d@slurm", 5800))):
        result = measured(topology, rate)
        runs.open_run(f"run-{number}").write_result(attrs.evolve(result, id=f"run-{number}"))
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "runs"), "--output", str(page)]) == 0
    assert "4n8d (predicted" in page.read_text()


def test_the_prediction_as_json(store, tmp_path, capfd):
    plot = str(tmp_path / "plot.html")
    assert main(["predict", str(store), "--to", "16n8d", "--json", "--plot", plot]) == 5
    answer = json.loads(capfd.readouterr().out)
    (prediction,) = answer["predictions"]
    assert (prediction["topology"], prediction["measured"], prediction["doublings"]) == ("16n8d", "2n8d", 3.0)
    assert prediction["low"] < prediction["high"] < 5800 * 10
    assert prediction["throughput"] is prediction["step_time"] is prediction["accuracy"] is None
    assert "center" not in prediction
    assert prediction["notes"][0].startswith("Not validated")
    assert len(answer["errors"]) == 1
    assert main(["predict", str(store), "--to", "4n8d", "--json"]) == 5
    (prediction,) = json.loads(capfd.readouterr().out)["predictions"]
    assert prediction["low"] < prediction["throughput"] < prediction["high"]
    assert prediction["accuracy"]["ninetieth_error"] <= 0.08


def test_a_depth_that_misses_the_goal_has_an_interval_in_every_format(tmp_path, capfd):
    """The host may saturate between four and eight devices, so a number without its doubt would mislead."""
    runs = ResultStore(tmp_path / "runs")
    for topology, rate in (("1n2d", 800), ("1n4d", 1580)):
        runs.open_run(topology).write_result(attrs.evolve(measured(topology, rate), id=topology))
    plot, page = tmp_path / "plot.html", tmp_path / "report.html"
    command = ["predict", str(tmp_path / "runs"), "--to", "1n8d"]
    assert main([*command, "--json"]) == 0
    (prediction,) = json.loads(capfd.readouterr().out)["predictions"]
    assert prediction["throughput"] is None and prediction["low"] < prediction["high"]
    assert prediction["notes"][0].startswith("No point forecast from 4 to 8 devices of a node")

    assert main([*command, "--plot", str(plot)]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "interval only" in shown and "Measure 1n8d: no smaller topology allows a point forecast." in shown
    assert main(["report", str(tmp_path / "runs"), "--output", str(page)]) == 0
    assert main(["report", str(tmp_path / "runs"), "--format", "markdown"]) == 0
    markdown = capfd.readouterr().out
    (row,) = (line for line in markdown.splitlines() if "(predicted, 90 % interval)" in line)
    assert row.split("|")[4].strip() == "–" and row.split("|")[5].strip()
    for document in (plot.read_text(), page.read_text()):
        assert '"forecast_low"' in document and '"forecast"' not in document
        assert "No point forecast from 4 to 8 devices of a node" in document
    assert "No point forecast from 4 to 8 devices of a node" in markdown


def test_the_newest_run_of_a_topology_counts(store, capfd):
    older = attrs.evolve(measured("2n8d", 3000), id="older", started_at="2024-01-01T00:00:00+00:00")
    for name in ("a-older", "z-older"):
        ResultStore(store).open_run(name).write_result(attrs.evolve(older, id=name))
    assert main(["predict", str(store), "--to", "4n8d", "--json"]) == 5
    (prediction,) = json.loads(capfd.readouterr().out)["predictions"]
    assert prediction["throughput"] > 9000


def test_nothing_to_predict_from(store, tmp_path, capfd):
    assert main(["predict", str(store), "--to", "2n4d"]) == 2
    assert "two numbers of nodes with 4 devices each" in " ".join(capfd.readouterr().err.split())
    assert main(["predict", str(tmp_path / "none"), "--to", "4n8d"]) == 2
    assert main(["predict", str(store), "--to", "4d"]) == 2


def test_without_published_series_nothing_is_predicted(store, monkeypatch, capfd):
    monkeypatch.setattr("dlperf_sdk.cli.predicting.published_series", tuple)
    assert main(["predict", str(store), "--to", "4n8d"]) == 2
    assert "pip install --find-links dist dlperf-published" in " ".join(capfd.readouterr().err.split())


def test_the_report_shows_the_next_larger_topology(store, capfd):
    assert main(["report", str(store), "--format", "markdown"]) == 0
    page = capfd.readouterr().out
    assert "4n8d (predicted, 90 % interval)" in page
    assert "The dotted lines predict" in page
