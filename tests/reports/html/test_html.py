"""The HTML report: what is in it is true, what results say stays text, and nothing in it asks for anything."""

import base64
import functools
import hashlib
import html as entities
import json
import math
import random
import re
import sys
from html.parser import HTMLParser

import altair
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_samples import case, many
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import compare
from dlperf_sdk.errors import StoreError, UsageError
from dlperf_sdk.interfaces.collection import Collection, Figures
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import collection_page, html, markdown, sweeps
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html import (
    collection,
    effects,
    embed,
    line_charts,
    measured,
    palette,
    rates,
    render,
    scaling,
    spread,
)
from dlperf_sdk.reports.html import results as html_results
from dlperf_sdk.reports.html import sweeps as html_sweeps
from dlperf_sdk.reports.html.page import Abreast, Choice, Folded, Page, Plot, Section, Sortable
from dlperf_sdk.reports.leads import list_reservations
from dlperf_sdk.reports.series import labels, merge, strong_workloads, workloads
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Imported, Verdict

COLLECTIONS = ("dlperf-v1.0", "tf-cnn-2017", "tensorpack")


class Read(HTMLParser):
    """The elements of a document, and the text of its scripts."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.words = [], [], []
        self._within = []
        self.feed(document)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._within.append(tag)
        if tag == "script":
            self.scripts.append((dict(attributes).get("type"), ""))

    def handle_endtag(self, tag):
        self._within.append("/" + tag)

    def handle_data(self, data):
        if self._within and self._within[-1] == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif not self._within or self._within[-1] != "style":
            self.words.append(data)


def items_of(page):
    """Every item of a page, folded ones too."""

    def within(items):
        for item in items:
            yield item
            if isinstance(item, Folded | Abreast):
                yield from within(item.items)
            if isinstance(item, Choice):
                yield from within(item.options)

    return [item for section in page.sections for item in within(section.items)]


def plots_of(page):
    return [item for item in items_of(page) if isinstance(item, Plot)]


@functools.cache
def page_of(name):
    """The page of a collection: a lot to make, and the tests only read it."""
    return collection.page(Registry().collection(name))


def section(page, title):
    return next(section for section in page.sections if section.title == title)


@pytest.fixture(scope="module")
def campaign():
    return list(many(160))


@pytest.fixture(scope="module")
def document(campaign):
    return html.report_on_results(campaign)


# -- nothing is requested, nothing else runs


@pytest.mark.long
def test_only_the_reports_own_scripts_may_run(document):
    read = Read(document)
    (policy,) = [
        attributes["content"]
        for tag, attributes in read.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    running = [text for kind, text in read.scripts if kind is None]
    assert [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running] == allowed
    assert policy.startswith("default-src 'none'; ")
    assert "eval" not in policy
    assert "http" not in policy


def test_no_element_asks_for_anything(document):
    for tag, attributes in Read(document).elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form", "img", "audio", "video")
        assert not {"src", "srcset", "action", "background", "poster", "data"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5))
def test_json_in_a_page_is_the_same_value_and_ends_no_element(value):
    written = embed.to_json(value)
    assert json.loads(written) == value
    assert written.isascii()
    assert not set("<>&'") & set(written)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_json_in_a_page_has_no_number_that_is_none(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed.to_json([number])


HOSTILE = (
    "</script><script>document.title='stolen'</script>",
    "<img src=x onerror=\"document.title='stolen'\">",
    "'\"><svg onload=document.title='stolen'>",
    "<!--<script>",
    "{{ 7*7 }}{% raw %}",
    "javascript:document.title='stolen'",
    "\u202etxet \u2066desrever",
    "]]>\u2028\u2029\0\x1b[31m",
    "=1+1",
    "a" * 10_000,
)


def hostile_results():
    """Results whose every free text is hostile."""
    actual = []
    for number, text in enumerate(HOSTILE):
        result = case(number, random.Random(number), {"topology": "1n1d"})
        facts = (
            *result.facts,
            attrs.evolve(result.facts[-1], name=text, requested=text, observed=text, role="factor"),
            attrs.evolve(
                result.facts[-1], name="implementation", requested=None, observed=text, role="factor"
            ),
        )
        actual.append(
            attrs.evolve(
                result,
                facts=facts,
                hardware=({"host": text, "cpu": {"model": text}, "kernel": text},),
                notes=(text,),
                verdicts=(Verdict(text, "integrity", "fail" if number % 2 else "pass", text),),
                environment=attrs.evolve(
                    result.environment, lock=f"{text}\n", plugin=text, variables={text: text}
                ),
                metrics=tuple(attrs.evolve(metric, note=text) for metric in result.metrics),
            )
        )
    failed = Failure("crashed", HOSTILE[0], traceback=HOSTILE[1])
    actual.append(a_result(id="failed", status="crashed", failure=failed, metrics=(), verdicts=()))
    return actual


def test_text_of_results_is_escaped():
    tame = Read(html.report_on_results([*many(len(HOSTILE))])).elements
    read = Read(html.report_on_results(hostile_results()))
    # The footnotes' list is the one thing that the tame results give no reason for.
    assert {tag for tag, _ in read.elements} - {tag for tag, _ in tame} <= {"ol", "li"}
    assert sum(kind is None for kind, _ in read.scripts) == 2
    for kind, text in read.scripts:
        if kind == "application/json":
            json.loads(text)
    assert "a" * 2001 not in " ".join(read.words)
    for _, attributes in read.elements:
        assert not [name for name in attributes if name.startswith("on")]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(any_results(), min_size=1, max_size=3))
def test_any_valid_results_have_a_report(found):
    read = Read(html.report_on_results(found))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(read.words))


# -- charts


@pytest.mark.long
def test_every_plot_is_valid_and_has_a_caption(campaign):
    actual = plots_of(measured.page(campaign[:80]))
    for name in ("tf-cnn-2017", "tensorpack"):
        actual += plots_of(page_of(name))
    assert len(actual) >= 20
    for plot in actual:
        # The shape of the plot and of some rows: the others are like them, and each takes its time.
        some = {"values": plot.spec["data"]["values"][:5]}
        altair.Chart.from_dict({**plot.spec, "data": some}, validate=True)
        assert plot.title
        assert plot.description.endswith(".")
        assert plot.numbers is None or plot.numbers.rows
        assert plot.spec["width"] == "container"


def luminance(color):
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_colors_of_plots_stand_out_on_light_and_dark_paper():
    papers = set(re.findall(r"--paper: (#[0-9a-f]{6})", render._file("style.css")))
    assert len(papers) == 2
    for color in palette.COLORS:
        for paper in papers:
            bright, dim = sorted((luminance(color), luminance(paper)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 3, (color, paper)


@given(st.floats(1e-3, 1e6), st.floats(1.5, 1e5))
def test_logarithmic_ticks_lie_on_the_axis(low, wide):
    ticks = line_charts._round_numbers(low, low * wide)
    assert ticks == sorted(ticks)
    assert all(low <= tick <= low * wide for tick in ticks)
    assert ticks or wide < 2.6


# -- series


def test_names_are_as_short_as_they_can_be_and_tell_cases_apart():
    figures = (
        Registry().collection("dlperf-v1.0").figures.filter(model="resnet50", batch_size=128, topology="1n8d")
    )
    cases = [Case.from_source(figure) for figure in figures]
    names = labels(cases, ("topology", "batch_size"))
    assert len(set(names)) == len(cases)
    assert labels(cases[:1]) == ["mxnet fp32"] or labels(cases[:1])[0].count(" ") == 1


def test_runs_of_one_case_are_merged(campaign):
    cases = [Case.from_source(result) for result in campaign]
    merged = merge(cases)
    assert len(merged) == 160
    again = merge([*cases, *cases[:3]])
    assert len(again) == 160
    assert [item.runs for item in again[:4]] == [2, 2, 2, 1]
    # Two runs are two values, and have no interval: their range is not called one.
    assert (again[0].low, again[0].high) == (None, None)
    assert again[0].case.repeats == (cases[0].throughput,) * 2
    (six,) = merge(cases[:1] * 6)
    assert (six.low, six.high) == (cases[0].throughput,) * 2


def test_a_plot_never_mixes_workloads(campaign):
    merged = merge([Case.from_source(result) for result in campaign])
    actual = workloads(merged)
    assert [item.title for item in actual] == ["resnet50, 32 per device", "resnet50, 64 per device"]
    for workload in actual:
        assert len({case.batch_size for case in workload.cases}) == 1


def test_scaling_is_against_one_device_of_the_same_case(campaign):
    (series, *_) = scaling.series_of(workloads(merge([Case.from_source(result) for result in campaign]))[0])
    assert [str(point.merged.case.topology) for point in series.points] == [
        "1n1d",
        "1n2d",
        "1n4d",
        "1n8d",
        "2n8d",
    ]
    first = series.points[0].merged.case
    for point in series.points:
        expected = point.merged.case.throughput / first.throughput
        assert point.speedup.value == pytest.approx(expected)
        assert point.efficiency.value == pytest.approx(expected / point.merged.case.topology.devices)


def test_the_series_that_are_drawn_are_those_that_reach_furthest_and_the_fastest_of_them():
    """DLPerf's own framework has four topologies where others have six; it is in the plot all the same."""
    actual = workloads(
        merge([Case.from_source(figure) for figure in Registry().collection("dlperf-v1.0").figures])
    )
    (of,) = [item for item in actual if item.title == "resnet50, 128 per device"]
    series = scaling.series_of(of)
    assert len(series) > palette.MOST_SERIES
    last = [one_series.points[-1].merged.case for one_series in series]
    assert [(case.topology.devices, case.throughput) for case in last] == sorted(
        ((case.topology.devices, case.throughput) for case in last), reverse=True
    )
    assert "oneflow" in {case.facts["framework"] for case in last[: palette.MOST_SERIES]}


