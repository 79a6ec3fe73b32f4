"""A static site: its pages, its links, what it replaces, and that no text in it becomes markup."""

import html
import os
import re

import attrs
import pytest
from history_samples import HOSTILE, fill
from result_samples import a_result

from dlperf_sdk.cli import main
from dlperf_sdk.errors import DocumentError, StoreError, Unavailable, UsageError
from dlperf_sdk.results.index import Index
from dlperf_sdk.results.result import Environment
from dlperf_sdk.results.store import ResultStore

site = pytest.importorskip("dlperf_sdk.reports.html.site", reason="The site needs the extra report.")
pytest.importorskip("altair", reason="The site needs the extra report.")

pytestmark = pytest.mark.usefixtures("own_cache")

RUNS = 120


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Index(ResultStore(fill(tmp_path_factory.mktemp("store"), RUNS)))


@pytest.fixture(scope="module")
def written(store, tmp_path_factory):
    """The directory of a site, and its size."""
    output = tmp_path_factory.mktemp("pages") / "site"
    return output, site.write_site(store, output, reports=1)


def texts(output):
    return {path: path.read_text(encoding="utf-8") for path in sorted(output.rglob("*.html"))}


def test_there_is_a_page_per_case_and_a_report_per_selected_run(store, written):
    output, size = written
    pages = texts(output)
    assert size.cases == len(list((output / "cases").iterdir())) == 6
    # The newest run of each case, and the two beside the only change.
    assert size.reports == len(list((output / "runs").iterdir())) == 8
    files = [path for path in output.rglob("*") if path.is_file() and path.name != site.MARKER]
    assert size.bytes == sum(path.stat().st_size for path in files)
    assert sum("vegaEmbed = vegaEmbed" in text for text in pages.values()) == 0
    index = pages[output / "index.html"]
    assert "−10.0 % on 2025-01-11" in index
    assert "framework_version 2.4 → 2.5" in index
    assert "1 result" in index  # that cannot be read
    (unreadable,) = size.unreadable
    assert unreadable.endswith("/20250101T000000Z-unreadable/result.json")
    assert store.location not in index


@pytest.mark.parametrize(("runs", "state"), [(7, "too few runs"), (12, "no change")])
def test_the_first_page_distinguishes_no_change_from_too_few_runs(tmp_path, runs, state):
    store = Index(ResultStore(fill(tmp_path / "store", runs * 6)))
    site.write_site(store, tmp_path / "site", reports=1)
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    other = {"too few runs": "no change", "no change": "too few runs"}[state]
    assert state in index
    assert other not in index.lower()
    assert (f"({runs} of 9)" in index) == (state == "too few runs")


def test_every_link_leads_to_a_page_of_the_site(written):
    output, _ = written
    pages = texts(output)
    linked = {output / "index.html"}
    for path, text in pages.items():
        # Those in rows that a script shows are JSON.
        addresses = set(re.findall(r'(?:href|src)="([^"#]+)"', text)) | set(
            re.findall(r',"([^"]+\.html)"\]', text)
        )
        assert addresses, path
        for address in addresses:
            target = (path.parent / html.unescape(address)).resolve()
            assert target.is_file(), f"{path.name}: {address}"
            linked.add(target)
    assert {path.resolve() for path in pages} <= {path.resolve() for path in linked}


def test_no_text_of_a_result_becomes_markup(written):
    output, _ = written
    for path, text in texts(output).items():
        assert HOSTILE not in text, path
        assert "<img" not in text, path
        assert "http" not in re.sub(r"http-equiv|http://www.w3.org/\S+", "", text), path
    assert not [path for path in output.rglob("*") if "onerror" in path.name]


def test_a_site_replaces_an_earlier_one_and_nothing_else(store, tmp_path):
    output = tmp_path / "site"
    site.write_site(store, output, reports=2)
    stale = output / "cases" / "000000000000.html"
    stale.write_text("a case that is gone")
    mine = output / "robots.txt"
    mine.write_text("mine")
    assert site.write_site(store, output, reports=0).reports == 2
    assert not stale.exists()
    assert mine.read_text() == "mine"
    assert len(list((output / "runs").iterdir())) == 2


