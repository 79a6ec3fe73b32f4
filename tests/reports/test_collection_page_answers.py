"""What a reader must find in the report on published figures, in each of its forms."""

from __future__ import annotations

import re
from functools import cache

import attrs
import pytest

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import RESERVED_FACTS
from dlperf_sdk.analysis.ranking import rankings
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import collection_page, html, markdown
from dlperf_sdk.reports.blocks import Notes, Paragraph, Table
from dlperf_sdk.reports.html import collection
from dlperf_sdk.reports.html.page import Folded, Sortable
from dlperf_sdk.reports.leads import RULE
from dlperf_sdk.reports.missing_intervals import explain_missing
from dlperf_sdk.spec.stated_protocol import StatedProtocol
from dlperf_sdk.worker.estimate import median, standard_deviation

pytestmark = pytest.mark.long


@cache
def page_of(name="dlperf-v1.0"):
    return collection.page(Registry().collection(name))


def section(title, name="dlperf-v1.0"):
    return next(part for part in page_of(name).sections if part.title == title)


def rows_of(item):
    table = item.table if isinstance(item, Sortable) else item
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in table.rows]


def tables_of(items):
    for item in items:
        if isinstance(item, Folded):
            yield from tables_of(item.items)
        elif isinstance(item, Table | Sortable):
            yield item.table if isinstance(item, Sortable) else item


def test_one_rule_has_one_word_in_the_ranking_and_in_what_is_not_comparable():
    assert RULE in section("Fastest framework").lede
    assert RULE in section("What is not comparable").lede
    *_, within = section("What is not comparable").items
    kinds = {}
    for row in rows_of(within):
        fact = row["difference"].partition(":")[0].replace(" ", "_")
        kinds.setdefault(row[""], set()).add(fact)
    assert kinds["with a reservation"] <= set(RESERVED_FACTS)
    assert not kinds.get("not comparable", set()) & set(RESERVED_FACTS)
    # Each reservation of the ranking has this kind.
    for ranking in rankings(Registry().collection("dlperf-v1.0").figures):
        for reason in ranking.comparison.reasons:
            assert reason.partition(":")[0] in kinds["with a reservation"]


def test_a_row_names_faster_cases_that_are_not_comparable_with_the_reason():
    _, overview, notes, *_ = section("Fastest framework").items
    (row,) = (
        row
        for row in rows_of(overview)
        if (row["model"], row["batch"], row["precision"], row["settings"])
        == ("bert-base", "32", "fp32", "clip norm not stated")
    )
    number = re.fullmatch(r"oneflow 3,715\n≈1.29× torch \[(\d+)\]", row["4n8d"])[1]
    assert notes.texts[int(number) - 1] == (
        "Clip norm stated by neither; protocol differs; oneflow 0.1.9 is not the newest release; faster: oneflow (no "
        "clipping)."
    )
    # None is faster than the fastest of all settings.
    (fastest,) = (
        row for row in rows_of(overview) if row["settings"] == "no clipping" and row["batch"] == "32"
    )
    assert "faster" not in notes.texts[int(re.search(r"\[(\d+)\]", fastest["4n8d"])[1]) - 1]


def test_every_missing_interval_has_its_true_reason():
    part = section("Intervals")
    rows = rows_of(part.items[0])
    assert sum(int(row["cases"]) for row in rows) == 323
    reasons = {(row["implementation"], row["interval of the throughput"]): int(row["cases"]) for row in rows}
    assert reasons["gluon-nlp", "no: 7 repeats were made, and only their median is published"] == 30
    assert reasons["gluon-nlp", "yes"] == 6
    assert reasons["gluon-cv", "no: 5 repeats known, and an interval takes six"] == 6
    assert reasons["PaddleCV", "no: only one number is published, and not the number of repeats"] == 15
    assert "47 of 52 leads have no interval" in part.items[1].text


@pytest.mark.parametrize(
    ("repeats", "stated", "reason"),
    [
        ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 6, ""),
        ((1.0, 2.0, 3.0), 7, "3 repeats known, and an interval takes six"),
        ((), 7, "7 repeats were made, and only their median is published"),
        ((), 1, "it was measured once"),
        ((), None, "only one number is published, and not the number of repeats"),
    ],
)
def test_the_reason_follows_from_the_repeats(repeats, stated, reason):
    case = Case.from_source(Registry().collection("dlperf-v1.0").figures.figures[0])
    protocol = StatedProtocol(repeats=stated)
    assert explain_missing(attrs.evolve(case, repeats=repeats, protocol=protocol)) == reason


def test_each_figure_has_its_protocol_and_its_spread():
    figures = Registry().collection("dlperf-v1.0").figures
    rows = rows_of(section("Every figure").items[0])
    checks = [row["protocol check"] for row in rows]
    assert {check: checks.count(check) for check in checks} == {
        "as prescribed": 55,
        "deviates": 169,
        "not stated in full": 99,
    }
    for figure, row in zip(figures, rows, strict=True):
        spread = "–"
        if len(figure.repeats) > 1:
            spread = f"{standard_deviation(figure.repeats) / median(figure.repeats):.1%}"
        assert row["spread"] == spread
        assert row["protocol"] == str(figure.protocol)
    table = section("Every figure").items[0]
    assert "protocol check" in table.filters
    # Protocol and source stand before what nobody looks for first.
    titles = [column.title for column in table.table.columns]
    assert titles.index("source") < titles.index("implementation")