def test_strong_scaling_holds_the_global_batch():
    chance = random.Random(0)
    batches = {"1n1d": 256, "1n2d": 128, "1n4d": 64, "1n8d": 32}
    actual = [case(at, chance, {"topology": t, "batch_size": b}) for at, (t, b) in enumerate(batches.items())]
    page = measured.page(actual)
    assert "Scaling" not in [section.title for section in page.sections]
    plots, numbers = section(page, "Strong scaling").items
    assert [plot.title for plot in plots.items] == [
        "Strong scaling: resnet50, 256 on all devices",
        "Speedup of strong scaling: resnet50, 256 on all devices",
        "Efficiency of strong scaling: resnet50, 256 on all devices",
    ]
    merged = merge([Case.from_source(result) for result in actual])
    (series,) = scaling.series_of(strong_workloads(merged)[0], "strong")
    assert [str(point.merged.case.topology) for point in series.points] == list(batches)
    for point in series.points:
        expected = point.merged.case.throughput / series.points[0].merged.case.throughput
        assert point.speedup.value == pytest.approx(expected)
        assert point.efficiency.value == pytest.approx(expected / point.merged.case.topology.devices)
    assert [row[2].text for row in numbers.items[0].rows] == ["1", "2", "4", "8"]
    ideal = [row["ideal"] for row in plots.items[0].spec["data"]["values"] if "ideal" in row]
    assert ideal[-1] == pytest.approx(8 * ideal[0])


def test_two_points_of_strong_scaling_are_shown_where_they_are_in_no_weak_series(campaign):
    chance = random.Random(0)
    actual = [
        case(at, chance, {"topology": t, "batch_size": b})
        for at, (t, b) in enumerate([("1n1d", 64), ("1n2d", 32)])
    ]
    page = measured.page(actual)
    assert len(section(page, "Strong scaling").items[0].items) == 3
    # The campaign has batches of 32 and 64 on all topologies: for global batches of 64, …, two points each.
    assert "Strong scaling" not in [section.title for section in measured.page(campaign).sections]


# -- sweeps and scaling


def test_the_best_batch_size_of_each_model_is_in_a_table():
    page = page_of("dlperf-v1.0")
    assert [part.title for part in page.sections if "Batch sizes" in part.title] == [
        "Batch sizes: resnet50",
        "Batch sizes: bert-base",
    ]
    sortable, choice = section(page, "Batch sizes: resnet50").items
    table = sortable.table
    titles = [f"batch {size}" for size in (96, 128, 144, 196, 224, 256, 320)]
    assert [column.title for column in table.columns] == ["topology", "case", "best", *titles]
    assert "(img/s)" in table.title and isinstance(choice, Choice)
    rows = {
        (row[0].text, row[1].text.partition(" (")[0], row[1].text.partition(") ")[2]): [
            cell.text for cell in row[2:]
        ]
        for row in table.rows
    }
    assert ("1n4d", "oneflow 0.2.0", "fp32") not in rows
    # 12,408 is no worse.
    assert rows["4n8d", "oneflow 0.2.0", "fp32"] == [
        "128, 144 (1.02×)",
        "12,162",
        "12,412",
        "12,408",
        "",
        "",
        "",
        "",
    ]
    assert rows["1n8d", "tensorflow 2.3.0", "amp-fp16, without xla"] == [
        "320 (1.24×)",
        "",
        "5,735",
        "",
        "",
        "",
        "6,898",
        "7,115",
    ]
    assert rows["1n2d", "tensorflow 2.3.0", "amp-fp16, without xla"][:3] == ["128 (only one)", "", "1,572"]
    # Cases of one batch size follow those of several, each with its version and its throughput.
    tensorflow = "tensorflow 2.3.0 (TensorFlow-models) amp-fp16, without xla"
    swept = {"oneflow 0.2.0 (OneFlow-Benchmark) fp32", tensorflow}
    is_single = [
        row[1].text not in swept and all("memory" not in cell.text for cell in row) for row in table.rows
    ]
    assert is_single == sorted(is_single) and 0 < sum(is_single) < len(is_single)
    torch = rows["4n8d", "torch 1.5.0a0+8f84ded", "fp32 dali"]
    assert torch == ["128 (only one)", "", "10,917", "", "", "", "", ""]


