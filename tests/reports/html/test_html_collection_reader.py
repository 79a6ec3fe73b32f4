"""What misled a reader of the report on published figures: each answer must say what it rests on."""

from __future__ import annotations

import math
import re
from functools import cache

import attrs
import pytest

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import compare
from dlperf_sdk.analysis.ranking import rankings
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import collection_page, html, numbers
from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html import collection, own_batch_sizes, spread
from dlperf_sdk.reports.html.page import NOT_COMPARABLE, Folded, Sortable
from dlperf_sdk.reports.leads import count_intervals, list_reservations
from dlperf_sdk.reports.numbers import format_estimate
from dlperf_sdk.spec.stated_protocol import StatedProtocol

pytestmark = pytest.mark.long


@cache
def figures():
    return Registry().collection("dlperf-v1.0").figures


@cache
def page():
    return collection.page(Registry().collection("dlperf-v1.0"))


def section(title):
    return next(part for part in page().sections if part.title == title)


def rows_of(item):
    table = item.table if isinstance(item, Sortable) else item
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in table.rows]


def case(**conditions):
    return Case.from_source(figures().get(**conditions))


# -- pairs


def test_the_first_pair_of_a_framework_has_its_leading_figure():
    rows = rows_of(section("Framework pairs").items[0])
    for names in ("oneflow", "mxnet"):
        first = next(row for row in rows if names in row["frameworks"])
        assert "0.1.9" not in first["faster"]
    paired = [row for row in rows if row["ratio"] != "–"]
    order = [
        (
            row["model"],
            row["precision"],
            int(row["batch"]),
            math.prod(map(int, re.findall("[0-9]+", row["topology"]))),
        )
        for row in paired
    ]
    assert order == sorted(order) and rows[: len(paired)] == paired
    # The leading cases first, then the newest releases, then the others.
    searched = ("tensorflow and torch", "1n8d", "resnet50", "fp32")
    names = ("frameworks", "topology", "model", "precision")
    releases = [
        set(re.findall(r"(?:torch|tensorflow) ([\d.]+)", f"{row['faster']} {row['slower']}"))
        for row in rows
        if tuple(row[name] for name in names) == searched
    ]
    assert releases[:2] == [{"1.5.0", "1.15.2"}, {"1.6.0", "2.3.0"}] and len(releases) == 4


def test_each_side_of_a_pair_states_its_case():
    rows = rows_of(section("Framework pairs").items[0])
    (row,) = (
        row
        for row in rows
        if (row["frameworks"], row["topology"], row["batch"], row["precision"])
        == ("tensorflow and torch", "4n8d", "96", "amp-fp16")
    )
    assert row["faster"] == "tensorflow 1.15.2 (NVIDIADeepLearningExamples), with xla: 11,650 seq/s"
    assert row["slower"] == (
        "torch 1.5.0a0 (NVIDIADeepLearningExamples), without xla, dynamic loss scale: 10,349 seq/s"
    )
    assert "clip norm stated by neither" in row["reservation"]
    assert "loss scale stated by one side (dynamic)" in row["reservation"]


def test_variants_of_a_model_in_one_framework_stand_side_by_side_without_a_ratio():
    rows = rows_of(section("Framework pairs").items[0])
    variants = [row for row in rows if row["model"] == "resnet50 and resnet50-v1b"]
    assert len(variants) == 11 and {row["frameworks"] for row in variants} == {"mxnet"}
    assert {row["ratio"] for row in variants} == {"–"}
    assert all(row["reservation"].startswith("not comparable") for row in variants)
    assert all("gluon-cv" in row["faster"] + row["slower"] for row in variants)


def test_a_pair_names_the_loader_where_it_differs():
    rows = rows_of(section("Framework pairs").items[0])
    mxnet = [row for row in rows if row["model"] == "resnet50" and "mxnet" in row["slower"]]
    assert mxnet and {"dali" in row["slower"] for row in mxnet} == {True}


