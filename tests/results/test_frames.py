"""Results as data frames of real libraries: a row per result, repeat or step."""

import math
import sys

import pytest
from code_blocks import blocks_of, execute
from record_samples import repeat
from result_samples import a_result

from dlperf_sdk import to_arrow, to_pandas, to_polars
from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import table

MEASURED = a_result(repeats=(repeat(1), repeat(2)))
FAILED = a_result(metrics=(), status="timeout")


def as_rows(frame):
    """The rows of a frame of any library, with None where a value is missing."""
    if hasattr(frame, "to_pylist"):
        return frame.to_pylist()
    if hasattr(frame, "to_dicts"):
        return frame.to_dicts()
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{name: None if value is None else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("convert", [to_arrow, to_pandas, to_polars])
def test_a_row_per_result_is_the_exported_table(convert):
    assert as_rows(convert([MEASURED, FAILED])) == table.rows([MEASURED, FAILED])


@pytest.mark.parametrize("convert", [to_arrow, to_pandas, to_polars])
def test_a_row_per_repeat_has_each_metrics_value(convert):
    rows = as_rows(convert([MEASURED, FAILED], per="repeat"))
    assert [row["repeat"] for row in rows] == list(range(1, 8))
    assert [row["throughput"] for row in rows] == list(MEASURED.metric("throughput").repeats)
    assert {row["throughput_unit"] for row in rows} == {"img/s"}
    # The peak is known of the first repeat only.
    assert [row["peak_host_memory"] is None for row in rows] == [False] + [True] * 6
    assert {row["framework"] for row in rows} == {"torch"}


@pytest.mark.parametrize("convert", [to_arrow, to_pandas, to_polars])
def test_a_row_per_step_has_its_duration(convert):
    rows = as_rows(convert([MEASURED], per="step"))
    records = [(number, record) for number, one in enumerate(MEASURED.repeats, 1) for record in one.records]
    expected = [
        (number, record.rank, step, seconds)
        for number, record in records
        for step, seconds in enumerate(record.step_times)
    ]
    assert [(row["repeat"], row["rank"], row["step"], row["seconds"]) for row in rows] == expected
    losses = [replica.losses[0] for replica in records[0][1].replicas]
    assert rows[0]["loss"] == pytest.approx(math.fsum(losses) / len(losses))


@pytest.mark.parametrize("per", ["repeat", "step"])
def test_a_repeat_after_a_failed_attempt_keeps_its_number(per):
    two = Metric("throughput", "img/s", 203.0, None, None, (200.0, 206.0), "samples over the slowest window")
    result = a_result(metrics=(two,), repeats=(repeat(1), repeat(3)))
    assert {row["repeat"] for row in as_rows(to_arrow([result], per=per))} == {1, 3}


@pytest.mark.parametrize("per", ["result", "repeat", "step"])
def test_no_results_are_an_empty_frame_with_the_same_columns(per):
    names = to_arrow([], per=per).schema.names
    assert names[0] == "id"
    assert list(to_pandas([], per=per).columns) == to_polars([], per=per).columns == names
    assert all(name.isidentifier() for name in names)


def test_methods_of_a_result_are_tables_of_one():
    assert MEASURED.to_arrow(per="step").equals(to_arrow([MEASURED], per="step"))
    assert MEASURED.to_pandas().equals(to_pandas([MEASURED]))
    assert MEASURED.to_polars().equals(to_polars([MEASURED]))


def test_a_misspelt_row_is_suggested():
    with pytest.raises(UnknownName, match="repeat"):
        to_arrow([], per="repeats")


@pytest.mark.parametrize(("convert", "library"), [(to_pandas, "pandas"), (to_polars, "polars")])
def test_a_missing_library_is_named(convert, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"pip install {library}"):
        convert([MEASURED])


@pytest.mark.parametrize("convert", [to_arrow, to_pandas, to_polars])
def test_a_number_beyond_64_bits_is_refused(convert):
    huge = a_result(fields={"topology": "999999n999999d", "batch_size": 2**31 - 1})
    for results in ([huge], [MEASURED, huge]):
        with pytest.raises(UsageError, match="do not fit"):
            convert(results)


@pytest.mark.long
def test_the_example_of_the_documentation(root, tmp_path):
    (example,) = [
        block
        for block in blocks_of(root / "docs" / "reference" / "exchange.md")
        if block.language == "python"
    ]
    output = execute(example, tmp_path)
    assert "throughput_unit" in output