def test_many_swept_models_share_a_section():
    chance = random.Random(0)
    results = [
        case(number, chance, {"topology": "1n1d", "batch_size": size})
        for number, size in enumerate((2, 4) * 5)
    ]
    cases = [Case.from_source(result) for result in results]
    named = [
        attrs.evolve(one, facts={**one.facts, "model": f"model-{at // 2}"}) for at, one in enumerate(cases)
    ]
    assert [part.title for part in html_sweeps.sections(merge(named))] == ["Batch sizes"]
    assert [part.title for part in html_sweeps.sections(merge(named[:4]))] == [
        "Batch sizes: model-0",
        "Batch sizes: model-1",
    ]


def test_a_sweep_is_one_curve_of_throughput_and_one_of_memory():
    chance = random.Random(0)
    actual = [case(at, chance, {"topology": "1n1d", "batch_size": size}) for at, size in enumerate((8, 2, 4))]
    page = measured.page(actual)
    best, plots = section(page, "Batch sizes").items
    assert [column.title for column in best.table.columns][3:] == ["batch 2", "batch 4", "batch 8"]
    assert [plot.title for plot in plots.items] == [
        "Batch size: resnet50, 1n1d, fp32: throughput",
        "Batch size: resnet50, 1n1d, fp32: peak device memory",
    ]
    for plot in plots.items:
        assert [row["at"] for row in plot.spec["data"]["values"]] == [2, 4, 8]
        assert {row["series"] for row in plot.spec["data"]["values"]} == {"torch"}
        assert plot.spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [2, 4, 8]
    assert "What is not comparable" not in [part.title for part in page.sections]