def test_a_directory_with_other_files_is_refused(store, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="is no site of dlperf's"):
        site.write_site(store, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_nothing_is_written_through_links(store, tmp_path):
    output, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    output.mkdir()
    (output / site.MARKER).touch()
    (output / "cases").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="symbolic link"):
        site.write_site(store, output)
    (output / "cases").unlink()
    target = tmp_path / "index.txt"
    target.write_text("mine")
    (output / "index.html").symlink_to(target)
    site.write_site(store, output, reports=0)
    assert target.read_text() == "mine"
    assert not (output / "index.html").is_symlink()
    assert list(elsewhere.iterdir()) == []
    (output / site.MARKER).unlink()
    (output / site.MARKER).symlink_to(target)
    os.utime(target, (0, 0))
    with pytest.raises(UsageError, match="no site of dlperf's"):
        site.write_site(store, output)
    assert target.stat().st_mtime == 0


def test_each_report_is_redacted(store, tmp_path):
    output = tmp_path / "site"
    redaction = site.Redaction(
        lambda result: attrs.evolve(result, notes=("made anonymous",)), lambda results: lambda text: text
    )
    site.write_site(store, output, 1, redaction)
    reports = [path.read_text(encoding="utf-8") for path in (output / "runs").iterdir()]
    assert len(reports) == 8
    assert all("made anonymous" in report for report in reports)


def test_the_command_reports_results_that_cannot_be_read(tmp_path, capsys):
    results = ResultStore(tmp_path / "store")
    for name in ("a", "b"):
        results.open_run(name).write_result(a_result(id=name))
    (results.directory / "b" / "result.json").write_text("{")
    assert main(["site", str(results.directory), "--output", str(tmp_path / "site")]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"Left out: 1 result that cannot be read: {results.directory}/b/result.json. ")
    assert "1 case" in second


def test_no_page_has_a_name_of_a_host_or_user(tmp_path):
    fields = {"topology": "2n1d@ssh", "options": {"hosts": "nodeq7,nodeq8"}, "labels": {"by": "JDOEQ_tmp"}}
    result = a_result(
        fields=fields,
        hardware=({"host": "nodeq7", "user": "jdoeq"},),
        environment=Environment("given", "3.11.7", "", ("/home/jdoeq/bin/python",), {}, ""),
    )
    results = ResultStore(tmp_path / "store")
    results.open_run(result.id).write_result(result)
    output = tmp_path / "site"
    assert main(["site", str(results.directory), "--output", str(output), "--redact"]) == 0
    pages = texts(output)
    assert len(pages) >= 2
    for name, text in pages.items():
        assert not re.search("nodeq[78]|jdoeq", text, re.I), name
    assert main(["site", str(results.directory), "--output", str(output)]) == 0
    assert any("nodeq8" in text for text in texts(output).values())


def test_a_run_whose_records_cannot_be_redacted_has_no_report(store, tmp_path):
    output, unreadable = tmp_path / "site", []

    def redact(result):
        if not unreadable:
            unreadable.append(result.id)
            raise DocumentError("The records of attempt 1 cannot be read.")
        return result

    size = site.write_site(store, output, 1, site.Redaction(redact, lambda results: lambda text: text))
    reports = {path.stem for path in (output / "runs").iterdir()}
    assert size.reports == len(reports) == 7
    assert unreadable[0] not in reports
    assert all(f"runs/{unreadable[0]}.html" not in text for text in texts(output).values())


def test_an_empty_store_has_no_site(tmp_path):
    (tmp_path / "store").mkdir()
    with pytest.raises(StoreError, match="no results"):
        site.write_site(Index(ResultStore(tmp_path / "store")), tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_too_few_descriptors_for_the_script_of_the_plots_leave_no_part_of_a_site(
    store, tmp_path, monkeypatch
):
    """The library panics, which is no `Exception`."""
    panic = type("PanicException", (BaseException,), {})
    text = 'on an `Err` value: Os { code: 24, kind: Uncategorized, message: "Too many open files" }'
    site.render.plot_script.cache_clear()

    def fail(_):
        raise panic(text)

    monkeypatch.setattr("vl_convert.javascript_bundle", fail)
    with pytest.raises(Unavailable, match="Raise `ulimit -n`, which is"):
        site.write_site(store, tmp_path / "site")
    assert not (tmp_path / "site").exists()
