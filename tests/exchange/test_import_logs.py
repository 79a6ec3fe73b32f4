"""Imported results: what the core makes of an importer's reading, and third parties' importers."""

import hashlib

import pytest
from result_samples import a_result

from dlperf_sdk.analysis import Case, compare
from dlperf_sdk.errors import NotComparable, PluginError, UnknownName, UsageError
from dlperf_sdk.exchange.import_logs import import_logs
from dlperf_sdk.interfaces.importer import Importer, Reading
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import markdown, result_page, results_table
from dlperf_sdk.results.result import Result


class FirstLine(Importer):
    """Takes the throughput from the first line, and leaves the others."""

    name = "first-line"
    version = "7"
    facts = {
        "framework": "tensorflow",
        "model": "resnet50",
        "topology": "1n4d",
        "batch_size": 64,
        "data": "synthetic",
    }

    def read(self, log, given):
        for line, text in log:
            if not text.isdecimal():
                raise log.error_at(line, "this is no number")
            return Reading("counter", self.facts, float(text), "loop-elapsed", "images over the loop's time")
        raise log.error_missing("a number")


class Broken(FirstLine):
    name = "broken"

    def read(self, log, given):
        raise KeyError("nothing")


REGISTRY = Registry({"importers": {"first-line": FirstLine, "broken": Broken}})
FP32 = {"precision": "fp32"}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("1418\nmore\nlines\n")
    return path


def test_the_whole_file_has_a_checksum_though_the_importer_stops_early(log):
    (result,) = import_logs("first-line", [log], FP32, REGISTRY)
    (source,) = result.imported.sources
    assert (source.name, source.lines) == ("run.log", 3)
    assert source.sha256 == hashlib.sha256(log.read_bytes()).hexdigest()
    assert (result.imported.importer, result.imported.version) == ("first-line", "7")
    assert result.metric("throughput").value == 1418
    assert Result.from_dict(result.to_dict()) == result


def test_logs_that_differ_after_the_read_part_are_different(log, tmp_path):
    other = tmp_path / "other.log"
    other.write_text("1418\nother\nlines\n")
    (result,) = import_logs("first-line", [log, other], FP32, REGISTRY)
    assert result.metric("throughput").repeats == (1418, 1418)
    other.write_bytes(log.read_bytes())
    with pytest.raises(UsageError, match="are the same log"):
        import_logs("first-line", [log, other], FP32, REGISTRY)


def test_a_window_cannot_be_chosen_where_there_is_none(log):
    with pytest.raises(UnknownName, match="no fact of an imported case named 'steps'"):
        import_logs("first-line", [log], {**FP32, "steps": 5}, REGISTRY)


def test_an_importer_that_fails_is_named(log):
    with pytest.raises(
        PluginError, match=r"broken's plugin \(given at run time\) cannot read .*run.log: KeyError"
    ):
        import_logs("broken", [log], FP32, REGISTRY)


def test_a_comparison_names_the_estimator(log):
    (imported,) = import_logs("first-line", [log], FP32, REGISTRY)
    ours = a_result(fields={"framework": "tensorflow", "topology": "1n4d", "batch_size": 64})
    with pytest.raises(NotComparable) as refused:
        compare(imported, ours)
    assert "estimator: loop-elapsed against elapsed" in refused.value.reasons
    assert "estimator: loop-elapsed against elapsed" in compare(imported, ours, footnoted=True).reasons
    assert "precision" in Case.from_source(imported).facts


def test_report_marks_imported_results(log):
    (imported,) = import_logs("first-line", [log], FP32, REGISTRY)
    alone = markdown.text_of(result_page.page(imported))
    assert "imported, not verified" in alone
    assert "run.log" in alone and imported.imported.sources[0].sha256[:12] in alone
    assert "images over the loop" in alone
    assert "No interval: 1 repeat, six are needed" in alone
    assert "dlperf-v1" not in alone.replace("\\", "") and "seed" not in alone
    ours = a_result(fields={"framework": "tensorflow", "topology": "1n4d", "batch_size": 64})
    beside = markdown.text_of(results_table.pages([imported, ours]))
    assert "2 workloads, which cannot be compared: they differ in imported" in beside
    assert "imported, not verified" in beside
