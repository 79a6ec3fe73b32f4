"""`export` and `import` on the command line."""

import csv
import io
import json
import os
import stat

import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401 - fixtures

from dlperf_sdk.results.store import ResultStore


def test_export_prints_a_table(dlperf, stored):
    result = stored()
    code, out, err = dlperf("export", "--to", "csv")
    assert (code, err) == (0, "")
    (row,) = csv.DictReader(io.StringIO(out, newline=""))
    assert (row["id"], row["throughput"]) == (result.id, "203.0")


@pytest.mark.parametrize(
    ("to", "begins"),
    [("csv", b"id,"), ("parquet", b"PAR1"), ("markdown", b"## resnet50"), ("mllog", b":::MLLOG {")],
)
def test_export_file_follows_the_umask(dlperf, stored, to, begins, tmp_path):
    stored()
    umask = os.umask(0o027)
    os.umask(umask)
    code, out, err = dlperf("export", "--to", to, "-o", "out.file")
    assert (code, out) == (0, "")
    assert "out.file" in err
    path = tmp_path / "out.file"
    assert path.read_bytes().startswith(begins)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    code, out, _ = dlperf("export", "--to", to, "-o", "out.file", "--json")
    assert json.loads(out) == {"file": "out.file", "bytes": path.stat().st_size}


def test_export_of_nothing_is_an_error_and_of_some_is_partial(dlperf, stored, tmp_path):
    code, out, err = dlperf("export", "--to", "csv")
    assert (code, out) == (2, "")
    assert "There are no results" in err
    stored()
    (tmp_path / "dlperf-results/broken").mkdir()
    (tmp_path / "dlperf-results/broken/result.json").write_text("{")
    code, out, err = dlperf("export", "--to", "csv")
    assert (code, len(out.splitlines())) == (5, 2)
    assert "broken" in err


def test_export_redacts(dlperf, stored):
    stored(hardware=({"host": "secrethost"},), notes=("on secrethost",))
    for to in ("csv", "mllog", "markdown"):
        assert "secrethost" not in dlperf("export", "--to", to, "--redact")[1]


def test_export_names_the_unwritable_path(dlperf, stored):
    stored()
    code, _, err = dlperf("export", "--to", "csv", "-o", "no/such/place.csv")
    assert code == 2 and "cannot be written" in err
    code, _, err = dlperf("export", "--to", "csv", "--json")
    assert code == 2 and "name a file with -o" in err
    code, _, err = dlperf("export", "--to", "xls")
    assert code == 2


def test_import_makes_a_result_that_report_shows(dlperf, tmp_path):
    record = 'DLLL {{"type": "LOG", "step": [0, {0}], "data": {{"loss": 1}}, "timestamp": "{0}"}}\n'
    (tmp_path / "run.log").write_text("".join(record.format(step) for step in range(130)))
    case = ("framework=torch", "model=resnet50", "topology=1n1d", "batch_size=64", "precision=fp32")
    words = ["import", "dllogger", "run.log", *(word for fact in case for word in ("--set", fact))]
    code, out, err = dlperf(*words, "--json")
    assert (code, err) == (0, "")
    (plain,) = json.loads(out)["results"]
    assert plain["imported"]["sources"][0]["name"] == "run.log"
    (result,) = ResultStore("dlperf-results")
    assert result.id == plain["id"]
    code, out, _ = dlperf("report")
    assert code == 0 and "imported, not verified" in out
    code, out, _ = dlperf("validate", f"dlperf-results/{result.id}/result.json")
    assert code == 0
    code, out, err = dlperf("export", "--to", "csv")
    assert ",elapsed-between-lines," in out


def test_import_refuses_unreadable_logs(dlperf, tmp_path):
    (tmp_path / "run.log").write_text("words\n")
    for words, output in (
        (["tf-cnn-benchmark", "run.log"], "Did you mean 'tf-cnn-benchmarks'"),
        (["dllogger"], "There is no log"),
        (["dllogger", "run.log"], "does not state the topology"),
        (["dlperf-log", "run.log"], "ends after line 1"),
        (["tf-cnn-benchmarks", "none.log"], "cannot be read"),
    ):
        code, out, err = dlperf("import", *words)
        assert (code, out) == (2, "")
        assert output in " ".join(err.split())
    assert not (tmp_path / "dlperf-results").exists()
