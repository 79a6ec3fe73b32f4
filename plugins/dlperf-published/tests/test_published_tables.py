"""The source documents, regenerated: cell by cell what they print, or listed as a disagreement."""

import csv
import io
import json
import re

import attrs
import pytest
from dlperf_published.collections import COLLECTIONS
from dlperf_published.disagreements import agrees, cells, grids, mismatches, numbers
from dlperf_published.footnotes import footnotes
from dlperf_published.grid import Value, half_up
from dlperf_published.observations import observations
from dlperf_published.protocol_deviations import protocol_deviations
from dlperf_published.source_data import figures as published
from dlperf_published.source_data import load_printed_cells
from hypothesis import given
from hypothesis import strategies as st
from test_published import NAMES, SOURCES

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.cli import main
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.reports import collection_page, markdown
from dlperf_sdk.reports.blocks import Paragraph, Table

COLLECTION = {collection.name: collection() for collection in COLLECTIONS}
SHEET = "Benchmarks: TensorFlow, a spreadsheet"


def found(name):
    return mismatches(published(name))


# -- what is printed is what the sources print


@pytest.mark.parametrize("name", NAMES)
def test_every_printed_cell_stands_in_its_source(name):
    for cell in load_printed_cells(name):
        line = SOURCES[cell.document, cell.line]
        if ".xlsm" in cell.document:
            # The workbook keeps binary fractions: 2458.74 is 2458.7399999999998.
            stored = [float(n) for n in re.findall(r"=([0-9.]+)", line)]
            assert any(abs(value - float(cell.text)) < 1e-9 for value in stored), cell
        else:
            assert cell.text.replace(" ", "") in re.sub(r"[ *]", "", line), cell


# -- the spreadsheet, character for character


def regenerated_lines():
    """The lines of the spreadsheet's text, as its regenerated tables make them up: it has no cell boundaries."""
    heads = {
        "throughput": "images/s",
        "speedup": "speedup",
        "efficiency": "efficiency",
        "synthetic-real": "",
        "batch": "",
    }
    for grid in grids(published("tf-cnn-2017")):
        for at, (row, squares) in enumerate(grid.rows.items()):
            text = "".join(value.text for square in squares for value in square.values)
            label = row if grid.name in heads and grid.name != "throughput" else ""
            yield grid.name, row, (heads.get(grid.name, "") if at == 0 else "") + label + text


def test_the_spreadsheet_comes_out_character_for_character():
    source = {line: text for (document, line), text in SOURCES.items() if document == SHEET}
    lines = set(source.values())
    missing = [(name, row, text) for name, row, text in regenerated_lines() if text not in lines]
    # All but two of the 28 rows: their labels count rows where all others count GPUs.
    assert [(name, row) for name, row, _ in missing] == [("throughput", "4"), ("throughput", "8")]
    assert [source[32][0], source[34][0]] == ["3", "4"]
    assert [text[1:] for _, _, text in missing] == [source[32][1:], source[34][1:]]


def test_the_spreadsheet_s_headings_are_the_factors():
    rows = {text for (document, _), text in SOURCES.items() if document == SHEET}
    (grid, *_) = grids(published("tf-cnn-2017"))
    titles = [column.split() for column in grid.columns if column != "gpus"]
    for place, head in enumerate(("batch size", "dataset", "model")):
        assert head + "".join(title[place] for title in titles) in rows
    assert "gpu type" + "".join(title[3] for title in titles) + "median:" in rows


# -- every cell


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_agrees_or_is_listed(name):
    """Compared here by other means than the list is made by: as text, to the decimals that are printed."""
    figures = published(name)
    listed = {(d.cell.document, d.cell.line, d.cell.row, d.cell.column) for d in found(name)}
    tables = {grid.name: grid for grid in grids(figures)}
    compared = 0
    for cell in cells(figures):
        square = tables[cell.table].square(cell.row, cell.column)
        assert square is not None, cell
        if square.words:
            assert cell.text == square.words
            compared += 1
            continue
        shown = numbers(cell.text)
        same = len(shown) == len(square.values) and all(
            half_up(value.number, decimals) == f"{number:.{decimals}f}"
            for (number, decimals), value in zip(shown, square.values, strict=True)
        )
        if cell.text.endswith("-"):
            same = not square.values
        if not same:
            assert (cell.document, cell.line, cell.row, cell.column) in listed, cell
        compared += 1
    assert compared == {"dlperf-v1.0": 728, "tf-cnn-2017": 278, "tensorpack": 21}[name]


def test_the_tables_hold_no_cell_that_is_not_printed_but_in_columns_the_source_lacks():
    figures = published("dlperf-v1.0")
    known = {(cell.table, cell.row, cell.column) for cell in cells(figures)}
    unprinted = {
        (grid.name, column)
        for grid in grids(figures)
        for row in grid.rows
        for column in grid.columns
        if (grid.name, row, column) not in known
    }
    assert unprinted == set()


# -- the disagreements that are known to be there


def wrong(name, kind):
    return [d for d in found(name) if kind in d.reason]