def test_a_compiler_that_differs_and_a_protocol_that_is_not_stated_are_reservations():
    conditions = {"model": "bert-base", "topology": "4n8d", "precision": "amp-fp16", "batch_size": 64}
    torch = case(framework="torch", **conditions, loss_scale="dynamic")
    tensorflow = case(framework="tensorflow", compiler="xla", **conditions)
    assert list_reservations(compare(torch, tensorflow, footnoted=True)) == [
        "compiler differs (none, xla)",
        "loss scale stated by one side (dynamic)",
        "protocol not stated (warm-up steps and repeats)",
    ]
    whole = case(framework="oneflow", release="v1.0", model="resnet50", topology="1n1d", precision="amp-fp16")
    assert list_reservations(compare(whole, whole, footnoted=True)) == []


def test_leads_without_a_reservation_are_counted():
    ranked = rankings(figures())
    assert count_intervals(ranked) == "5 of 52 leads have an interval, none without a reservation"
    firm = next(ranking for ranking in ranked if ranking.comparison.low is not None)
    # The same case on both sides differs in nothing, and has an interval.
    case = attrs.evolve(firm.entries[0], protocol=StatedProtocol(20, 100, 7))
    equal = attrs.evolve(
        firm, entries=(attrs.evolve(case, throughput=2 * case.throughput), case), unstated=()
    )
    assert not list_reservations(equal.comparison)
    rates = tuple(2 * rate for rate in case.repeats)
    equal = attrs.evolve(equal, entries=(attrs.evolve(equal.entries[0], repeats=rates), case))
    assert count_intervals([equal, firm]) == "2 of 2 leads have an interval, 1 without a reservation"


# -- tiles


def test_a_tile_names_the_second_figure_and_only_what_may_be_taken_for_comparable():
    fp32, bert, amp, *_ = page().tiles
    # Other answers to the same question that the tile does not give are named as well.
    assert "≈1.09× mxnet 3,671" in bert.aside and bert.text.endswith(
        "not comparable: oneflow 0.1.9 3,715, torch 2,886, tensorflow 2,728, paddle 2,074 (clip norm not stated); "
        "oneflow 3,690 (clip norm 1.0)"
    )
    assert [tile.is_reserved for tile in (fp32, bert, amp)] == [True] * 3
    # A lead without any reservation is not called reserved.
    assert not any(tile.is_reserved for tile in page().tiles[3:])
    # Nobody ranks mixed precision among fp32; fp16 beside amp-fp16 needs a reason.
    assert fp32.excluded == ""
    assert amp.excluded == "mxnet 30,714 (fp16)"


def test_a_tile_names_the_version_of_the_framework_and_compares_it_with_the_next():
    fastest, *_ = collection.page(Registry().collection("tensorpack")).tiles
    assert fastest.value == "tensorpack"
    assert fastest.aside == (
        "tensorpack on TensorFlow 1.3.0-rc1 at 1,651 img/s, ≈1.03× tensorflow1 (tf_cnn_benchmarks) 1,605, both with "
        "strategy parameter_server, input pipeline constant, no interval"
    )


def test_the_others_of_a_comparison_have_their_strategy():
    tensorpack = collection.page(Registry().collection("tensorpack"))
    (table,) = (part.items[1] for part in tensorpack.sections if part.title == "Fastest framework")
    others = {row["topology"]: row["the others"] for row in rows_of(table)}
    assert others["1n8d"] == "tensorflow1 (tf_cnn_benchmarks) parameter_server 1,605 (97%)"
    # On two devices the two fastest have different strategies.
    assert others["1n2d"] == "tensorflow1 (tf_cnn_benchmarks) all_reduce 424.5 (99%)"


def test_two_implementations_are_compared_with_each_strategy_that_both_have():
    tensorpack = collection.page(Registry().collection("tensorpack"))
    (table,) = (part.items[0] for part in tensorpack.sections if part.title == "Framework pairs")
    ratios = {(row["topology"], row["settings"]): row["ratio"] for row in rows_of(table)}
    topologies = ("1n1d", "1n2d", "1n4d", "1n8d")
    strategies = ("parameter_server", "replicated (all_reduce)")
    assert set(ratios) == {(topology, strategy) for topology in topologies for strategy in strategies}
    assert ratios["1n8d", "parameter_server"] == "≈1.03×"
    assert ratios["1n8d", "replicated (all_reduce)"] == "≈1.02×"


