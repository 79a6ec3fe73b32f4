"""Tables on terminals of any width: nothing that identifies a row is lost, and no number is cut short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_samples import a_result

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import result_page
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.terminal import minimum_width, text_of
from dlperf_sdk.results.result import Verdict

CASES = Table(
    (
        Column("case"),
        Column("batch", right=True),
        Column("img/s", right=True),
        Column("95 % interval", right=True),
        Column("ok?", whole=True),
    ),
    (
        (
            "torch resnet50 1n2d amp-bf16 inductor",
            "256",
            "12,345.6",
            "12,001.0 to 12,777.7",
            Cell("✓", "good"),
        ),
        ("tensorflow resnet50 1n2d fp32", "128", "", "", Cell("✗ [1]", "bad")),
    ),
)


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80, 120])
@pytest.mark.parametrize("title", ["", "resnet50, 224 px"])
def test_cases_and_numbers_are_whole_at_every_width(width, title):
    text = text_of([Table(CASES.columns, CASES.rows, title)], width=width)
    lines = text.splitlines()
    assert all(len(line) <= width for line in lines)
    assert title in text
    for number in ("256", "12,345.6", "128", "✗ [1]"):
        assert number in text
    assert ("12,001.0 to 12,777.7" in text) == (width >= 40)
    assert "torchresnet501n2damp-bf16inductor" in "".join(text.split()) or width >= minimum_width(CASES)
    if width < minimum_width(CASES):
        # What a row does not have is no line of it.
        assert sum("img/s" in line for line in lines) == 1


@pytest.mark.parametrize("width", range(36, 121, 4))
def test_names_of_metrics_and_checks_are_whole_at_every_width(width):
    names = ("throughput", "throughput-per-device", "peak-reserved-device-memory")
    values = tuple(12345.6 + step for step in range(7))
    metrics = tuple(Metric(name, "samples/s", 12348.6, 12345.6, 12351.6, values, "note") for name in names)
    verdict = Verdict("synchronized-window", "integrity", "pass", "All clocks agree. " * 5)
    text = text_of(result_page.page(a_result(metrics=metrics, verdicts=(verdict,))), width=width)
    words = text.split()
    for name in (*names, verdict.name):
        assert name in words


def test_the_table_is_a_table_as_soon_as_there_is_room():
    least = minimum_width(CASES)
    assert text_of([CASES], width=least).split()[:3] == ["case", "batch", "img/s"]
    assert len(text_of([CASES], width=200).splitlines()) == 3
    assert not text_of([CASES], width=least - 1).startswith("case ")


def test_row_that_begins_with_a_number_has_a_label():
    table = Table(
        (Column("repeat", right=True), Column("status", whole=True), Column("throughput", right=True)),
        (("1", "ok", "123,456.7 samples/s"),),
    )
    assert text_of([table], width=24).splitlines()[0] == "repeat 1"


# On 40 columns, 28 are left beside a title of 8 and two gaps of 2: a longer number ends in an ellipsis by design.
WORDS = st.text(st.sampled_from("abc de"), max_size=28)


@given(
    st.integers(1, 5).flatmap(
        lambda count: st.tuples(
            st.lists(
                st.builds(Column, st.text("xyz", min_size=1, max_size=8), st.booleans(), st.booleans()),
                min_size=count,
                max_size=count,
            ),
            st.lists(st.lists(WORDS, min_size=count, max_size=count), max_size=4),
        )
    ),
    st.integers(40, 130),
)
def test_no_letter_is_lost_and_no_line_too_long(table, width):
    columns, rows = table
    text = text_of([Table(tuple(columns), tuple(map(tuple, rows)))], width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    for letter in "abcde":
        assert text.count(letter) == sum(cell.count(letter) for row in rows for cell in row)
