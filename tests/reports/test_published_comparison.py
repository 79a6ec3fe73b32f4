"""Results compared with published figures, and what is not comparable."""

import pytest
from cli_fixtures import dlperf, isolated_directory, stored  # noqa: F401 - fixtures
from result_samples import a_result

from dlperf_sdk.campaigns import file
from dlperf_sdk.campaigns.campaign import expand_cases
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import terminal
from dlperf_sdk.reports.blocks import Table
from dlperf_sdk.reports.html import measured, render
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.reports.published_comparison import compare_with_published

COLLECTION = Registry().collection("dlperf-v1.0")
CASE = {"framework": "torch", "model": "resnet50", "topology": "1n8d", "batch_size": 128}


def text(results, name="dlperf-v1.0"):
    return " ".join(
        terminal.text_of(compare_with_published(results, Registry().collection(name)), width=300).split()
    )


@pytest.mark.parametrize(
    ("preset", "name", "count"),
    [
        ("dlperf-v1", "dlperf-v1.0", 249),
        ("tf-cnn-2017", "tf-cnn-2017", 64),
        ("tensorpack-2017", "tensorpack", 34),
    ],
)
def test_a_preset_at_small_size_stands_beside_the_figures_of_its_source(preset, name, count):
    collection = Registry().collection(name)
    results = []
    for planned in expand_cases(file.load_campaign(f"preset:{preset}"), "stamp"):
        fields = {
            key: getattr(planned.spec, key)
            for key in ("framework", "model", "precision", "compiler", "strategy")
        }
        unit = "seq/s" if planned.spec.model == "bert-base" else "img/s"
        rates = Metric("throughput", unit, 0.5, None, None, (0.5,), "samples over the slowest window")
        case = {**fields, "topology": str(planned.spec.topology), "batch_size": 2, "device": "cpu"}
        results.append(a_result(id=planned.id, fields=case, metrics=(rates,)))
    (table,) = (block for block in compare_with_published(results, collection) if isinstance(block, Table))
    case, beside = "", set()
    for row in table.rows:
        case = row[0].text or case
        if not row[0].text:
            beside.add((" · ".join(case.split(" · ")[:3]), row[2].text))
            assert float(row[3].text.rstrip(" ?")) > 0
    missing = [
        figure
        for figure in collection.figures
        if (
            f"{figure.framework} {figure.model} · {figure.topology} · {figure.precision}",
            quantity(figure.throughput, figure.unit),
        )
        not in beside
    ]
    assert len(collection.figures) - len(missing) == count
    # The preset leaves out other topologies, a variant of the model, and float16 weights.
    topologies, models = (
        {result.spec.topology for result in results},
        {result.spec.model for result in results},
    )
    assert all(
        figure.topology not in topologies or figure.model not in models or figure.precision == "fp16"
        for figure in missing
    )


def test_every_figure_of_the_same_case_is_compared():
    shown = text([a_result(fields=CASE)])
    alike = COLLECTION.figures.filter(framework="torch", model="resnet50", topology="1n8d", precision="fp32")
    assert len(alike) >= 2
    for figure in alike:
        assert quantity(figure.throughput, "img/s") in shown
        assert f"{203.0 / figure.throughput:.3f}" in shown
        assert figure.implementation in shown
    assert "yours" in shown


def test_incomparable_figure_has_a_footnote_and_a_question_mark():
    figure = COLLECTION.figures.filter(
        framework="torch", model="resnet50", topology="1n8d", precision="fp32", batch_size=128
    ).figures[0]
    shown = text([a_result(fields=CASE)])
    assert f"{203.0 / figure.throughput:.3f} ?" in shown
    assert "Not comparable: data: synthetic against images" in shown
    assert "clip_norm" not in shown and "layout: auto against not stated" in shown
    assert "Tesla V100-SXM2-16GB" in shown


def test_cases_without_figure_or_throughput_are_listed():
    shown = text([a_result(fields={**CASE, "topology": "3n3d"}), a_result(metrics=())])
    assert "dlperf-v1.0 has no figure of torch resnet50 · 3n3d · fp32." in shown
    assert "has no throughput" in shown


def test_the_command(dlperf, stored):
    stored(fields=CASE)
    for words in (
        ["--compare-published", "dlperf-v1.0"],
        ["--compare-published", "dlperf-v1.0", "--format", "markdown"],
    ):
        code, out, _ = dlperf("report", *words)
        assert code == 0 and "Comparison with DLPerf v1.0" in out.replace("\\", "")
    code, _, err = dlperf("report", "--compare-published", "dlperf-v1")
    assert code == 2 and "Did you mean 'dlperf-v1.0'" in " ".join(err.split())


def test_in_html_every_row_names_its_case():
    page = measured.page([a_result(fields=CASE)], published=COLLECTION)
    (actual,) = [
        section for section in page.sections if section.title.startswith("Comparison with DLPerf v1.0")
    ]
    sortable, notes = actual.items
    rows = sortable.table.rows
    assert len(rows) >= 3 and {row[0].text for row in rows} == {"torch resnet50 · 1n8d · fp32"}
    assert any("Not comparable: data: synthetic against images" in text for text in notes.texts)
    html = render.document(page)
    assert "yours ÷ theirs" in html and "Tesla V100-SXM2-16GB" in html


def test_html_lists_cases_without_a_figure():
    page = measured.page([a_result(fields={**CASE, "topology": "3n3d"})], published=COLLECTION)
    (actual,) = [
        section for section in page.sections if section.title.startswith("Comparison with DLPerf v1.0")
    ]
    (folded,) = actual.items
    assert folded.title == "1 case without a published figure"
    assert "dlperf-v1.0 has no figure of torch resnet50 · 3n3d · fp32." in folded.items[0].text


def test_the_command_for_html(dlperf, stored):
    stored(fields=CASE)
    code, out, _ = dlperf("report", "--compare-published", "dlperf-v1.0", "--format", "html")
    assert code == 0 and "<h2" in out and "Comparison with DLPerf v1.0" in out
    code, _, err = dlperf("report", "--compare-published", "dlperf-v1", "--format", "html")
    assert code == 2 and "Did you mean 'dlperf-v1.0'" in " ".join(err.split())


@pytest.mark.parametrize(
    "words", [["--json"], ["--format", "csv"], ["--format", "json"], ["--published", "tensorpack"]]
)
def test_it_goes_with_tables_for_people(dlperf, stored, words):
    stored()
    code, _, err = dlperf("report", "--compare-published", "dlperf-v1.0", *words)
    assert code == 2 and "--compare-published" in err


def test_a_case_with_another_data_source_is_named_with_it():
    sources = ("synthetic", "python-queue")
    results = [a_result(fields={**CASE, "topology": "1n1d", "data": data}) for data in sources]
    (table,) = (block for block in compare_with_published(results, COLLECTION) if isinstance(block, Table))
    named = [row[0].text for row in table.rows if row[0].text]
    assert named == ["torch resnet50 · 1n1d · fp32", "torch resnet50 · 1n1d · fp32 · python-queue"]
