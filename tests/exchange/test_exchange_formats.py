"""Parquet and MLPerf's log lines: they read back as what they were."""

import io
import json
import math
import sys

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from result_samples import a_result
from result_values import results as any_results
from test_csv_table import same

from dlperf_sdk.errors import UsageError
from dlperf_sdk.exchange.mllog import to_mllog
from dlperf_sdk.exchange.parquet import to_parquet
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import table
from dlperf_sdk.results.result import Imported, Source

pytestmark = pytest.mark.long

few = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
lists = st.lists(any_results(), max_size=3)


# -- any results


@few
@given(lists)
def test_any_results_can_be_written(results):
    """Made once for both formats: to draw results takes much longer than to write them."""
    _each_line_is_an_event_of_mlperfs(results)
    rows = table.rows(results)
    assume(all(-(2**63) <= row["global_batch_size"] < 2**63 for row in rows))
    _parquet_reads_back_equal(results, rows)


def _each_line_is_an_event_of_mlperfs(results):
    entries = parsed(to_mllog(results))
    for number, entry in enumerate(entries, 1):
        assert list(entry) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
        assert type(entry["time_ms"]) is int
        assert entry["event_type"] in ("INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME")
        assert entry["metadata"]["lineno"] == number
        assert entry["metadata"]["file"] == "dlperf-sdk"
    starts = [entry["namespace"] for entry in entries if entry["key"] == "run_start"]
    assert starts == [result.id for result in results]
    assert starts == [entry["namespace"] for entry in entries if entry["key"] == "run_stop"]


def _parquet_reads_back_equal(results, rows):
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(io.BytesIO(to_parquet(results)))
    back = read.to_pylist()
    assert len(back) == len(rows) == len(results)
    assert read.schema.names == [column.name for column in table.columns(results)]
    for row, other in zip(rows, back, strict=True):
        assert all(same(row[name], other[name]) for name in row)


# -- Parquet


def test_parquet_columns_have_descriptions():
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(io.BytesIO(to_parquet([])))
    assert read.num_rows == 0
    for column, field in zip(table.COLUMNS, read.schema, strict=True):
        assert field.metadata[b"description"].decode() == column.help


def test_missing_pyarrow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install pyarrow"):
        to_parquet([a_result()])


def test_number_out_of_range_is_reported():
    result = a_result(fields={"topology": "999999n999999d", "batch_size": 2**31 - 1})
    with pytest.raises(UsageError, match="do not fit into an Arrow table"):
        to_parquet([result])


# -- MLPerf's lines


def parsed(text):
    """By the grammar: the token, then one JSON object of six fields."""
    entries = []
    for line in text.splitlines():
        token, _, rest = line.partition(" ")
        assert token == ":::MLLOG"
        entries.append(json.loads(rest, parse_constant=pytest.fail))
    return entries


@few
@given(lists)
def test_mlperfs_own_parser_takes_every_line(results):
    from mlperf_logging.compliance_checker.mlp_parser.ruleset_410 import parse_generator

    text = to_mllog(results)
    lines, errors = parse_generator(io.StringIO(text))
    assert errors == []
    assert [line.key for line in lines] == [entry["key"] for entry in parsed(text)]


def test_keys_are_mlperfs_or_say_that_they_are_ours():
    from mlperf_logging.mllog import constants

    theirs = {value for name, value in vars(constants).items() if name.isupper()}
    result = a_result(fields={"options": {"sequence_length": 128}})
    for entry in parsed(to_mllog([result])):
        assert entry["key"] in theirs or entry["key"].startswith("dlperf_"), entry["key"]


def test_requested_settings_have_the_start_time_and_results_the_end_time():
    metrics = (Metric("throughput", "img/s", 203.5, 200.0, math.inf), Metric("loss", "", math.nan))
    entries = parsed(to_mllog([a_result(metrics=metrics)]))
    actual = {entry["key"]: entry for entry in entries}
    start, end = 1738318502000, 1738318900000
    assert (actual["run_start"]["time_ms"], actual["run_stop"]["time_ms"]) == (start, end)
    assert actual["global_batch_size"]["value"] == 64 and actual["global_batch_size"]["time_ms"] == start
    assert actual["opt_name"]["value"] == "sgd"
    assert actual["submission_benchmark"]["value"] == "resnet"
    throughput = actual["dlperf_throughput"]
    assert (throughput["value"], throughput["time_ms"]) == (203.5, end)
    assert throughput["metadata"]["unit"] == "img/s"
    assert (throughput["metadata"]["low"], throughput["metadata"]["high"]) == (200.0, "inf")
    assert actual["dlperf_loss"]["value"] == "nan"
    assert actual["dlperf_verdict_replicas-equal"]["value"] == "pass"
    assert actual["run_stop"]["metadata"]["status"] == "success"


def test_an_imported_result_claims_no_samples():
    source = Imported("dllogger", "1", "DLLogger", "…", (Source("a.log", "0" * 64, 3),))
    keys = {e["key"]: e["value"] for e in parsed(to_mllog([attrs.evolve(a_result(), imported=source)]))}
    assert keys["dlperf_imported"] == "dllogger"
    assert "trained_samples" not in keys


def test_invalid_date_is_reported():
    with pytest.raises(UsageError, match="ran at 2025-99-99T00:00:00Z, which is not a date"):
        to_mllog([a_result(started_at="2025-99-99T00:00:00Z")])
