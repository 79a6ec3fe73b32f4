"""Tables of profilers' traces: of one result, and of several side by side."""

from __future__ import annotations

import attrs
import result_samples

from dlperf_sdk.reports import markdown, result_page, results_table, terminal, traces
from dlperf_sdk.reports.html import measured
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.trace_summary import OperatorTime, TraceSummary


def traced(scale: float = 1.0, *names: str, communication: float | None = 0.2) -> Result:
    operators = tuple(OperatorTime(name, 4, scale / 2**i) for i, name in enumerate(names or ("mm", "add")))
    summary = TraceSummary(
        rank=0,
        steps=5,
        window=2.5 * scale,
        busy=2.0 * scale,
        idle=0.5 * scale,
        communication=communication,
        exposed_communication=None if communication is None else communication / 2,
        work=2.0 * scale,
        operators=operators,
    )
    return attrs.evolve(result_samples.a_result(), traces=(summary, attrs.evolve(summary, rank=1)))


def rows(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_one_result_has_times_and_operators():
    times, operators = traces.tables([traced()])
    assert "rank 0 of 2 traces, 5 steps" in times.title
    assert [column.title for column in times.columns] == ["time", "ms", "of the window"]
    assert rows(times)[:3] == [
        ["window", "500.00", "100.0%"],
        ["device busy", "400.00", "80.0%"],
        ["device idle", "100.00", "20.0%"],
    ]
    assert rows(operators) == [["mm", "200.0", "50.0%"], ["add", "100.0", "25.0%"]]


def test_two_results_stand_side_by_side():
    times, operators = traces.tables([traced(), traced(2.0, "mm", "mul", communication=None)])
    assert [column.title for column in times.columns][-1] == "B ÷ A"
    assert rows(times)[2] == ["device idle", "0.1000", "20.0%", "0.2000", "20.0%", "2.00"]
    assert rows(times)[3][3:] == ["–", "–", "–"]
    assert [row[0] for row in rows(operators)] == ["mm", "mul", "add"]
    assert rows(operators)[0][-1] == "2.00" and rows(operators)[1][1:3] == ["–", "–"]


def test_results_without_traces_and_too_many_have_no_table():
    assert traces.tables([result_samples.a_result()]) == []
    assert traces.tables([traced()] * (traces.MOST_RESULTS + 1)) == []
    assert len(traces.tables([traced(), result_samples.a_result(), traced(), traced()])) == 2


def test_a_summary_without_operators_has_no_table_of_them():
    result = traced()
    empty = attrs.evolve(result, traces=(attrs.evolve(result.traces[0], operators=()),))
    assert len(traces.tables([empty])) == 1
    assert [row[0] for row in rows(traces.tables([empty, result])[1])] == ["mm", "add"]


def test_times_of_zero_have_no_ratio():
    still = traced(communication=0.0)
    times, _ = traces.tables([still, still])
    assert rows(times)[3] == ["communication", "0.0", "0.0%", "0.0", "0.0%", "–"]


def test_each_report_has_the_tables():
    results = [traced(), traced(2.0)]
    assert "device idle" in terminal.text_of(result_page.page(results[0]))
    assert traces.TITLE in terminal.text_of(results_table.pages(results))
    assert "Operators by self time" in markdown.text_of(results_table.pages(results))
    assert traces.TITLE in [section.title for section in measured.page(results).sections]


def test_summaries_survive_the_store():
    result = traced()
    assert Result.from_dict(result.to_dict()).traces == result.traces
