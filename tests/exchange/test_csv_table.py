"""Results as a table: nothing is lost, nothing in a cell is run, and CSV and Parquet read back equal."""

import csv
import io
import math
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.exchange.csv_table import LONGEST_CELL, csv_text, read_csv, to_csv
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import table
from dlperf_sdk.results.result import Fact, Verdict

few = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
lists = st.lists(any_results(), max_size=3)


def same(a, b):
    """Equal, where NaN is NaN."""
    both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return type(a) is type(b) and (a == b or both_nan)


@pytest.mark.long
@few
@given(lists)
def test_any_results_are_a_table(results):
    """Made once for all that holds of it: to draw results takes much longer than to look at their table."""
    _csv_reads_back_equal(results)
    _a_row_holds_plain_values_of_its_columns_kind(results)
    _no_cell_of_text_begins_as_a_formula_does(results)


def _csv_reads_back_equal(results):
    rows = table.rows(results)
    back = read_csv(to_csv(results))
    assert len(back) == len(rows) == len(results)
    for row, read in zip(rows, back, strict=True):
        assert list(row) == list(read) == [column.name for column in table.columns(results)]
        assert all(same(row[name], read[name]) for name in row)


def _a_row_holds_plain_values_of_its_columns_kind(results):
    columns = table.columns(results)
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.name.isascii() and column.name.isidentifier() for column in columns)
    assert columns[: len(table.COLUMNS)] == table.COLUMNS
    for row in table.rows(results):
        for column in columns:
            value = row[column.name]
            assert value is None or type(value) is column.kind
            assert value != ""


def _no_cell_of_text_begins_as_a_formula_does(results):
    text = to_csv(results)
    header, *lines = csv.reader(io.StringIO(text, newline=""))
    kinds = [column.kind for column in table.columns(results)]
    assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r")) for name in header)
    for line in lines:
        for kind, cell in zip(kinds, line, strict=True):
            assert kind is not str or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", " =1", "＝1", "＠A", "'=1", "''", "a,b", 'a"b', "a\nb"],
)
def test_a_formula_is_marked_and_comes_back(text):
    facts = (Fact("layout", "factor", "nhwc", text),)
    metric = Metric(text, text, 1.0)
    result = a_result(facts=facts, metrics=(metric,))
    (row,) = read_csv(to_csv([result]))
    assert row["layout"] == text
    (name,) = [name for name, value in row.items() if type(value) is float]
    assert row[f"{name}_unit"] == text
    cells = [cell for line in csv.reader(io.StringIO(to_csv([result]), newline="")) for cell in line]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＠"))]


@pytest.mark.parametrize(
    "text",
    [";=1", "a;=1,b", "a; +1", 'a;"=1', "a;@A", "a;－1", "a\n=1", "a\t\t-1", ";';'=1", "a;\n;'", "a;b"],
)
@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_formula_is_marked_where_another_separator_would_begin_a_cell(text, separator):
    written = to_csv([a_result(facts=(Fact("layout", "factor", "nhwc", text),))])
    assert read_csv(written)[0]["layout"] == text
    cells = [
        cell for line in csv.reader(io.StringIO(written, newline=""), delimiter=separator) for cell in line
    ]
    assert not [cell for cell in cells if cell.lstrip(' "').startswith(("=", "+", "-", "@", "＝", "－"))]


def test_a_long_cell_is_cut_so_that_every_reader_takes_it():
    text = "x" * (2 * csv.field_size_limit())
    (row,) = read_csv(to_csv([a_result(facts=(Fact("layout", "factor", "nhwc", text),))]))
    assert row["layout"] == "x" * (LONGEST_CELL - 1) + "…"
    longest = text[:LONGEST_CELL]
    (row,) = read_csv(to_csv([a_result(facts=(Fact("layout", "factor", "nhwc", longest),))]))
    assert row["layout"] == longest


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r=1", "\x00", "\u202eabc"])
def test_no_cell_steers_a_terminal(text):
    metric = Metric(text, text, 1.0)
    written = to_csv([a_result(facts=(Fact("layout", "factor", "nhwc", text),), metrics=(metric,))])
    assert all(char.isprintable() or char in "\t\r\n" for char in written)
    assert written.count("\r") == written.count("\r\n") == 2
    (row,) = read_csv(written)
    assert row["layout"] == replace_control_characters(text)
    assert [name.isidentifier() for name, value in row.items() if type(value) is float] == [True]