def test_the_protocol_is_summarized_with_what_deviates():
    text, table = section("Coverage and protocol").items
    assert text.text == (
        "The source prescribes 20 + 100 steps, 7 repeats. Of 323 figures, 55 were measured as prescribed, 169 deviate "
        "(5 repeats: 93, 19 + 100 steps: 40, 100 + 100 steps: 36, 100 + 500 steps: 22; a figure may deviate in steps "
        "and in repeats), "
        "and 99 do not state their protocol in full."
    )
    rows = rows_of(table)
    assert sum(int(row["figures"]) for row in rows) == 323
    # Which ones deviate is on the first screen.
    checks = list(dict.fromkeys(row["protocol check"] for row in rows))
    assert checks == ["deviates", "not stated in full", "as prescribed"]
    (row,) = (row for row in rows if row["implementation"] == "gluon-nlp" and row["precision"] == "fp32")
    assert (row["difference"], row["largest batch"]) == ("100 warm-up steps instead of 20", "64")
    assert {"framework", "implementation", "model", "precision", "protocol check"} == set(table.filters)


@pytest.mark.parametrize(
    ("name", "extent"),
    [
        ("dlperf-v1.0", "Largest topology measured: 4n8d (32 devices); nothing larger is predicted here."),
        ("tf-cnn-2017", "Largest topology measured: 1n8d (8 devices); nothing larger is predicted here."),
    ],
)
def test_the_introduction_states_the_largest_topology(name, extent):
    assert extent in page_of(name).lede
    assert "320 (resnet50), 160 (bert-base)" in page_of().lede


def test_two_frameworks_are_found_side_by_side():
    table, _ = section("Framework pairs").items
    rows = [
        row
        for row in rows_of(table)
        if (row["frameworks"], row["topology"], row["model"]) == ("tensorflow and torch", "1n8d", "resnet50")
    ]
    (row,) = (row for row in rows if "1.5.0a0" in row["faster"] and "1.15.2" in row["slower"])
    figures = Registry().collection("dlperf-v1.0").figures
    torch, tensorflow = (
        figures.get(framework_version=version, model="resnet50", topology="1n8d", precision="fp32")
        for version in ("1.5.0a0+8f84ded", "1.15.2")
    )
    assert row["ratio"] == f"≈{torch.throughput / tensorflow.throughput:.2f}×"
    assert row["reservation"] == (
        "estimator differs (elapsed time, mean of rates), protocol not stated (warm-up steps and repeats)"
    )
    assert section("Framework pairs").lede.startswith(
        "The only implementation of resnet50-v1b: mxnet 1.6.0 (gluon-cv)."
    )


def test_effects_by_topology_hold_the_batch_size_and_have_no_empty_cell():
    *tables, _ = tables_of(section("Effects").items)
    (table,) = (table for table in tables if "same batch size" in table.title)
    rows = rows_of(table)
    amp = [row for row in rows if row["effect"].startswith("amp-fp16 ÷ fp32")]
    assert {(row["framework"], row["model"], row["batch size"]) for row in amp} == {
        ("tensorflow", "resnet50", "128"),
        ("oneflow", "bert-base", "64"),
        ("mxnet", "bert-base", "64"),
        ("paddle", "bert-base", "64"),
    }
    assert all(text for row in rows for text in row.values())


def test_every_note_below_a_table_is_referred_to():
    for name in ("dlperf-v1.0", "tf-cnn-2017", "tensorpack"):
        for part in page_of(name).sections:
            for table, notes in zip(part.items, part.items[1:], strict=False):
                if isinstance(notes, Notes):
                    cells = (table.table if isinstance(table, Sortable) else table).rows
                    text = " ".join(cell.text for row in cells for cell in row)
                    marks = {
                        int(mark) for found in re.findall(r"\[([0-9,]+)\]", text) for mark in found.split(",")
                    }
                    assert marks >= set(range(1, len(notes.texts) + 1)), (part.title, notes.texts)


def test_no_text_has_the_raw_name_of_a_field():
    names = "batch_size|clip_norm|loss_scale|input_pipeline|loader_workers|framework_version|parameter_device"
    for name in ("dlperf-v1.0", "tf-cnn-2017", "tensorpack"):
        text = markdown.text_of(html.blocks_of_collection(Registry().collection(name)))
        assert re.findall(names, text.replace("\\_", "_")) == []


def test_csv_and_json_have_the_protocol_and_the_leads():
    source = Registry().collection("dlperf-v1.0")
    values = collection_page.to_dict(source)
    checks = [item["check"] for item in values["protocols"]]
    assert len(checks) == len(values["figures"]) and checks.count("deviates") == 169
    leads = values["rankings"]
    assert len(leads) == 52 and sum(lead["interval"] is not None for lead in leads) == 5
    assert any(
        "protocol differs (repeats 7, 5; warm-up steps not stated)" in lead["reservations"] for lead in leads
    )
    header, *lines = collection_page.to_csv(source).splitlines()
    assert header.rstrip().endswith("spread,protocol_check") and len(lines) == 323
    assert sum(line.rstrip().endswith(",deviates") for line in lines) == 169


def test_markdown_has_the_answers_of_html():
    text = markdown.text_of(html.blocks_of_collection(Registry().collection("dlperf-v1.0")))
    for part in (
        "5 of 52 leads have an interval, none without a reservation",
        "faster: oneflow (no clipping)",
        "with reservations",
        "## Framework pairs",
    ):
        assert part in text
    paragraphs = [item for item in section("Coverage and protocol").items if isinstance(item, Paragraph)]
    assert paragraphs[0].text in text