def test_a_tile_links_to_the_reason_why_cases_are_not_comparable():
    titles = [part.title for part in page().sections]
    document = html.report_on_collection(Registry().collection("dlperf-v1.0"))
    link = f'<a href="#section-{titles.index(NOT_COMPARABLE) + 1}">not comparable</a>: mxnet 30,714 (fp16)'
    assert link in document
    (blocks,) = [tile.text for tile in page().tiles if "30,714" in tile.text]
    assert blocks.endswith("with reservations; not comparable: mxnet 30,714 (fp16)")
    # The reservations are one click away.
    assert '; <a href="#reservations-1">with reservations</a>' in document
    assert document.count('<ol class="notes" id="reservations">') == 1
    overview, notes = section("Fastest framework").items[1:3]
    text = "\n".join(cell.text for row in overview.rows for cell in row)
    fp32, _, amp = (tile.note for tile in page().tiles if tile.is_reserved)
    assert (
        f"oneflow 12,412\n≈1.10× mxnet [{fp32}]" in text and f"oneflow 33,141\n≈1.20× mxnet [{amp}]" in text
    )
    assert fp32 != amp and all(f'<li id="reservations-{number}">' in document for number in (fp32, amp))
    assert "stated by one side" in notes.texts[fp32 - 1]


def test_each_fact_that_is_never_ranked_together_has_a_reason():
    table = section(NOT_COMPARABLE).items[0]
    assert isinstance(table, Table)
    rows = {row["fact"]: (set(row["values"].split(", ")), row["why"]) for row in rows_of(table)}
    precisions, why = rows["precision"]
    assert precisions == {"fp32", "amp-fp16", "fp16"} and "fp16 also stores weights" in why
    models, why = rows["model"]
    assert models >= {"resnet50", "resnet50-v1b"} and "v1.5 (resnet50) and v1b" in why
    clipping, why = rows["clip norm"]
    assert clipping == {"clip norm not stated", "no clipping", "clip norm 1.0"}
    assert "may or may not have been clipped" in why


# -- scaling


def test_a_gap_before_the_first_topology_below_90_percent_is_named():
    extremes, _, series = section("Scaling").items[:3]
    rows = {(row["model"], row["precision"], row["efficiency"]): row for row in rows_of(extremes)}
    gap = rows["bert-base", "amp-fp16", "lowest on 4n8d"]
    assert (gap["1n2d"], gap["1n4d"]) == ("–", "67.8%")
    assert rows["resnet50-v1b", "amp-fp16", "only series to 4n8d"]["1n2d"] == "82.4%"
    (table,) = series.items
    assert "between 1n1d and 1n8d" in {row["falls below 90 %"] for row in rows_of(table)}


