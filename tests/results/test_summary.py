"""A result on one screen."""

from html.parser import HTMLParser

import attrs
import pytest
from hypothesis import given
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import result_page, terminal
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Imported, Source, Verdict
from dlperf_sdk.results.summary import _facts

LINES = 24


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def cells_of(result):
    cells = Cells()
    cells.feed(result._repr_html_())
    return cells


def test_repr_has_the_deciding_settings():
    verdicts = (
        Verdict("replicas-equal", "integrity", "pass", ""),
        Verdict("spread", "quality", "fail", ""),
        Verdict("parity", "integrity", "pass", ""),
    )
    text = repr(attrs.evolve(a_result(), verdicts=verdicts))
    assert "case: torch resnet50 1n2d" in text
    assert "outcome: ok, with warnings: spread" in text
    assert "throughput: 203.0 img/s, 95 % interval 200.0 – 206.0" in text
    assert "Validity checks, pass: replicas-equal, parity" in text
    assert "Measurement quality, fail: spread" in text


IMPORTED = Imported("dllogger", "2", "DLLogger", "the mean", (Source("log", "0" * 64, 3),))
FAILURE = Failure("timeout", "It took too long.")
PARITY = Verdict("parity", "integrity", "inconclusive", "")
FEW = (Metric("throughput", "img/s", 12345.6, None, None, (12345.6,)),)
VARIANTS = {
    "ok": {},
    "failed": {"status": "timeout", "failure": FAILURE, "metrics": ()},
    "invalid": {"verdicts": (Verdict("replicas-equal", "integrity", "fail", ""),)},
    "unverified": {"verdicts": (PARITY, Verdict("spread", "quality", "fail", ""))},
    "imported": {"imported": IMPORTED, "environment": None, "workload": None},
    "one repeat": {"metrics": FEW},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_repr_and_notebooks_have_the_words_of_the_report(changes, monkeypatch):
    monkeypatch.setattr(result_page, "list_contradictions", lambda result: ())  # no records: none are read
    result = a_result(**changes)
    report = " ".join(terminal.text_of(result_page.page(result), width=500).split())
    facts = dict(_facts(result))
    assert facts["outcome"] in report
    for words in ("failure", "imported"):
        assert facts.get(words, "") in report
    for text in facts.get("throughput", "").replace(", 95 % interval", ".").split(". "):
        assert text in report
    for label, names in facts.items():
        if ", " in label:
            heading, outcome = label.split(", ")
            assert heading in report
            assert all(f"{outcome} {name}" in report for name in names.split(", "))
    for text in (repr(result), result._repr_markdown_(), " ".join(cells_of(result).texts)):
        assert facts["outcome"] in text


def test_a_failure_is_shown_and_cut_short():
    failure = Failure("timeout", "a\x1b[2Jb " + 10_000 * "x")
    text = repr(attrs.evolve(a_result(), status="timeout", failure=failure))
    assert "outcome: failed: timeout" in text
    assert "\x1b" not in text
    assert len(text) < 1500


@pytest.mark.long
@given(any_results())
def test_any_result_fits_one_screen(result):
    text = repr(result)
    assert len(text) <= 80 * LINES * 4
    assert len(text.splitlines()) <= LINES
    assert all(character.isprintable() or character == "\n" for character in text)
    assert cells_of(result).tags == {"table", "tbody", "tr", "th", "td"}
    assert {line.count("|") - line.count("\\|") for line in result._repr_markdown_().splitlines()} == {3}


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a|b", "&amp;", "\\|"])
def test_foreign_text_is_escaped(text):
    result = attrs.evolve(a_result(), status="timeout", failure=Failure("timeout", text))
    assert text in cells_of(result).texts
    assert "<script>" not in result._repr_markdown_()
