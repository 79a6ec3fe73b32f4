"""Results that are odd: analysis and reports say so, in a sentence, and never with a zero."""

import json
import math

import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401 - fixtures
from result_samples import a_result

from dlperf_sdk.analysis import (
    Case,
    Price,
    cases,
    compare,
    cost,
    effect,
    efficiency,
    predict,
    speedup,
)
from dlperf_sdk.errors import AnalysisError, DlperfError
from dlperf_sdk.exchange.csv_table import read_csv, to_csv
from dlperf_sdk.exchange.mllog import to_mllog
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import html, markdown, result_page, results_table, terminal
from dlperf_sdk.results import table
from dlperf_sdk.results.records import Failure

ODD = (math.nan, math.inf, -math.inf, 0.0, -1.0)


def rated(value, topology="1n1d", repeats=(), **fields):
    return a_result(
        metrics=(Metric("throughput", "img/s", value, repeats=repeats),),
        fields={"topology": topology, **fields},
    )


@pytest.mark.parametrize("value", ODD)
def test_no_analysis_takes_a_throughput_that_is_none(value):
    odd, fine = rated(value), rated(100.0, "1n2d")
    for ask in (
        lambda: Case.from_source(odd),
        lambda: cases([fine, odd]),
        lambda: speedup(fine, [odd]),
        lambda: efficiency(odd, [fine]),
        lambda: effect([fine, odd], factor="topology"),
        lambda: compare(odd, fine),
        lambda: predict([fine, odd], topology="8n8d", reference=[fine]),
        lambda: cost(odd, price=Price(per_device_hour=1)),
    ):
        with pytest.raises(AnalysisError, match=f"throughput of .* is {value}"):
            ask()


@pytest.mark.parametrize("value", ODD)
def test_a_report_shows_it_as_it_is(value):
    odd = rated(value)
    for blocks in (result_page.page(odd), results_table.pages([odd, rated(100.0)])):
        for text in (terminal.text_of(blocks), markdown.text_of(blocks)):
            assert str(abs(value)).removesuffix(".0") in text
    assert read_csv(to_csv([odd]))[0]["throughput"] == pytest.approx(value, nan_ok=True)
    assert '"dlperf_throughput"' in to_mllog([odd])


def test_one_repeat_has_no_interval_and_a_note():
    one = rated(100.0, repeats=(100.0,))
    assert "No interval: 1 repeat, six are needed." in terminal.text_of(result_page.page(one))
    actual = speedup(rated(190.0, "1n2d", (190.0,)), [one])
    assert (actual.value, actual.low, actual.high) == (1.9, None, None)
    compared = compare(one, rated(110.0, repeats=(110.0,)))
    assert (compared.low, compared.high, compared.significant) == (None, None, None)
    assert cost(one, watts=10).energy.low is None


def test_no_speedup_without_a_baseline():
    for ask in (speedup, efficiency):
        actual = ask(rated(190.0, "1n2d"), [rated(380.0, "1n4d")])
        assert (actual.value, actual.baseline, actual.low) == (None, None, None)
        assert actual.reason == "There is no 1n1d of this case with the batch per device held."
        twice = ask(rated(190.0, "1n2d"), [rated(100.0), rated(101.0)])
        assert twice.value is None and "There are 2 1n1d" in twice.reason


@pytest.mark.parametrize("version", ["2.0", "0.9", "1.99", None, 7])
def test_other_versions_are_refused_by_name(dlperf, stored, tmp_path, version):
    good = stored()
    document = good.to_dict() | {"schema_version": version, "id": "other"}
    if version == "1.99":
        document["what_is_new"] = 1
    (tmp_path / "dlperf-results/other").mkdir()
    (tmp_path / "dlperf-results/other/result.json").write_text(json.dumps(document))
    for words in (["report"], ["export", "--to", "csv"], ["cost", "--watts", "1"]):
        code, out, err = dlperf(*words)
        output = " ".join(err.split())
        assert code == 5
        assert "dlperf-results/other" in output
        assert ("of version" in output) == isinstance(version, str)
        assert "203.0" in out


@pytest.mark.parametrize(
    "words", [["report"], ["export", "--to", "csv"], ["cost", "--watts", "1"], ["validate"]]
)
def test_empty_directory_is_reported(dlperf, tmp_path, words):
    (tmp_path / "empty").mkdir()
    code, out, err = dlperf(*words, "empty")
    assert (code, out) == (2, "")
    assert "There are no results in empty yet" in " ".join(err.split())


@pytest.mark.long
def test_thousands_of_results_of_which_many_failed():
    failed = [
        a_result(id=f"r{n}", status="crashed", failure=Failure("crashed", f"Number {n}."), metrics=())
        for n in range(1500)
    ]
    fine = [rated(100.0 + n, batch_size=1 + n % 7, seed=n % 50) for n in range(1500)]
    text = markdown.text_of(results_table.pages([*failed, *fine]))
    assert "Number 1499." in text
    assert len(read_csv(to_csv([*failed, *fine]))) == 3000


def test_a_store_with_nothing_but_failures_is_shown(dlperf, stored):
    stored(status="crashed", failure=Failure("crashed", "It broke."), metrics=(), workload=None, verdicts=())
    for words in (["report"], ["export", "--to", "csv"], ["export", "--to", "mllog"]):
        code, out, _ = dlperf(*words)
        assert code == 0 and "crashed" in out
    code, _, err = dlperf("cost", "--watts", "1")
    assert code == 5 and "has no throughput: its status is crashed" in " ".join(err.split())


@pytest.mark.parametrize("value", [5e-324, 1e308])
def test_impossible_throughput_is_refused(value):
    with pytest.raises(AnalysisError, match="which is impossible"):
        Case.from_source(rated(value))
    assert "which is impossible" in html.report_on_results([rated(value), rated(value, "1n2d")])


@pytest.mark.parametrize("value", [*ODD, 1e308])
def test_invalid_repeat_is_reported_and_not_used(value):
    odd = rated(100.0, repeats=(value, *(100.0 + step for step in range(6))))
    with pytest.raises(AnalysisError, match="A repeat of .* has the throughput"):
        speedup(rated(190.0, "1n2d", tuple(190.0 + step for step in range(7))), [odd])
    assert "throughput is 100.0, but its repeats give" in html.report_on_results([odd, rated(190.0, "1n2d")])


def test_unresolved_batch_size_is_shown_and_not_compared():
    lost = rated(100.0, batch_size="max")
    for blocks in (result_page.page(lost), results_table.pages([lost, rated(100.0)])):
        text = terminal.text_of(blocks)
        assert "max" in text or "the largest per device × 1 device; none was found" in text
    assert table.rows([lost])[0]["batch_size"] is None
    assert '"global_batch_size"' not in to_mllog([lost])
    assert "of no batch size" in html.report_on_results([lost, rated(100.0)])
    with pytest.raises(AnalysisError, match="of no batch size"):
        Case.from_source(lost)


def test_every_refusal_is_one_of_ours():
    with pytest.raises(DlperfError):
        effect([rated(1.0)], factor="precision")