def test_the_readme_s_sources_and_its_mark_for_runs_without_xla_come_out():
    summary = next(grid for grid in grids(published("dlperf-v1.0")) if grid.name == "summary-bert")
    assert summary.columns[0] == "Source"
    assert summary.square("MXNet W/O clip", "Source").text == "gluon-nlp"
    assert summary.square("NGC TensorFlow 1.x", "AMP bsz=64").text == "9409.20 w/XLA, 5189.07 W/O XLA"


def test_stale_cell_is_detected():
    stale = [d for d in wrong("dlperf-v1.0", "is printed") if d.cell.row == "NGC MXNet"]
    assert [(d.cell.text, d.computed) for d in stale] == [("11233.92", "11331.93"), ("28.67", "28.89")]


def test_wrong_speedups_are_detected():
    speedups = [d for d in found("dlperf-v1.0") if d.cell.table == "speedup"]
    assert [(d.cell.text, d.computed, "rounding" in d.reason) for d in speedups] == [
        ("10.75", "10.74", True),
        ("27.33", "27.23", False),
        ("10.2", "10.28", False),
        ("29.75", "29.74", False),
        ("25.59", "25.58", True),
    ]


def test_fp16_under_amp_and_another_model_under_v1_5_are_detected():
    amp = wrong("dlperf-v1.0", "precision is fp16")
    assert {d.cell.row if d.cell.table.startswith("summary") else d.cell.column for d in amp} == {"NGC MXNet"}
    assert len(amp) == 2 + 4 + 4  # summary, report, workbook
    other = wrong("dlperf-v1.0", "model is resnet50-v1b")
    assert {d.cell.column for d in other} == {"MXNet"}
    assert len(other) == 2 * 2 * 4  # report and workbook, fp32 and AMP


def test_each_case_that_ran_out_of_memory_has_figures_at_other_batch_sizes():
    collection = COLLECTION["dlperf-v1.0"]
    stated = collection.out_of_memory()
    assert len(stated) == 6 and COLLECTION["tensorpack"].out_of_memory() == ()
    for case in stated:
        sizes = {
            figure.batch_size
            for figure in collection.figures
            if case.applies_to(Case.from_source(figure).facts)
        }
        assert sizes and case.batch_size not in sizes
        assert "OOM" in SOURCES[case.document, case.line]


def test_column_with_numbers_of_another_batch_size_is_detected():
    column = wrong("dlperf-v1.0", "batch size 96 instead of 32")
    assert [d.cell.text for d in column] == ["156.25", "1234.65", "2425.97", "4799.64"]
    assert {d.cell.document for d in column} == {"reports/DLPerf_report_v1.0.xlsm bert_fp32_bz32"}


def test_no_other_printed_cell_disagrees():
    """Numbers; headings apart. Two speedups in the summary repeat what stands elsewhere."""
    assert len(wrong("dlperf-v1.0", "is printed")) == 2 + 1 + 4 + 5
    assert [d.cell.text for d in found("tf-cnn-2017")] == ["3", "4"]
    assert found("tensorpack") == ()


def test_a_changed_cell_is_noticed():
    value = Value(12.345, 2)
    assert agrees(12.35, 2, value) and agrees(12.3, 1, value)
    assert not agrees(12.36, 2, value) and not agrees(12.4, 1, value)


@given(st.integers(0, 10**9), st.integers(0, 4))
def test_halves_are_rounded_up(tenths, decimals):
    """Numbers that are written with one decimal more than is asked for."""
    number = tenths / 10 ** (decimals + 1)
    expected = (tenths + 5) // 10
    assert half_up(number, decimals) == f"{expected / 10**decimals:.{decimals}f}"


def test_numbers_are_read_and_marks_and_batch_sizes_are_not():
    assert numbers("[1]29171.69w/XLA 24734.22") == [(29171.69, 2), (24734.22, 2)]
    assert numbers("4664.10 bsz=96") == [(4664.1, 2)]
    assert numbers("228/228/219") == [(228.0, 0)] * 2 + [(219.0, 0)]
    assert numbers("[2] -") == []


# -- observations


def test_the_observations_are_derived_and_two_do_not_bear_it():
    observed = {item.line: item for item in observations(published("tf-cnn-2017"))}
    assert len(observed) == 9
    assert [item.outcome for item in observed.values()] == [
        *("holds", "in part", "in part", "in part", "does not hold"),
        *("holds", "holds", "in part", "holds"),
    ]
    data, batch, gpu = observed[102].derived, observed[103].derived, observed[104].derived
    assert "8: 1.023 (1.000 to 1.064, p 0.281). Nowhere significant." in data
    assert "An effect of 5% or more is not excluded on 4, 8 GPUs." in data
    # One setting on four numbers of GPUs is not four settings: the least p of 8 settings is 2 / 2^8, times 4 tests.
    assert (
        "The throughput at 64 is 1.075 times that at 32 (median of 32 pairs, 32 above 1, 0 below; p at most 0.0312 on "
        "each number of GPUs)." in batch
    )
    assert gpu.startswith("Median of 32 pairs: 4.402, from 3.86 to 5.14. ")
    assert "The machine changed along with it" in gpu
    assert "ResNet-50's manifest has 25,557,032 parameters" in observed[106].derived