def test_only_a_case_that_is_equal_in_all_but_its_loader_shows_that_the_loader_is_the_limit():
    extremes, rule, series, *_ = section("Scaling").items
    assert isinstance(rule, Paragraph) and rule.text.startswith("Not ranked: the data loader is the limit.")
    faster = "89.4% with dali, loader workers 48"
    limited = {
        f"torch 1.6.0 (PyTorch-examples) DataLoader loader workers 8, batch 128 ({faster})": "42.0%",
        f"torch 1.6.0 (PyTorch-examples) dali loader workers 8, batch 128 ({faster})": "77.7%",
    }
    assert {
        row["case"]: row["4n8d"] for row in rows_of(extremes) if row["efficiency"] == "not ranked"
    } == limited
    lowest = {
        (row["model"], row["precision"]): (row["case"], row["4n8d"], row["throughput"])
        for row in rows_of(extremes)
        if row["efficiency"] == "lowest on 4n8d"
    }
    case, share, throughput = lowest["resnet50", "fp32"]
    assert case.startswith("tensorflow 1.15.2") and (share, throughput) == ("82.0%", "9,515 img/s")
    # Paddle's faster case with DALI has another batch size and another loss scale, so it shows nothing of a loader.
    case, share, _ = lowest["resnet50", "amp-fp16"]
    assert (case, share) == ("paddle 1.8.3.post107 (PaddleCV) static loss scale, batch 224", "29.9%")
    # The table of every series says it of these only.
    (table,) = series.items
    told = {
        row["efficiency"]: row["with another loader"] for row in rows_of(table) if row["with another loader"]
    }
    assert told == dict.fromkeys(limited.values(), faster)
    # The captions of plots follow the rule, and do not repeat it.
    (choice,) = (item for item in section("Scaling").items if hasattr(item, "options"))
    captions = {
        option.title: plot.description
        for option in choice.options
        for plots in option.items
        if hasattr(plots, "items")
        for plot in plots.items
        if "Percent of perfect scaling" in getattr(plot, "description", "")
    }
    assert all("loader limits" not in caption for caption in captions.values())
    assert re.search(
        r"the worst tensorflow [^.]+[.\d]+ [^%]*with 82\.0%", captions["resnet50, 128 per device, fp32"]
    )


# -- effects


def test_an_effect_says_which_frameworks_it_rests_on_and_which_have_no_pair():
    table, unpaired, own, *_ = section("Effects").items
    rows = {row["effect"]: row["rests on"] for row in rows_of(table)}
    assert (
        rows["xla ÷ no compiler, resnet50, tensorflow only"]
        == "tensorflow 1.15.2: 5 topologies of one case, all faster"
    )
    assert (
        rows["amp-fp16 ÷ fp32, resnet50, tensorflow only"]
        == "tensorflow 2.3.0: 6 topologies of one case, all faster"
    )
    # Without another framework that has both levels, as of clipping, none lacks a pair.
    assert unpaired.text == (
        "No pair at equal batch size and settings: amp-fp16 ÷ fp32, resnet50: oneflow (batch 256 ÷ 96, 128, 144), "
        "mxnet (batch 256 ÷ 128), torch (batch 256 ÷ 128), paddle (batch 196, 224 ÷ 128); amp-fp16 ÷ fp32, bert-base: "
        "torch (batch 64, 96 ÷ 32, 48), tensorflow (batch 64, 96 ÷ 32, 48). The next table has the ratio of "
        "the precisions at these batch sizes."
    )
    assert isinstance(own, Sortable) and own.table.title.startswith(
        "The precision and its batch size together"
    )


def test_the_effect_of_dali_is_a_row_and_has_the_workers_of_its_pairs():
    """The source's heading of the other figures is "Use `torch.utils.data.DataLoader`"."""
    table, _, _, by_topology, *_ = section("Effects").items
    (row,) = (row for row in rows_of(table) if "dali" in row["effect"])
    assert row["effect"] == "dali ÷ DataLoader, resnet50, torch only"
    assert row["ratio"] == "1.11×; pairs 1.00× to 2.14×"
    assert row["rests on"] == "torch 1.6.0: 10 pairs (2 cases on 5 topologies), all faster"
    ratios = {
        row["settings"]: row["4n8d"]
        for row in rows_of(by_topology)
        if row["effect"] == "dali ÷ DataLoader, resnet50"
    }
    assert ratios == {
        "no compiler, (PyTorch-examples), loader workers 8, fp32": "2.14×",
        "no compiler, (PyTorch-examples), loader workers 48, fp32": "1.00×",
    }


def test_the_ratios_by_topology_state_the_settings_of_both_sides():
    *_, by_topology = section("Effects").items[:4]
    settings = {
        row["framework"]: row["settings"]
        for row in rows_of(by_topology)
        if row["effect"] == "amp-fp16 ÷ fp32, bert-base" and row["framework"] != "paddle"
    }
    assert settings == {
        "oneflow": "clip norm 1.0, no compiler, (OneFlow-Benchmark)",
        "mxnet": "no clipping, no compiler, (gluon-nlp)",
    }