@pytest.mark.parametrize("name", ["image_size", "sequence_length"])
def test_other_sizes_are_swept_as_well(name):
    merged = merge([Case.from_source(case(0, random.Random(0), {"topology": "1n1d"}))])
    (run,) = merged
    runs = [
        attrs.evolve(
            run,
            case=attrs.evolve(
                run.case,
                facts={**run.case.facts, name: size, "predictions_per_sequence": size // 8},
                roles={**run.case.roles, name: "workload", "predictions_per_sequence": "workload"},
            ),
        )
        for size in (512, 64, 128)
    ]
    expected = [] if name == "image_size" else [(name, [64, 128, 512])]
    assert [
        (sweep.factor, [sweep.value(run) for run in sweep.runs]) for sweep in sweeps.sweeps(runs)
    ] == expected
    for item in runs:
        del item.case.facts["predictions_per_sequence"], item.case.roles["predictions_per_sequence"]
    ((sweep),) = sweeps.sweeps(runs)
    assert (sweep.factor, [sweep.value(run) for run in sweep.runs]) == (name, [64, 128, 512])


def test_efficiencies_are_ranked_on_one_topology():
    chance = random.Random(0)
    places = {"torch": ("1n1d", "1n2d", "1n8d"), "oneflow": ("1n1d", "1n2d", "1n8d", "2n8d")}
    actual = [
        case(at, chance, {"framework": framework, "topology": topology})
        for at, (framework, topology) in enumerate(
            (framework, topology) for framework, topologies in places.items() for topology in topologies
        )
    ]
    (plots,) = [item for item in section(measured.page(actual), "Scaling").items if isinstance(item, Abreast)]
    efficiency = next(plot for plot in plots.items if plot.title.startswith("Efficiency"))
    assert re.search(
        r"On 1n8d the best is \w+ fp32 with [\d.]+%, the worst \w+ fp32 with", efficiency.description
    )
    speedups = next(plot for plot in plots.items if plot.title.startswith("Speedup"))
    largest = max(speedups.spec["data"]["values"], key=lambda row: row["value"])
    assert (largest["series"], largest["topology"]) == ("oneflow fp32", "2n8d")
    assert 10 < largest["value"] < 16


def test_worst_published_scaling_is_named_with_its_steepest_drop():
    fold = next(item for item in section(page_of("dlperf-v1.0"), "Scaling").items if isinstance(item, Folded))
    table = fold.items[0].table
    assert [row[0].text for row in table.rows] == sorted(row[0].text for row in table.rows)
    worst = min(table.rows, key=lambda row: float(row[7].text.rstrip("%")))
    assert [cell.text for cell in worst] == [
        "resnet50",
        "amp-fp16",
        "resnet50, 224 per device",
        "paddle (PaddleCV) amp-fp16 static loss scale",
        "1.8.3.post107",
        "4n8d",
        "9.56×",
        "29.9%",
        "between 1n1d and 1n4d",
        "9,573 img/s",
        "30.4",
        "1n4d → 1n8d",
        "",
    ]
    # Sorting by this column sorts by the drop, and the title does not promise an order.
    assert [column.right for column in table.columns if column.title.startswith("steepest drop")] == [True]
    assert "first" not in table.title
    # The older release, whose source does not state the norm, is not taken for the newer one.
    older = {
        (row[2].text, row[4].text, row[7].text)
        for row in table.rows
        if row[3].text == "oneflow fp32" and row[2].text.startswith("bert-base, 32")
    }
    assert older == {
        ("bert-base, 32 per device, no clipping", "0.2.0", "81.6%"),
        ("bert-base, 32 per device, clip norm 1.0", "0.2.0", "75.4%"),
        ("bert-base, 32 per device, clip norm not stated", "0.1.9", "80.0%"),
    }


def test_no_series_is_left_out_of_the_plots_and_none_is_named_worst_by_a_part_of_them():
    """Twelve series of ResNet-50 with batches of 128: eleven in fp32, two of which their loaders limit."""
    (choice,) = [
        item for item in section(page_of("dlperf-v1.0"), "Scaling").items if isinstance(item, Choice)
    ]
    by_title = {option.title: option.items for option in choice.options}
    *plots, numbers = by_title["resnet50, 128 per device, fp32"]
    efficiencies = [item.items[2] for item in plots]
    drawn = [row["series"] for plot in efficiencies for row in plot.spec["data"]["values"]]
    (table,) = numbers.items
    assert len(set(drawn)) == 11 and set(drawn) == {row[0].text for row in table.rows}
    worst = "tensorflow 1.15.2 (NVIDIADeepLearningExamples) fp32 dali"
    for throughputs, _, plot in (item.items for item in plots):
        names = {row["series"] for row in plot.spec["data"]["values"]}
        assert throughputs.description.startswith(f"{len(names)} of 11 lines from 1 to 32 devices.")
        place = "" if worst in names else " (in another plot)"
        assert "On 4n8d the best of 9 ranked is" in plot.description
        assert f"the worst {worst}{place} with 82.0%" in plot.description
        assert len({row["series"] for row in plot.spec["data"]["values"]}) <= palette.MOST_SERIES
        assert not any("amp-fp16" in row["series"] for row in plot.spec["data"]["values"])


# -- bad input


def test_no_report_without_results():
    with pytest.raises(StoreError, match="no result"):
        html.report_on_results([])


def test_non_finite_throughput_is_not_plotted_and_reported():
    broken = a_result(id="broken", metrics=(Metric("throughput", "img/s", math.nan),))
    page = measured.page([a_result(), broken])
    (folded,) = [item for item in section(page, "Results").items if isinstance(item, Folded)]
    assert folded.title == "1 result in no plot of throughputs"
    assert "nan" in folded.items[0].text
    assert "NaN" not in json.dumps([plot.spec for plot in plots_of(page)])
    assert "broken" in render.document(page)


def test_one_repeat_has_no_interval_and_a_note():
    result = case(0, random.Random(0), {"topology": "1n1d"}, repeats=1)
    page = measured.page([result])
    (plot,) = section(page, "Throughput").items
    assert "None of them has an interval: it takes six repeats." in plot.description
    assert plot.numbers.rows[0][-1].text == "–"
    assert (
        Paragraph("1 result without an interval: six repeats are needed for one.", "quiet")
        in section(page, "Results").items
    )


def test_no_speedup_without_a_baseline():
    chance = random.Random(0)
    actual = [case(at, chance, {"topology": name}) for at, name in enumerate(("1n2d", "1n4d"))]
    page = measured.page(actual)
    plots, numbers, notes = section(page, "Scaling").items
    assert [plot.title for plot in plots.items] == ["Scaling: resnet50, 32 per device"]
    shown = [[cell.text for cell in row[-2:]] for row in numbers.items[0].rows]
    assert shown == [["– [1]", "– [1]"]] * 2
    assert notes.texts == ("There is no 1n1d of this case with the batch per device held.",)
    assert "0.00×" not in render.document(page)


def test_sections_appear_only_for_existing_data():
    page = measured.page(
        [a_result(status="crashed", failure=Failure("crashed", "It broke."), metrics=(), verdicts=())]
    )
    assert [section.title for section in page.sections] == [
        "Results",
        "Environment and hardware",
        "Every result in full",
    ]
    (tile,) = page.tiles
    assert (tile.value, tile.aside, tile.tone) == ("0 of 1 valid", "1 failed", "doubt")


def test_unreadable_results_are_listed_first():
    page = measured.page([a_result()], ["x/result.json is of schema version 7.0."])
    assert page.sections[0].items == (Paragraph("x/result.json is of schema version 7.0.", "doubt"),)


def test_incomparable_cases_are_listed_with_reasons():
    chance = random.Random(0)
    actual = [
        case(at, chance, {"topology": "1n1d", "accumulation": accumulation, "data": data})
        for at, (accumulation, data) in enumerate(((1, "synthetic"), (1, "synthetic-host"), (2, "synthetic")))
    ]
    between, within = section(measured.page(actual), "What is not comparable").items
    assert [cell.text for cell in between.rows[0]] == [
        "accumulation",
        "accumulation 1, accumulation 2",
        "It is part of the workload: another value is other work.",
    ]
    assert [cell.text for cell in within.table.rows[0]][:3] == [
        "only in Effects",
        "resnet50, 32 per device, accumulation 1",
        "data: synthetic against synthetic-host",
    ]


@pytest.mark.long
def test_thousands_of_results_stay_small():
    document = html.report_on_results(list(many(2000)))
    assert len(document.encode()) < 2_500_000
    assert document.count("<tr>") < 2000


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(render, "_NEEDED", ("altair", "not_there_at_all"))
    with pytest.raises(UsageError, match=r"needs not_there_at_all.*dlperf-sdk\[report\]"):
        html.report_on_results([a_result()])


# -- published figures


@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_published_figure_is_there_with_its_line(name):
    figures = Registry().collection(name).figures
    sortable, *footnotes = section(page_of(name), "Every figure").items
    assert {text for notes in footnotes for text in notes.texts} == {
        text for figure in figures for text in figure.footnotes
    }
    titles = [column.title for column in sortable.table.columns]
    shown = [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in sortable.table.rows]
    numbers = [item["throughput"].replace(",", "").split() for item in shown]
    assert [
        (item["source"], float(number), unit) for item, (number, unit) in zip(shown, numbers, strict=True)
    ] == [(str(figure.source), figure.throughput, figure.unit) for figure in figures]
    # What tells two figures apart stands before the throughput; what none differ in is stated once.
    always = {"model", "topology", "batch", "throughput", "source"}
    assert all(title in always or len({item[title] for item in shown}) > 1 for title in titles)
    if name == "tf-cnn-2017":
        assert titles[:6] == ["model", "topology", "batch", "data", "hardware", "throughput"]
        assert len({tuple(item[title] for title in titles[:5]) for item in shown}) == len(shown)


def test_disagreements_begin_with_the_largest():
    _, sortable = section(page_of("dlperf-v1.0"), "Source disagreements").items
    first = [cell.text for cell in sortable.table.rows[0]]
    assert first[2:6] == ["wrong number", "19.41%", "4799.64", "4019.45"]
    sizes = [float(row[3].text.rstrip("%")) for row in sortable.table.rows if row[3].text != "–"]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 12
    assert "9 numbers and 57 labels disagree" in sortable.table.title
    # On a phone a row begins with its key, so that no number stands above its title.
    assert [column.key for column in sortable.table.columns[:3]] == [True, True, False]
    places = [tuple(cell.text for cell in row[:2]) for row in sortable.table.rows]
    assert len(set(places)) == len(places) == 69
    steps, tile = page_of("dlperf-v1.0").tiles[-2:]
    assert (tile.value, tile.section) == ("9 numbers and 57 labels", "Source disagreements")
    assert tile.aside == (
        "of 728 printed cells; 3 more differ in the last digit; the number that differs most (19%) is in the cell "
        "“4n8d, OneFlow W/O clip” of DLPerf_report_v1.0.xlsm bert_fp32_bz32: 4799.64 is printed, which is the figure "
        "with batch size 96 instead of 32."
    )
    # The label, the number and the text are a sentence on their own.
    assert steps.label == "Figures that deviate from the prescribed protocol"
    assert (steps.value, steps.section) == ("169 of 323", "Coverage and protocol")
    assert steps.aside == (
        "Prescribed: 20 warm-up + 100 measured steps, 7 repeats. 99 more do not state all of these; 55 follow them."
    )
    (nothing,) = section(page_of("tensorpack"), "Source disagreements").items
    assert nothing.text.endswith("all of 21 printed cells agree with the figures.")


def test_a_collection_without_figures_has_a_page_that_says_so():
    class Empty(Collection):
        name, title, description = "empty", "Nothing yet", "Figures of nobody."
        figures = Figures("empty", ())

    assert "Figures of nobody. It has no figures." in html.report_on_collection(Empty())
    assert "It has no figures." in markdown.text_of(html.blocks_of_collection(Empty()))


@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_table_of_the_terminals_report_is_in_the_page(name):
    actual = items_of(page_of(name))
    tables = [item.table if isinstance(item, Sortable) else item for item in actual]
    for block in collection_page.page(Registry().collection(name)):
        if isinstance(block, Table):
            assert block in tables


def test_the_data_of_a_table_holds_every_row():
    read = Read(html.report_on_collection(Registry().collection("tf-cnn-2017")))
    data = [json.loads(text) for kind, text in read.scripts if kind == "application/json"]
    tables = [item for item in data if "rows" in item]
    sizes = [len(table["rows"]) for table in tables]
    assert 64 in sizes
    every = next(table for table in tables if len(table["rows"]) == 64)
    lines = {every["cells"][-2][row[-2]][0] for row in every["rows"]}
    assert lines == {str(figure.source) for figure in Registry().collection("tf-cnn-2017").figures}


# -- Markdown


def test_markdown_has_the_content_of_html_and_needs_no_extra(monkeypatch, campaign):
    page = page_of("tensorpack")
    monkeypatch.setitem(sys.modules, "altair", None)
    text = markdown.text_of(html.blocks_of_collection(Registry().collection("tensorpack")))
    assert "Run once, as the source says." in text
    for part in page.sections:
        assert f"## {part.title}" in text
    for item in items_of(page):
        table = item.table if isinstance(item, Sortable) else item.numbers if isinstance(item, Plot) else item
        if isinstance(table, Table):
            assert markdown.text_of([attrs.evolve(table, title="")]).strip() in text
    several = markdown.text_of(html.blocks_of_results(campaign[:4]))
    assert "## Throughput" in several
    assert "## Verdicts" in several


# -- rendering


def test_a_page_without_plots_brings_no_library():
    document = render.document(Page("Title", "", (), (Section("One", (Paragraph("text"),)),), "made"))
    assert len(document) < 50_000
    assert "vega" not in Read(document).scripts[0][1][:100]


def test_a_table_shows_its_first_rows_without_a_script():
    rows = tuple((Cell(str(number)),) for number in range(120))
    table = Sortable(Table((Column("number", right=True),), rows, "Numbers"))
    read = Read(render.document(Page("Title", "", (), (Section("One", (table,)),), "made")))
    assert sum(tag == "td" for tag, _ in read.elements) == table.page_rows
    assert entities.unescape("".join(read.words)).count("Numbers") == 1


# -- throughput


@pytest.mark.parametrize("name", ["dlperf-v1.0", "tf-cnn-2017"])
def test_a_plot_of_throughputs_shows_every_case_once_and_pools_nothing(name):
    """Releases and implementations have a row each, however many there are."""
    merged = merge([Case.from_source(figure) for figure in Registry().collection(name).figures])
    shown = []
    for workload in workloads(merged):
        for plot in plots_of(Page("", "", (), (rates.section([workload]),), "")):
            rows = plot.spec["data"]["values"]
            assert len(rows) <= spread.MAX_VALUES
            assert len({row["label"] for row in rows}) == len(rows)
            assert not {"p25", "p50", "p75"} & {name for row in rows for name in row}
            shown += [row["value"] for row in rows]
    assert sorted(shown) == sorted(run.case.throughput for run in merged)


def test_more_cases_than_a_plot_holds_come_in_facets_and_pages():
    values = [
        spread.Value(f"case {n}", "1n1d" if n < 90 else "1n2d", "torch", float(n + 1)) for n in range(100)
    ]
    plots = spread.plots(values, "throughput", "img/s", "Throughput", 9)
    titles = [plot.title for plot in plots]
    assert titles == [*(f"Throughput, 1n1d, {page} of 3" for page in (1, 2, 3)), "Throughput, 1n2d"]
    assert sum(len(plot.numbers.rows) for plot in plots) == 100


# -- which framework is fastest


def test_the_first_screen_answers_which_framework_is_fastest():
    page = page_of("dlperf-v1.0")
    assert page.sections[0].title == "Fastest framework"
    colors, overview, notes, terms, details = page.sections[0].items

    def note(cell):
        return notes.texts[int(re.search(r"\[(\d+)\]", cell.text)[1]) - 1]

    columns = [column.title for column in overview.columns]
    (row,) = (row for row in overview.rows if [cell.text for cell in row[:3]] == ["resnet50", "128", "fp32"])
    assert columns[4:] == ["1n1d", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d"]
    assert re.sub(r" \[\d+\]", "", row[columns.index("4n8d")].text) == "oneflow 12,412\n≈1.10× mxnet"
    assert note(row[columns.index("4n8d")]) == "Input pipeline stated by one side."
    # The interval is there, and so is who was not measured: the lead is none over them.
    assert re.sub(r" \[\d+\]", "", row[columns.index("1n2d")].text) == "mxnet 764.6\n1.16–1.23× paddle"
    assert note(row[columns.index("1n2d")]) == (
        "Estimator differs; input pipeline stated by one side; protocol not stated; oneflow and torch not "
        "measured."
    )
    assert "oneflow not measured" in note(row[columns.index("1n4d")])
    assert sum("×" in cell.text for row in overview.rows for cell in row[4:]) == 52
    assert all(cell.text for row in overview.rows for cell in row[4:])
    # Where one framework was measured, it stands there, so the greatest batch is not taken for that of a ranking.
    amp = {
        row[1].text: row[columns.index("1n8d")].text.split("\n")[0]
        for row in overview.rows
        if (row[0].text, row[2].text) == ("resnet50", "amp-fp16")
    }
    assert amp.pop("256").startswith("oneflow 10,629")
    assert amp == {
        "128": "tensorflow 5,735 *",
        "196": "paddle 6,862 *",
        "224": "tensorflow xla 8,588",
        "320": "tensorflow 7,115 *",
    }
    batches = [
        int(row[1].text) for row in overview.rows if row[0].text == "resnet50" and row[2].text == "amp-fp16"
    ]
    assert batches == sorted(batches, reverse=True)
    # A lead without an interval is grey and has a sign of its own; one with a reservation is amber.
    leads = [cell for row in overview.rows for cell in row if "×" in cell.text]
    assert {cell.tone for cell in leads if "≈" in cell.text} == {"quiet"}
    assert {cell.tone for cell in leads if "≈" not in cell.text} == {"doubt"}
    assert colors.text.startswith("5 of 52 leads have an interval, none without a reservation.")
    # A lead of compiled code over code that is not compiled says so.
    (xla,) = (
        row for row in overview.rows if [cell.text for cell in row[:3]] == ["resnet50", "224", "amp-fp16"]
    )
    assert xla[columns.index("4n8d")].text.startswith("tensorflow xla 29,172\n≈2.74× paddle")
    assert note(xla[columns.index("4n8d")]) == (
        "Loss scale differs; compiler differs; input pipeline stated by one side; protocol not stated; "
        "tensorflow 1.15.2 is not the newest release."
    )
    # Two lines are short enough for the width of a column.
    assert all(len(line) < 26 for cell in leads for line in cell.text.split("\n"))
    assert "Estimator differs: the sources compute the throughput in different ways" in terms.text
    assert "Clip norm stated by neither: gradients may or may not have been clipped." in terms.text
    (fp16,) = (row for row in overview.rows if row[2].text == "fp16")
    assert fp16[columns.index("4n8d")] == Cell("mxnet 30,714 *", "quiet")
    (sortable,) = details.items
    table = sortable.table
    titles = [column.title for column in table.columns]
    rows = [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in table.rows]
    bert = [
        row
        for row in rows
        if (row["topology"], row["model"], row["batch"], row["precision"])
        == ("4n8d", "bert-base", "64", "amp-fp16")
    ]
    answers = {row["settings"]: (row["fastest"].split()[0], row["not comparable"]) for row in bert}
    assert {clipping: answer[0] for clipping, answer in answers.items()} == {
        "no clipping": "mxnet",
        "clip norm not stated": "tensorflow",
    }
    # Among rows that differ in their settings only, the fastest comes first.
    assert list(answers) == ["no clipping", "clip norm not stated"]
    # The faster ones, which do not clip, are named beside the one that is crowned among its equals.
    assert "mxnet 11,269, oneflow 11,196 (no clipping)" in answers["clip norm not stated"][1]
    fastest = [tile for tile in page.tiles if tile.label.startswith("Fastest: ")]
    assert [tile.label for tile in fastest] == [
        "Fastest: resnet50 · 4n8d · fp32 · batch 128",
        "Fastest: bert-base · 4n8d · fp32 · batch 32",
        "Fastest: resnet50 · 4n8d · amp-fp16 · batch 256",
    ]
    assert [tile.section for tile in fastest] == ["Fastest framework"] * 3
    assert fastest[0].value == "oneflow"
    assert fastest[1].value == "oneflow"
    # The newer release, with its true second. The older one, whose source does not state the norm, is in the table.
    assert fastest[1].aside == "oneflow 0.2.0 at 4,019 seq/s (no clipping), ≈1.09× mxnet 3,671, no interval"
    assert fastest[1].excluded == (
        "oneflow 0.1.9 3,715, torch 2,886, tensorflow 2,728, paddle 2,074 (clip norm not stated); "
        "oneflow 3,690 (clip norm 1.0)"
    )


@pytest.mark.parametrize("slowdown", [1.0, 2.0])
def test_a_tile_names_no_framework_if_the_lead_is_not_significant(slowdown):
    chance = random.Random(3)
    actual = []
    for framework in ("torch", "tensorflow"):
        result = case(len(actual), chance, {"framework": framework, "topology": "1n1d"})
        slower = slowdown if framework == "tensorflow" else 1.0
        rates = metrics.metric("throughput", "img/s", [(100 + number) / slower for number in range(7)])
        # Without repeats: their records would give other rates.
        actual.append(attrs.evolve(result, metrics=(rates,), repeats=()))
    (tile,) = [tile for tile in measured.page(actual).tiles if tile.label.startswith("Fastest: ")]
    if slowdown > 1:
        assert (tile.value, "not significant" in tile.aside) == ("torch", False)
    else:
        assert (tile.value, "not significant" in tile.aside) == ("no clear lead", True)
        assert "103" in tile.aside


# -- effects


def test_effect_names_its_levels_once():
    figures = Registry().collection("dlperf-v1.0").figures.filter(topology="1n8d")
    cases = [Case.from_source(figure) for figure in figures]
    items = effects.section(cases, effects.estimate_effects(cases, collection.FACTORS)).items
    table = items[0]
    (plot,) = (item for item in items if isinstance(item, Plot))
    names = [row[1].text for row in plot.numbers.rows]
    assert len(set(names)) == len(names)
    assert {
        "amp-fp16 ÷ fp32, resnet50, tensorflow only",
        "amp-fp16 ÷ fp32, bert-base",
        "clip norm 1.0 ÷ no clipping, bert-base, oneflow only",
    } <= set(names)
    batches = next(
        item for item in items if isinstance(item, Table) and item.title == "Effects of the batch size"
    )
    assert [row[0].text for row in (*table.rows, *batches.rows)] == names
    # Sizes are never the smaller over the larger, and another model is no setting.
    sizes = [re.findall("[0-9]+", name)[:2] for name in names if name.startswith("batch size")]
    assert sizes and all(int(first) > int(second) for first, second in sizes)
    assert not any(name.startswith("resnet50") for name in names)


def test_every_pair_of_an_effect_is_listed():
    *_, fold = (item for item in section(page_of("dlperf-v1.0"), "Effects").items if isinstance(item, Folded))
    (pairs,) = fold.items
    rows = [[cell.text for cell in row] for row in pairs.table.rows]
    titles = [column.title for column in pairs.table.columns]
    (row,) = (row for row in rows if row[0].startswith("xla") and row[-1] == "1.268")
    named = dict(zip(titles, row, strict=True))
    assert (named["framework"], named["topology"], named["batch size"]) == ("tensorflow", "1n1d", "224")
    assert "static-128" in named["settings"]
    torch = [row for row in rows if row[titles.index("framework")] == "torch"]
    assert len(set(map(tuple, (row[:-1] for row in torch)))) == len(torch)


def test_an_effect_that_depends_on_the_hardware_and_the_number_of_devices_says_so():
    """Real data costs nothing on one P100, and 6 % on eight: the median of all pairs is 1.00."""
    part = section(page_of("tf-cnn-2017"), "Effects")
    (table, *_, fold) = part.items
    titles = [column.title for column in table.columns]
    row = dict(zip(titles, (cell.text for cell in table.rows[0]), strict=True))
    assert row["effect"] == "real (images) ÷ synthetic" and row["ratio"] == "1.00×; pairs 0.92× to 1.02×"
    assert row["rests on"] == ("tensorflow1: 32 pairs (8 cases on 4 topologies), without a common direction")
    assert "95 % interval" not in titles
    by_topology = part.items[1].table
    titles = [column.title for column in by_topology.columns]
    assert titles[1:6] == ["framework", "model", "hardware", "batch size", "settings"]
    assert titles[6:] == ["1n1d", "1n2d", "1n4d", "1n8d"]
    shown = {
        tuple(cell.text for cell in row[1:5]): [cell.text for cell in row[6:]]
        for row in by_topology.rows
        if "images" in row[0].text
    }
    assert shown["tensorflow1", "resnet50-v1", "Tesla P100", "64"] == ["1.00×", "1.01×", "1.00×", "0.94×"]
    assert shown["tensorflow1", "resnet50-v1", "Tesla K80", "32"] == ["1.00×", "1.00×", "1.02×", "0.99×"]
    assert all(cell.text for row in by_topology.rows for cell in row)
    (pairs,) = fold.items
    keys = [tuple(cell.text for cell in row[:-1]) for row in pairs.table.rows]
    assert len(set(keys)) == len(keys) == 96
    assert "hardware" in [column.title for column in pairs.table.columns]


def test_an_effect_names_what_changed_along_with_the_setting():
    names = [row[0].text for row in section(page_of("tensorpack"), "Effects").items[0].rows]
    assert "in-graph ÷ constant (data changed as well), tensorpack only" in names


def test_the_precision_of_a_framework_with_other_batch_sizes_is_compared_and_marked():
    """No fold hides it, and both batch sizes stand beside the ratio."""
    own = section(page_of("dlperf-v1.0"), "Effects").items[2].table
    assert own.title.startswith("The precision and its batch size together")
    titles = [column.title for column in own.columns]
    assert titles[5:] == ["1n1d", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d"]
    rows = {tuple(cell.text for cell in row[:4]): [cell.text for cell in row[4:]] for row in own.rows}
    effect = "amp-fp16 ÷ fp32"
    assert rows[effect, "oneflow 0.2.0", "resnet50", "256 ÷ 128"][1:] == [
        *("3.70×", "–", "–", "3.40×", "2.86×", "2.67×"),
    ]
    torch = [[cell.text for cell in row] for row in own.rows if row[1].text.startswith("torch")]
    (static,) = (row for row in torch if row[2] == "resnet50" and "static loss scale" in row[4])
    assert static[5:] == ["2.25×", "–", "2.24×", "2.23×", "–", "–"]


def test_each_rule_for_an_interval_is_named_once():
    part = section(page_of("dlperf-v1.0"), "Intervals")
    *_, table = part.items
    assert [(row[0].text, row[1].text) for row in table.rows] == [
        ("one throughput", "six repeats"),
        ("the ratio of two cases", "four repeats on each side"),
        ("the effect of a setting", "six frameworks, or a single pair with four repeats on each side"),
    ]
    assert part.lede.startswith("The single repeats of 80 of 323 cases are known.")
    ledes = " ".join(part.lede for part in page_of("dlperf-v1.0").sections)
    assert "repeats or more" not in ledes and "six repeats" not in ledes


def test_effect_row_has_factor_size_and_certainty():
    """Before the plot, and before the batch sizes, which are sweeps."""
    part = section(page_of("dlperf-v1.0"), "Effects")
    (table, _, _, by_topology, batches, *_) = part.items
    assert by_topology.table.title.endswith("both sides have the same batch size")
    # Parentheses are the notation of intervals, which none of these ratios has.
    assert not any(re.search(r"\([0-9.]+ – ", cell.text) for row in table.rows for cell in row)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert next(iter(rows)) == "xla ÷ no compiler, resnet50, tensorflow only"
    assert rows["xla ÷ no compiler, resnet50, tensorflow only"] == [
        "1.24×; pairs 1.18× to 1.27×",
        "no interval: 1 framework; repeats not stated",
        "tensorflow 1.15.2: 5 topologies of one case, all faster",
        "amp-fp16, batch size 224",
    ]
    (row,) = (row for row in by_topology.table.rows if row[0].text == "xla ÷ no compiler, resnet50")
    settings = "(NVIDIADeepLearningExamples), dali, static-128 loss scale, amp-fp16"
    assert [cell.text for cell in row[1:5]] == ["tensorflow", "resnet50", "224", settings]
    assert [cell.text for cell in row[5:]] == ["1.27×", "–", "1.23×", "1.24×", "1.24×", "1.18×"]
    assert rows["amp-fp16 ÷ fp32, resnet50, tensorflow only"][3].endswith("batch size 128")
    assert rows["amp-fp16 ÷ fp32, bert-base"][:3] == [
        "2.68×; pairs 1.24× to 3.42×",
        "no interval: 3 frameworks; 6 or 7 repeats, or not stated",
        "20 pairs, all faster, of 3 frameworks (oneflow 2.68×, mxnet 2.72×, paddle 1.74×)",
    ]
    assert "the pairs describe these cases only" in part.lede
    assert "clip norm 1.0 ÷ no clipping, bert-base, oneflow only" in rows
    assert not any(name.startswith("batch size") for name in rows)
    assert batches.title == "Effects of the batch size" and all(
        row[0].text.startswith("batch size") for row in batches.rows
    )


def test_lowest_and_highest_efficiencies_are_stated_first_with_those_of_all_topologies():
    (extremes, *_) = section(page_of("dlperf-v1.0"), "Scaling").items
    titles = [column.title for column in extremes.columns]
    assert titles[2:] == [
        *("efficiency", "case", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d"),
        *("steepest drop, points per doubling", "throughput"),
    ]
    rows = [[cell.text for cell in row] for row in extremes.rows]
    assert rows[0] == [
        "bert-base",
        "amp-fp16",
        "lowest on 4n8d",
        "paddle 1.8.3.post107 dynamic loss scale, batch 64, clip norm not stated",
        *("–", "67.8%", "56.1%", "43.2%", "36.8%"),
        "1n1d → 1n4d: 16.1",
        "3,406 seq/s",
    ]
    # The first topology below 90 % is visible.
    assert [cell.tone for cell in extremes.rows[1][4:9]] == ["quiet", "plain", "plain", "plain", "doubt"]
    # A case that was not compiled says so where its framework was measured with a compiler, too.
    ranked = {tuple(row[:3]): row[3] for row in rows}
    assert ranked["bert-base", "amp-fp16", "highest on 4n8d"].startswith(
        "tensorflow 1.15.2, without xla, batch 64"
    )
    assert ("resnet50", "fp16", "only series to 4n8d") in ranked
    assert ranked["resnet50", "fp32", "lowest on 4n8d"].startswith("tensorflow 1.15.2")
    # No row mixes models or precisions, and none is missing; two are not ranked.
    assert len(rows) == 13 and len({tuple(row[:2]) for row in rows}) == 7
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)


def test_two_frameworks_on_one_case_are_one_pair():
    chance = random.Random(1)
    actual = []
    for framework, version, layout in (("torch", "2.4.1", "nchw"), ("tensorflow", "2.16.1", "nhwc")):
        result = case(len(actual), chance, {"framework": framework, "topology": "1n1d"})
        observed = {"framework_version": version, "layout": layout}
        facts = (attrs.evolve(fact, observed=observed.get(fact.name, fact.observed)) for fact in result.facts)
        actual.append(attrs.evolve(result, facts=tuple(facts)))
    page = measured.page(actual)
    part = section(page, "Effects")
    table, _, plot, fold = part.items
    assert "One effect here has an interval." in part.lede
    assert len(table.rows) == len(plot.numbers.rows) == 1
    ((row,),) = (pairs.table.rows for pairs in fold.items)
    assert row[1].text.startswith("tensorflow 2.16.1 (nhwc) ÷ torch")
    assert len([row for row in plot.spec["data"]["values"] if "ratio" in row]) == 1
    assert re.fullmatch(
        r"tensorflow 2\.16\.1 \(nhwc\) reaches 1\.\d+ times the throughput of torch 2\.4\.1 \(nchw\): "
        r"95 % interval 1\.\d+ to 1\.\d+, significant \(p = 0\.00058\)\.",
        plot.description,
    )
    assert "What is not comparable" not in [part.title for part in page.sections]


def test_labels_of_throughputs_leave_out_what_all_cases_share():
    """Twenty labels that began with the framework and the estimator were cut at the same place."""
    plots = [item for item in items_of(page_of("tf-cnn-2017")) if isinstance(item, Plot)]
    plots = [plot for plot in plots if plot.title.startswith("Throughput")]
    names = [row["label"] for plot in plots for row in plot.spec["data"]["values"]]
    assert names and not any("tensorflow" in name for name in names)
    assert all(name.split()[-1] in ("1n1d", "1n2d", "1n4d", "1n8d") for name in names)


def test_data_sources_are_labeled_by_name_and_parts_have_a_column():
    def run(number, part, **data):
        result = a_result(
            id=f"run-{number}", fields={"data": data["source"], "part": part, "topology": "1n1d"}
        )
        facts = [attrs.evolve(fact, observed=data) if fact.name == "data" else fact for fact in result.facts]
        return attrs.evolve(result, facts=tuple(facts))

    queue = {"source": "python-queue", "queue_size": 2}
    sources = (queue, {"source": "zmq", "sender_cpus": [1]})
    wholes = [run(number, "whole", **data) for number, data in enumerate(sources)]
    cases = [Case.from_source(result) for result in wholes]
    assert labels(cases) == ["torch fp32 python-queue", "torch fp32 zmq"]
    longer = Case.from_source(run(3, "whole", source="python-queue", queue_size=4))
    assert labels([cases[0], longer]) == [
        "torch fp32 python-queue (queue size 2)",
        "torch fp32 python-queue (queue size 4)",
    ]
    (sortable, *_) = html_results.results_table([*wholes, run(2, "input", **queue)], [Cell("ok")] * 3).items
    columns = [column.title for column in sortable.table.columns]
    assert {"part", "data"} <= set(columns)


def test_what_is_not_comparable_has_no_row_in_both_directions():
    *_, within = section(page_of("tensorpack"), "What is not comparable").items
    differences = [row[2].text for row in within.table.rows if row[2].text.startswith("data: ")]
    assert differences == ["data: synthetic against synthetic-host"]


def test_without_a_ranking_the_first_screen_states_scaling_and_the_cost_of_real_data():
    scaled, data, disagreements = page_of("tf-cnn-2017").tiles
    assert (scaled.label, scaled.section) == ("Scaling efficiency on 1n8d", "Scaling")
    assert scaled.value == "91.0% to 99.6%"
    assert (data.label, data.section) == ("Real over synthetic data on 1n8d", "Effects")
    assert data.value == "0.94× to 1.00×"
    assert "resnet50-v1 Tesla P100" in data.aside
    # The card and Effects compare real with synthetic data: no table says that this is impossible.
    assert data.aside.endswith("Only pairs on 1n8d; Effects has those of all topologies.")
    # A count is exact, so another one is wrong and not rounded; and it is no throughput.
    assert disagreements.value == "2 numbers"
    assert disagreements.aside.endswith("4 is printed as the number of GPUs, where the figures have 8.")
    _, within = section(page_of("tf-cnn-2017"), "What is not comparable").items
    kinds = {row[0].text for row in within.table.rows if row[2].text == "data: images against synthetic"}
    assert kinds == {"only in Effects"}


# -- results that do not stand


def rivals():
    chance = random.Random(3)
    return [
        case(number, chance, {"framework": name, "topology": "1n1d"})
        for number, name in enumerate(("torch", "oneflow"))
    ]


def test_a_result_that_contradicts_its_records_is_ranked_nowhere():
    slower, faster = rivals()
    assert any(tile.value == "oneflow" for tile in measured.page([slower, faster]).tiles)
    throughput, *others = faster.metrics
    rates = [2 * rate for rate in throughput.repeats]
    edited = attrs.evolve(faster, metrics=(metrics.metric("throughput", "img/s", rates), *others))
    page = measured.page([slower, edited])
    assert [tile.value for tile in page.tiles] == ["1 of 2 valid"]
    assert "Fastest framework" not in [part.title for part in page.sections]
    (omitted,) = (item for item in section(page, "Results").items if isinstance(item, Folded))
    assert omitted.title == "1 result in no plot of throughputs"
    assert "the file contradicts itself" in omitted.items[0].text


def test_a_lead_names_what_is_unverified():
    slower, faster = rivals()
    assert list_reservations(compare(faster, slower)) == []
    doubtful = attrs.evolve(
        faster,
        verdicts=(
            *faster.verdicts,
            Verdict("parity", "integrity", "inconclusive", "The model is unverified."),
            Verdict("steady-state", "quality", "fail", "The window is 9 % off."),
        ),
    )
    unverified = ["model unverified (oneflow)", "steady state unverified (oneflow)"]
    assert list_reservations(compare(doubtful, slower)) == unverified
    assert list_reservations(compare(doubtful, doubtful)) == unverified
    # A second run without doubts does not take them away.
    (run,) = merge([Case.from_source(faster), Case.from_source(doubtful)])
    assert list_reservations(compare(run.case, slower)) == unverified
    _, fastest = measured.page([slower, doubtful]).tiles
    assert fastest.value == "oneflow" and fastest.is_reserved
    imported = attrs.evolve(faster, verdicts=(), imported=Imported("dllogger", "1", "DLLogger", "…", ()))
    assert list_reservations(compare(imported, slower)) == ["imported numbers unverified (oneflow)"]