def test_figures_that_were_measured_otherwise_than_the_source_prescribes_are_disagreements():
    figures = published("dlperf-v1.0")
    deviations = protocol_deviations(figures, COLLECTION["dlperf-v1.0"].prescribed)
    counts = {}
    for deviation in deviations:
        assert deviation.figures == int(deviation.cell.split()[2])
        counts[deviation.computed] = counts.get(deviation.computed, 0) + deviation.figures
    assert counts == {
        "19 + 100 steps": 40,
        "100 + 100 steps": 36,
        "100 + 500 steps": 22,
        "5 repeats": 93,
    }
    assert {deviation.printed for deviation in deviations} == {"20 + 100 steps", "7 repeats"}
    assert {deviation.reason for deviation in deviations} == {
        # 22 deviate twice.
        "of 323 figures, 99 do not state their whole protocol, and 169 were measured by another one than the source "
        "prescribes"
    }
    assert COLLECTION["dlperf-v1.0"].disagreements()[: len(deviations)] == deviations
    assert COLLECTION["tensorpack"].prescribed is None
    assert protocol_deviations(published("tensorpack"), None) == ()


def test_a_figure_without_warm_up_steps_deviates():
    """A stated 0 is not the same as nothing stated."""
    collection = COLLECTION["dlperf-v1.0"]
    (figure,) = published("dlperf-v1.0").filter(framework="oneflow", model="resnet50").figures[:1]
    changed = attrs.evolve(figure, warmup=0)
    (deviation,) = protocol_deviations(Figures("dlperf-v1.0", (changed,)), collection.prescribed)
    assert (deviation.printed, deviation.computed) == ("20 + 100 steps", "0 + 100 steps")


def test_other_names_stand_for_words_of_the_figures():
    words = {
        str(figure.value(name)).lower()
        for collection in NAMES
        for figure in published(collection)
        for name in ("framework", "implementation", "model", "precision", "data")
    }
    for collection in COLLECTION.values():
        assert collection.aliases and set(collection.aliases.values()) <= words
        assert not set(collection.aliases) & words


def test_the_footnotes_of_the_summaries_are_derived_as_far_as_figures_go():
    observed = footnotes(published("dlperf-v1.0"))
    assert [item.line for item in observed] == [61, 62, 63, 88, 89]
    assert [item.outcome for item in observed] == ["in part", "holds", "in part", "holds", "in part"]
    tensorflow, pytorch, paddle, bert, clip = (item.derived for item in observed)
    assert "224 with compiler none and 224 with compiler xla" in tensorflow
    assert pytorch == "Its figures are of fp32 only."
    assert paddle.startswith("10633.22 at batch size 224 without DALI, 11617.57 at batch size 196 with it")
    assert bert.startswith("On 32 GPUs 9409.20 with XLA, 5189.07 without.")
    assert "(median of 16 pairs" in clip and "16 above 1, 0 below" in clip
    assert "p 3.1e-05 for OneFlow alone, its cases taken as independent" in clip
    for name in ("tf-cnn-2017", "tensorpack"):
        assert footnotes(published(name)) == ()
    shown = markdown.text_of(collection_page.page(COLLECTION["dlperf-v1.0"]))
    assert all(markdown.text_of([Paragraph(item.printed)]).strip() in shown for item in observed)


# -- the report


@pytest.mark.parametrize("name", NAMES)
def test_the_report_holds_every_figure(name, capsys):
    assert main(["report", "--published", name, "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    for figure in published(name):
        shown = f"{figure.throughput:.2f}" if name == "dlperf-v1.0" else f"{figure.throughput:g}"
        assert shown in text, figure
        for note in figure.footnotes:
            assert note.split(".")[0] in text
    for block in collection_page.page(COLLECTION[name]):
        if isinstance(block, Table):
            assert markdown.text_of([block]).strip() in text


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_are_also_a_table(name, capsys):
    assert main(["report", "--published", name, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out, newline="")))
    figures = published(name).figures
    assert [float(row["throughput"]) for row in rows] == [figure.throughput for figure in figures]
    assert [row["topology"] for row in rows] == [str(figure.topology) for figure in figures]
    assert [row["footnotes"] for row in rows] == [" ".join(figure.footnotes) for figure in figures]
    assert [f"{row['document']}:{row['line']}" for row in rows] == [str(figure.source) for figure in figures]


@pytest.mark.parametrize("name", NAMES)
def test_the_report_fits_a_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["report", "--published", name]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_report_is_also_plain_data(capsys):
    assert main(["report", "--published", "tf-cnn-2017", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["figures"]) == 64
    assert [item["printed"] for item in document["disagreements"]] == ["3", "4"]


def test_report_refuses_invalid_arguments(capsys):
    assert main(["report", "--published", "dlperf"]) == 2
    assert "Did you mean 'dlperf-v1.0'" in capsys.readouterr().err
    assert main(["report", "a-run", "--published", "tensorpack"]) == 2
    assert "leave out the names of runs" in capsys.readouterr().err