def test_a_precision_at_its_own_batch_size_names_the_compiler_of_both_sides():
    (table,) = own_batch_sizes.precisions_at_own_batch_sizes(
        [Case.from_source(figure) for figure in figures()]
    )
    assert table.table.title.endswith("with equal settings")
    (row,) = (row for row in rows_of(table) if row["batch size"] == "64 ÷ 48")
    assert row["framework"] == "tensorflow 1.15.2" and row["settings"].endswith("no compiler")
    assert row["1n1d"] == f"{183.25 / 112.76:.2f}×"


def test_a_strategy_has_the_name_of_its_source_and_its_effect():
    tensorpack = collection.page(Registry().collection("tensorpack"))
    (figures_table,) = (part.items[0] for part in tensorpack.sections if part.title == "Every figure")
    titles = [column.title for column in figures_table.table.columns]
    assert {row["strategy"] for row in rows_of(figures_table)} == {
        "replicated (all_reduce)",
        "parameter_server",
        "horovod",
    }
    assert titles.index("strategy") < titles.index("throughput") and "strategy" in figures_table.filters
    assert tensorpack.lede.endswith("The source calls all_reduce replicated.")
    assert tensorpack.aliases["replicated"] == "all_reduce"
    (answers, *_) = (part.items for part in tensorpack.sections if part.title == "Effects")
    rows = {row["effect"]: row for row in rows_of(answers[0])}
    effect = rows["strategy parameter_server ÷ replicated (all_reduce)"]
    assert effect["ratio"] == "1.00×; pairs 0.97× to 1.05×" and "of 2 frameworks" in effect["rests on"]
    assert "strategy horovod ÷ replicated (all_reduce), tensorpack only" in rows
    # No row pools loaders.
    (by_topology,) = (
        item for item in answers if isinstance(item, Sortable) and "same batch size" in item.table.title
    )
    loaders = {
        (row["framework"], row["settings"]): row["1n8d"]
        for row in rows_of(by_topology)
        if row["effect"] == "strategy parameter_server ÷ replicated (all_reduce)"
    }
    assert loaders == {
        ("tensorpack", "synthetic, (tensorpack), constant"): "1.02×",
        ("tensorpack", "synthetic-host, (tensorpack), in-graph"): "0.99×",
        ("tensorpack", "synthetic-host, (tensorpack), python-queue"): "1.01×",
        ("tensorflow1", "(tf_cnn_benchmarks), constant"): "1.02×",
    }


def test_a_strategy_that_follows_from_the_implementation_comes_last():
    titles = [column.title for column in section("Every figure").items[0].table.columns]
    assert titles.index("strategy") > titles.index("source")


def test_a_report_without_replicated_figures_names_the_one_that_has_them():
    source = Registry().collection("tf-cnn-2017")
    assert {figure.strategy for figure in source.figures} == {"parameter_server"}
    assert (
        "with replicated variables (all_reduce), on P100, are in the collection tensorpack"
        in source.description
    )
    others = (
        Registry()
        .collection("tensorpack")
        .figures.filter(implementation="tf_cnn_benchmarks", strategy="all_reduce")
    )
    assert {figure.hardware for figure in others} == {"Tesla P100"}


# -- disagreements and protocol


def test_rounding_is_told_from_disagreement():
    source = Registry().collection("dlperf-v1.0")
    table = collection_page.disagreement_block(source)
    assert "9 numbers and 57 labels disagree with the figures; 3 more" in table.title
    rows = rows_of(table)
    rounded = {(row["printed"], row["from the figures"]) for row in rows if row["kind"] == "last digit"}
    assert rounded == {("10.75", "10.74"), ("29.75", "29.74"), ("25.59", "25.58")}
    kinds = {row["printed"]: row["kind"] for row in rows}
    # The table of 10.2 has two decimals, so it is not 10.28 rounded.
    assert {kinds[text] for text in ("27.33", "10.2", "10.2 13.1w/DALI")} == {"wrong number"}
    *_, tile = page().tiles
    assert tile.value == "9 numbers and 57 labels" and "3 more differ in the last digit" in tile.aside
    values = collection_page.to_dict(source)["disagreements"]
    assert sum(item["is_rounding"] for item in values) == 3