def test_unknown_cells_are_empty_and_non_finite_values_are_text():
    metrics = (Metric("loss", "", math.nan, -math.inf, math.inf), Metric("throughput", "img/s", 1e-300))
    result = a_result(metrics=metrics)
    text = to_csv([result, a_result(metrics=())])
    first, second = read_csv(text)
    assert math.isnan(first["loss"])
    assert (first["loss_low"], first["loss_high"]) == (-math.inf, math.inf)
    assert (first["throughput"], first["throughput_low"]) == (1e-300, None)
    assert (second["loss"], second["throughput"], second["throughput_unit"]) == (None, None, None)
    assert not {"0", "0.0"} & set(text.splitlines()[2].split(",")[len(table.COLUMNS) :])


def test_value_is_the_observed_else_the_requested_one():
    facts = (
        Fact("precision", "factor", "amp-fp16", "fp32"),
        Fact("layout", "factor", "nhwc", None),
        Fact("compiler", "factor", "none", ["none", "xla"]),
    )
    verdicts = (
        Verdict("a", "integrity", "fail", ""),
        Verdict("b", "quality", "inconclusive", ""),
        Verdict("c", "quality", "inconclusive", ""),
    )
    (row,) = table.rows([a_result(facts=facts, verdicts=verdicts, fields={"options": {"image_size": 64}})])
    assert (row["precision"], row["layout"], row["compiler"]) == ("fp32", "nhwc", '["none", "xla"]')
    assert (row["ok"], row["failed"], row["inconclusive"]) == (False, "a", "b c")
    assert row["options"] == '{"image_size": 64}'
    assert row["framework_version"] is None


def test_unresolved_maximum_batch_size_is_unknown():
    (row,) = read_csv(to_csv([a_result(fields={"batch_size": "max"})]))
    assert (row["batch_size"], row["global_batch_size"]) == (None, None)


def test_metrics_named_like_columns_get_columns_of_their_own():
    metrics = (Metric("id", "s", 1.0), Metric("x", "s", 2.0, 1.5, 2.5), Metric("x.low", "s", 3.0))
    (row,) = table.rows([a_result(metrics=metrics)])
    assert row["id_2"] == 1.0
    assert (row["x"], row["x_low"], row["x_low_2"]) == (2.0, 1.5, 3.0)


def test_text_that_utf8_cannot_hold_is_written_out():
    result = attrs.evolve(a_result(), sdk_version="\ud800")
    text = to_csv([result])
    text.encode()
    assert read_csv(text)[0]["sdk_version"] == "\\ud800"


def test_no_results_are_a_header():
    text = to_csv([])
    assert text.strip().split(",") == [column.name for column in table.COLUMNS]
    assert read_csv(text) == []


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (lambda text: "", "Line 0"),
        (lambda text: "a,b\r\n1,2\r\n", "Line 1"),
        (lambda text: text + "one,two\r\n", "Line 3"),
        (lambda text: text.replace(",true,", ",perhaps,"), "Line 2"),
        (lambda text: text.replace(",32,", ",many,"), "Line 2"),
        (lambda text: text + '"open', "Line 3"),
    ],
)
def test_invalid_table_is_refused_with_its_line(change, output):
    with pytest.raises(DocumentError, match=output):
        read_csv(change(to_csv([a_result()])))


def test_the_documentation_has_every_column():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "exchange.md").read_text(encoding="utf-8")
    kinds = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    for column in table.COLUMNS:
        assert f"| `{column.name}` | {kinds[column.kind]} | {column.help} |" in page


@pytest.mark.timeout(30)
@pytest.mark.parametrize("blank", ["\t", "\n", "\n ", '\t"', ";\t "])
def test_a_cell_of_blank_lines_takes_no_time(blank):
    csv_text(["text"], [[blank * 100_000]])


def test_a_formula_behind_blank_lines_is_marked():
    assert csv_text(["text"], [["x\n \n =1"]]) == 'text\r\n"x\n \n\' =1"\r\n'
