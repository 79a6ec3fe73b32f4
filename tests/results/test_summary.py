"""A result on one screen."""

from html.parser import HTMLParser

import attrs
import pytest
from hypothesis import given
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Verdict

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
    assert "throughput: 203 img/s (200 to 206)" in text
    assert "integrity pass: parity, replicas-equal" in text
    assert "quality fail: spread" in text


def test_a_failure_is_shown_and_cut_short():
    failure = Failure("timeout", "a\x1b[2Jb " + 10_000 * "x")
    text = repr(attrs.evolve(a_result(), status="timeout", failure=failure))
    assert "status: timeout" in text
    assert "\x1b" not in text
    assert len(text) < 1500


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