def test_a_printed_speedup_has_its_case():
    cells = [
        row["cell"]
        for row in rows_of(collection_page.disagreement_block(Registry().collection("dlperf-v1.0")))
    ]
    assert "speedup of mxnet 1.6.0 bert-base 4n8d amp-fp16, batch 128" in cells
    assert "speedup" not in cells


def test_the_ways_to_deviate_stand_with_the_protocol_and_its_sum():
    # One paragraph says it once.
    summary, table = section("Coverage and protocol").items
    assert "55 were measured as prescribed, 169 deviate (5 repeats: 93, 19 + 100 steps: 40," in summary.text
    assert table.page_rows == 20


def test_disagreements_are_counted_by_cause_first():
    causes, table = section("Source disagreements").items
    rows = [tuple(row.values()) for row in rows_of(causes)]
    assert rows[0] == ("22", "wrong label", "batch size is 224, under a heading that says 256")
    assert ("4", "wrong number", "the figure with batch size 96 instead of 32 is printed") in rows
    counts = [int(count) for count, *_ in rows]
    assert counts == sorted(counts, reverse=True) and sum(counts) == len(rows_of(table)) == 69
    assert sum(int(count) for count, kind, _ in rows if kind == "wrong label") == 57


# -- numbers


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (1.16, 1.23, ("1.16", "1.23")),
        (1.0881, 1.0942, ("1.088", "1.094")),
        (1.09001, 1.09004, ("1.09", "1.09")),
    ],
)
def test_equal_ends_have_further_digits(low, high, ends):
    assert numbers.format_ends(low, high) == ends


def test_no_interval_of_a_lead_has_equal_ends():
    texts = [cell.text for row in section("Fastest framework").items[1].rows for cell in row]
    intervals = [found for text in texts for found in re.findall(r"([\d.]+)–([\d.]+)×", text)]
    assert intervals and all(low != high for low, high in intervals)


# -- words


def test_codes_of_the_sources_are_written_in_words():
    document = html.report_on_collection(Registry().collection("dlperf-v1.0"))
    for code in ("clip norm 0.0", "mean-of-rates", "sum-of-step-times"):
        assert code not in document
    series = next(item for item in section("Scaling").items if isinstance(item, Folded))
    (table,) = series.items
    assert any("static loss scale" in row["case"] for row in rows_of(table))


def test_notes_stand_before_the_throughput():
    table = section("Every figure").items[0].table
    titles = [column.title for column in table.columns]
    at = titles.index("settings and notes")
    assert at < titles.index("throughput")
    assert any(row[at].text.endswith("[1]") for row in table.rows)


@pytest.mark.parametrize("alone", [1, 3])
def test_values_that_are_alone_in_their_facet_share_a_plot(alone):
    values = [spread.Value(f"case {n}", "4n8d", "torch", float(n + 1)) for n in range(spread.MAX_VALUES)]
    values += [spread.Value(f"alone {n}", f"facet {n}", "torch", 1.0) for n in range(alone)]
    plots = spread.plots(values, "throughput", "img/s", "Throughput", 9)
    assert [len(plot.numbers.rows) for plot in plots] == [spread.MAX_VALUES, alone]


def test_labels_do_not_repeat_the_facet_in_the_title():
    values = [
        spread.Value(f"torch fp32 {topology} {n}", f"{topology} fp32", "torch", float(n + 1))
        for topology in ("1n1d", "4n8d")
        for n in range(spread.MAX_VALUES)
    ]
    first, _ = spread.plots(values, "throughput", "img/s", "Throughput", 9)
    assert first.title == "Throughput, 1n1d fp32"
    assert first.numbers.rows[-1][0].text == "torch 0"


