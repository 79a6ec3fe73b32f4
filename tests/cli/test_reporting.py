"""`dlperf report` in all its formats, on standard output and in files."""

import csv
import io
import json
import os
import re
import stat

import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401 - fixtures
from result_samples import a_result, fact

from dlperf_sdk.cli import main


@pytest.fixture
def umask():
    """A usual one, and the old one afterwards."""
    old = os.umask(0o022)
    yield
    os.umask(old)


def test_html_goes_into_a_file_that_the_umask_makes_readable(dlperf, stored, tmp_path, umask):
    stored(id="a")
    stored(id="b", fields={"precision": "amp-bf16"})
    code, out, err = dlperf("report", "--format", "html", "-o", "report.html")
    assert (code, out) == (0, "")
    assert "report.html: " in err
    document = (tmp_path / "report.html").read_text()
    assert document.startswith("<!doctype html>\n<html")
    assert "amp-bf16" in document
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o644
    # Nothing but the file is left beside the results.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlperf-results", "report.html"]


def test_html_goes_into_a_pipe_and_not_onto_a_terminal(dlperf, stored, monkeypatch):
    stored()
    code, out, _ = dlperf("report", "--format", "html")
    assert code == 0
    assert out.rstrip().endswith("</html>")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, err = dlperf("report", "--format", "html")
    assert (code, out) == (2, "")
    assert "name a file with -o" in err


@pytest.mark.parametrize(
    ("file", "begins"),
    [
        ("r.html", "<!doctype html>"),
        ("r.md", "## benchmark report"),
        ("r.csv", "id,"),
        ("r.json", "["),
        ("r.txt", "torch resnet50"),
    ],
)
def test_the_suffix_of_the_file_decides_the_format(dlperf, stored, tmp_path, file, begins):
    stored()
    code, out, err = dlperf("report", "--output", file)
    assert (code, out) == (0, "")
    assert file in err
    assert (tmp_path / file).read_text().lower().startswith(begins)


def test_markdown_of_one_result_has_the_sections_of_its_html(dlperf, stored):
    stored()
    code, text, _ = dlperf("report", "--format", "markdown")
    assert code == 0
    _, page, _ = dlperf("report", "--format", "html")
    sections = re.findall(r'<h2 id="heading-[0-9]+">([^<]+)</h2>', page)
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert len(sections) > 3
    assert [heading for heading in headings if heading in sections] == sections


def test_missing_html_dependency_is_named(dlperf, stored, monkeypatch):
    stored()
    monkeypatch.setattr("dlperf_sdk.reports.html.render._NEEDED", ("not_there_at_all",))
    code, out, err = dlperf("report", "--format", "html")
    assert (code, out) == (2, "")
    assert "dlperf-sdk[report]" in " ".join(err.split())
    assert dlperf("report", "--format", "markdown")[0] == 0


def test_html_lists_unreadable_results(dlperf, stored, tmp_path):
    stored(id="good")
    newer = stored(id="newer")
    path = tmp_path / "dlperf-results" / newer.id / "result.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "schema_version": "7.0"}))
    (tmp_path / "dlperf-results" / "unfinished" / "attempts").mkdir(parents=True)
    code, out, _ = dlperf("report", "--format", "html")
    assert code == 5
    assert "What could not be read" in out
    assert "7.0" in out
    assert "unfinished has no result yet" in out


def test_a_redacted_report_names_no_host(dlperf, stored):
    stored(hardware=({"host": "secret-node-7"},), notes=("secret-node-7 was busy",))
    assert "secret-node-7" in dlperf("report", "--format", "html")[1]
    assert "secret-node-7" not in dlperf("report", "--format", "html", "--redact")[1]


def test_a_redacted_report_of_names_in_a_store_does_not_say_where_that_is(dlperf, stored, tmp_path):
    good = stored(id="20250131T101502Z-good")
    (tmp_path / "secret").mkdir()
    store = (tmp_path / "dlperf-results").rename(tmp_path / "secret" / "s")
    (store / "cut" / "attempts" / "1").mkdir(parents=True)
    (store / "cut" / "attempts" / "1" / "attempt.json").write_text("{")
    _, out, err = dlperf("report", good.id, "cut", "--store", str(store), "--redact")
    assert "secret" in "".join(dlperf("report", "cut", "--store", str(store))[1:])
    assert "secret" not in out + err
    assert "attempts/1/attempt.json" in out + err  # and what stands inside of a path stays