def test_a_series_without_a_figure_on_a_topology_is_listed_with_what_ran_out_of_memory():
    part = section("Not measured")
    sortable, words = part.items
    assert (
        sortable.table.title == "15 of 67 series have a figure on each of 1n1d, 1n2d, 1n4d, 1n8d, 2n8d, 4n8d"
    )
    lacking = [row for row in rows_of(sortable) if row["why"] == "not stated"]
    assert sum(len(row["batch sizes"].split(", ")) for row in lacking) == 67 - 15
    assert part.answer == "7 cases ran out of memory (OOM); 52 of 67 series lack a topology."
    (row,) = (
        row for row in rows_of(sortable) if row["case"] == "oneflow 0.1.9" and row["model"] == "bert-base"
    )
    assert (row["batch sizes"], row["no figure on"]) == ("24, 32, 48, 64, 96", "1n2d, 1n4d")
    exhausted = [row for row in rows_of(sortable) if row["why"].startswith("out of memory (OOM)")]
    names = ("model", "precision", "batch sizes")
    assert {(row["case"].split()[0], *(row[name] for name in names)) for row in exhausted} == {
        ("tensorflow", "resnet50", "amp-fp16", "256"),
        ("paddle", "resnet50", "amp-fp16", "224"),
        ("paddle", "resnet50", "amp-fp16", "256"),
        ("tensorflow", "bert-base", "amp-fp16", "96"),
        ("mxnet", "bert-base", "fp32", "96"),
    }
    (notes,) = words.items
    assert notes.texts[0].startswith("README.md (summary):61: “AMP throughput of TensorFlow 1.x")
    assert {re.search(r"\[(\d+)\]", row["why"])[1] for row in exhausted} == {"1", "2", "3", "4"}


def test_what_ran_out_of_memory_stands_among_the_batch_sizes():
    resnet, bert = section("Batch sizes: resnet50"), section("Batch sizes: bert-base")
    rows = [row for row in rows_of(resnet.items[0]) if row["topology"] == "4n8d"]
    (dali,) = (row for row in rows if "paddle" in row["case"] and "dali" in row["case"])
    exhausted = "out of memory\n(OOM)"
    assert [dali[f"batch {size}"] for size in (196, 224, 256)] == ["11,618", exhausted, exhausted]
    cells = {row["case"]: row["batch 96"] for row in rows_of(bert.items[0]) if row["topology"] == "1n8d"}
    assert (
        cells["tensorflow 1.15.2 amp-fp16, without xla"] == cells["mxnet 1.6.0 fp32 no clipping"] == exhausted
    )
    # With XLA the same batch was measured.
    assert cells["tensorflow 1.15.2 amp-fp16 xla"] == "3,560"
    # These are the 7 cases of the section "Not measured".
    assert resnet.answer == "5 cases ran out of memory (OOM) at batch 224 and 256."
    assert bert.answer == "2 cases ran out of memory (OOM) at batch 96."


def test_a_case_that_ran_out_of_memory_says_that_it_was_not_compiled():
    rows = rows_of(section("Not measured").items[0])
    exhausted = [row["case"] for row in rows if "memory" in row["why"] and "tensorflow" in row["case"]]
    assert exhausted == [
        "tensorflow 1.15.2 (NVIDIADeepLearningExamples) dali static-128 loss scale, without xla",
        "tensorflow 1.15.2 (NVIDIADeepLearningExamples) xla dali static-128 loss scale",
        "tensorflow 1.15.2, without xla",
    ]
    # Frameworks that were never compiled have no such ending.
    assert not any("xla" in row["case"] for row in rows if "tensorflow" not in row["case"])


def test_a_table_that_is_hardly_longer_than_a_page_has_no_pages():
    def step(rows):
        return Sortable(Table((Column("a"),), (("x",),) * rows), page_rows=20).step

    assert [step(20), step(25), step(26)] == [20, 25, 20]


def test_an_estimate_has_more_decimals_where_it_would_lie_on_its_bound():
    assert format_estimate(1.159, 1.177, 1.183) == ("1.159", "1.177", "1.183")
    assert format_estimate(1.16, 1.2, 1.25) == ("1.16", "1.20", "1.25")
    assert format_estimate(1.0, 1.0, 1.0) == ("1.00", "1.00", "1.00")