@pytest.mark.parametrize("where", ["home/zoltan/res", "scratch/wilhelmina/res"])
@pytest.mark.parametrize("named", ["{folder}", "../{relative}", "{folder}/broken"])
def test_redacted_report_has_no_user_in_a_path(dlperf, stored, tmp_path, monkeypatch, where, named):
    """Also not where runs are broken, or have no result."""
    good, broken = stored(), stored(id="broken")
    folder = tmp_path / where
    folder.parent.mkdir(parents=True)
    (tmp_path / "dlperf-results").rename(folder)
    (folder / broken.id / "result.json").write_text("{")
    (folder / "cut" / "attempts" / "1").mkdir(parents=True)
    (folder / "cut" / "attempts" / "1" / "attempt.json").write_text("{")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = [named.format(folder=folder, relative=where), str(folder / good.id), str(folder / "cut")]
    assert where.split("/")[1] in "".join(dlperf("report", *words)[1:])
    for form in ("terminal", "markdown", "html"):
        code, out, err = dlperf("report", *words, "--format", form, "--redact")
        assert code == 5
        assert "broken" in err
        assert not [name for name in ("zoltan", "wilhelmina", str(tmp_path)) if name in out + err], form
    _, out, err = dlperf("export", *words, "--to", "csv", "--redact")
    assert not [name for name in ("zoltan", "wilhelmina", str(tmp_path)) if name in out + err]


def test_json_is_the_results_and_csv_a_row_for_each(dlperf, stored):
    stored(id="a")
    stored(id="b")
    actual = json.loads(dlperf("report", "--format", "json")[1])
    assert sorted(item["id"] for item in actual) == ["a", "b"]
    rows = list(csv.DictReader(io.StringIO(dlperf("report", "--format", "csv")[1], newline="")))
    assert len(rows) == 2
    assert {row["framework"] for row in rows} == {"torch"}


def test_csv_on_a_terminal_does_not_steer_it(dlperf, stored, monkeypatch):
    version = fact("framework_version", "context", "\x1b]0;stolen\x07\x9b2J")
    stored(facts=(*a_result().facts, version))
    for words in (["report", "--format", "csv"], ["export", "--to", "csv"]):
        assert not {"\x1b", "\x07", "\x9b"} & set(dlperf(*words)[1])
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout.isatty", lambda: True, raising=False)
            out = dlperf(*words)[1]
        assert not {"\x1b", "\x07", "\x9b", "\r"} & set(out)
        assert "]0;stolen" in out


def test_json_of_a_written_report_has_its_path(dlperf, stored, tmp_path):
    stored()
    output = json.loads(dlperf("report", "--format", "markdown", "-o", "report.md", "--json")[1])
    assert output == {"file": "report.md", "bytes": (tmp_path / "report.md").stat().st_size}


@pytest.mark.parametrize(
    "words, output",
    [
        (["--format", "htm"], "There is no format of reports named 'htm'. Did you mean 'html'?"),
        (["--format", "html", "-o", "/nowhere/at/all.html"], "/nowhere/at/all.html cannot be written"),
        (["--format", "html", "--json"], "--json prints an object, and html is another"),
        (["--published", "tensorpak", "--format", "html"], "Did you mean 'tensorpack'?"),
    ],
)
def test_impossible_requests_are_reported(dlperf, stored, words, output):
    stored()
    code, _, err = dlperf("report", *words)
    assert code == 2
    assert output in " ".join(err.split())


def test_a_file_that_cannot_be_written_leaves_nothing(dlperf, stored, tmp_path):
    stored()
    (tmp_path / "taken").mkdir()
    code, _, err = dlperf("report", "--format", "html", "-o", "taken")
    assert code == 2
    assert "taken cannot be written" in " ".join(err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlperf-results", "taken"]


@pytest.mark.long
def test_published_figures_as_html(tmp_path):
    words = ["--published", "dlperf-v1.0", "--format", "html", "-o", str(tmp_path / "it.html")]
    assert main(["report", *words]) == 0
    assert 1_000_000 < (tmp_path / "it.html").stat().st_size < 5_000_000
