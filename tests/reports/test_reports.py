"""Reports: any result can be shown, nothing in one steers a terminal or becomes markup, workloads never mix."""

import math
import re
from html.parser import HTMLParser

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from result_samples import a_result
from result_values import results as any_results

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import labels, markdown, numbers, result_page, results_table, run_context, terminal
from dlperf_sdk.reports.blocks import Cell, Column, Heading, Labels, Notes, Paragraph, Table, Verbatim
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Fact, Verdict


def shown(blocks, width=80):
    return terminal.text_of(blocks, width=width)


# -- any result


@pytest.mark.long
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(any_results())
def test_any_valid_result_can_be_shown_and_steers_nothing(result):
    for blocks in (result_page.page(result), results_table.pages([result, result])):
        for text in (shown(blocks), markdown.text_of(blocks)):
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


@given(st.text())
def test_visible_text_has_no_control_characters(text):
    observed = replace_control_characters(text)
    assert len(observed) == len(text)
    assert all(char.isprintable() or char in "\n\t" for char in observed)


def test_no_value_adds_a_line_at_the_margin_or_markup():
    """A text from another person must not look like a finding of the report, nor become HTML."""
    hostile = "a\n<b>forged</b>\x1b[1m"
    table = Table((Column(hostile), Column(hostile)), ((hostile, hostile),), hostile)
    blocks = [Heading(hostile, Cell(hostile)), Paragraph(hostile), Labels(((hostile, hostile),)), table]
    blocks += [Notes((hostile,)), Verbatim("text", hostile)]
    on_terminal, in_markdown = shown(blocks, 200), markdown.text_of(blocks)
    assert not re.search(r"^<b>forged", on_terminal, re.MULTILINE)
    assert not re.search(r"(?<!\\)<b>|^forged", in_markdown, re.MULTILINE)
    assert "\x1b" not in on_terminal + in_markdown


@given(st.text(alphabet="ab|*_`<>[]#\\ \n", min_size=1, max_size=20))
def test_markdown_cell_is_not_split(text):
    table = Table((Column("x"), Column("y")), ((Cell(text), "end"),))
    row = markdown.text_of([table]).rstrip("\n").split("\n")[-1]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`*]", row)


@given(st.integers(10_000, 10**9), st.integers(12, 80))
def test_number_out_of_range_is_labeled(number, width):
    table = Table(
        (Column("framework"), Column("of"), Column("value", right=True)),
        (("torch", "all of it", f"{number:,}"),),
    )
    text = shown([table], width)
    assert f"{number:,}" in text or "…" in text


# -- one result


def test_page_states_case_and_hardware():
    text = shown(result_page.page(a_result()))
    for part in (
        "torch resnet50 · 1n2d · fp32  ok",
        "32 per device × 2 devices = 64",
        "25,557,032 parameters, 24.30 GFLOP per sample",
        "203.0 img/s",
        "200.0 – 206.0",
        "321.0 ms",
        "310.0 – 340.0",
        "2.500 GiB",
        "✓ pass",
        "All replicas are equal.",
        "Python 3.11.7, a managed environment; dlperf-torch 0.1.0",
        "n1: EPYC, 2 of 4 processors, 16.00 GiB",
        "2025-01-31 10:15:02 to 10:21:40 UTC",
    ):
        assert part in text, part


def test_the_published_figure_comes_first():
    lines = shown(result_page.page(a_result())).splitlines()
    assert lines[lines.index(next(line for line in lines if line.startswith("metric"))) + 1].startswith(
        "throughput"
    )


def test_a_strategy_names_a_case_only_where_gradients_meet():
    fields = {"strategy": "parameter_server"}
    assert labels.title(a_result(fields=fields)) == "torch resnet50 · 1n2d · fp32 · parameter_server"
    assert labels.title(a_result(fields={**fields, "topology": "1n1d"})) == "torch resnet50 · 1n1d · fp32"


def test_footnotes_are_numbered_where_they_are_pointed_at():
    text = shown(result_page.page(a_result()))
    assert "throughput [1]" in text
    assert "[1] samples over the slowest window" in text
    assert "peak-host-memory [2]" in text
    assert "[2] of one process" in text


def test_no_line_is_wider_than_the_terminal_and_none_ends_in_spaces():
    for width in (80, 140):
        for line in shown(result_page.page(a_result()), width).splitlines():
            assert len(line) <= width
            assert line == line.rstrip()


def test_page_without_an_interval_states_the_required_repeats():
    metric = Metric("throughput", "img/s", 203.0, None, None, (200.0, 203.0, 206.0))
    repeats = tuple(any_repeat(attempt) for attempt in (1, 2, 3))
    text = shown(result_page.page(a_result(metrics=(metric,), repeats=repeats)))
    assert "No interval: 3 repeats, six are needed." in text


def any_repeat(attempt):
    from dlperf_sdk.results.records import Repeat

    return Repeat(attempt, ())


def test_a_failed_integrity_verdict_is_in_the_first_line():
    broken = Verdict("replicas-equal", "integrity", "fail", "Rank 1 differs.")
    text = shown(result_page.page(a_result(verdicts=(broken,))))
    assert text.splitlines()[0].endswith("failed validation: replicas-equal")
    assert "✗ fail" in text
    assert "Rank 1 differs." in text


def test_warning_is_not_a_failure():
    unverified = Verdict(
        "parity", "integrity", "inconclusive", "The model is unverified. It has no reference."
    )
    assert labels.outcome(a_result(verdicts=(unverified,)), ()) == Cell("model unverified", "doubt")
    doubt = Verdict("steady-state", "quality", "inconclusive", "Too short.")
    both = Cell("model unverified, with warnings: steady-state", "doubt")
    assert labels.outcome(a_result(verdicts=(unverified, doubt)), ()) == both
    assert labels.outcome(a_result(verdicts=(doubt,)), ()) == Cell("ok, with warnings: steady-state", "doubt")


def test_failure_is_shown_in_full():
    failure = Failure("out-of-memory", "Rank 0 ran out of memory. Use a smaller batch size.")
    result = a_result(status="out-of-memory", failure=failure, metrics=(), verdicts=())
    text = shown(result_page.page(result))
    assert "failed: out-of-memory" in text.splitlines()[0]
    assert failure.message in text


def test_settings_that_differ_from_the_request_are_shown():
    changed = Fact("layout", "factor", "nhwc", "nchw")
    assert "layout: requested nhwc, used nchw" in shown(result_page.page(a_result(facts=(changed,))))


def test_details_of_the_data_source_are_words_and_no_deviation():
    observed = {"source": "images", "samples": 400}
    details = Fact("data", "context", "images:photos", observed)
    text = shown(result_page.page(a_result(fields={"data": "images:photos"}, facts=(details,))))
    assert "samples 400" in text
    assert "requested images" not in text


def test_options_are_shown_as_they_are_typed():
    text = shown(result_page.page(a_result(fields={"options": {"fused": True, "size": 64}})))
    assert "fused = true, size = 64" in text


def test_the_log_of_the_failed_trainer_is_named(tmp_path):
    for attempt in ("9", "10", "x"):
        (tmp_path / "attempts" / attempt).mkdir(parents=True)
        for rank in (0, 1):
            (tmp_path / "attempts" / attempt / f"rank-{rank}.log").touch()
    crashed = a_result(
        status="crashed", failure=Failure("crashed", "It was ended by SIGSEGV.", node=0, rank=1)
    )
    log = str(tmp_path / "attempts" / "10" / "rank-1.log")
    assert ("Log", log) in run_context.list_run_context(crashed, tmp_path)
    unknown = attrs.evolve(crashed, failure=Failure("lost-node", "Node 0 is lost.", node=0))
    for result, directory in ((crashed, None), (crashed, tmp_path / "elsewhere"), (unknown, tmp_path)):
        assert "Log" not in dict(run_context.list_run_context(result, directory))


def test_the_name_of_a_machine_is_one_line_however_long_it_is():
    ((_, line),) = run_context.hardware([{"host": "h\n" * 200_000, "cpu": {"model": "Xeon\n" * 300_000}}])
    assert line.startswith("h h h") and line.endswith("…") and "\n" not in line
    assert len(line) == 500


def test_nodes_that_are_alike_share_a_line():
    node = {"cpu": {"model": "EPYC"}, "gpus": [{"name": "H200", "memory": 139 * 2**30}] * 8}
    lines = run_context.hardware([node, node, {"cpu": {"model": "Xeon"}}, node])
    assert lines == [
        ("Nodes 0-1, 3", "EPYC; 8 × H200 (139.0 GiB)"),
        ("Node 2", "Xeon"),
    ]


def test_colors_only_on_request(monkeypatch):
    blocks = result_page.page(a_result())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain, colored = terminal.text_of(blocks, width=80), terminal.text_of(blocks, width=80, styled=True)
    assert "\x1b" not in plain
    assert "\x1b[32m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in terminal.text_of(blocks, width=80, styled=True)


def test_markdown_has_the_same_content():
    text = markdown.text_of(result_page.page(a_result()))
    assert text.startswith("## torch resnet50 · 1n2d · fp32 (ok)\n")
    assert "| throughput \\[1\\] | 203.0 img/s | 200.0 – 206.0 | 200.0 – 206.0 |" in text
    assert "| --- | ---: | ---: | ---: |" in text
    assert "- **Batch**: 32 per device × 2 devices = 64" in text


class Rendered(HTMLParser):
    """The elements of a Markdown document, and its words."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.words = [], []
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words += data.split()


HOSTILE = st.text(st.sampled_from("\\`*_[](){}<>|#~&;!-+=.:/ \n\t0129abx\"'") | st.characters(), max_size=40)


@given(
    HOSTILE
    | st.sampled_from(["- a", "1. a", "1) a", "+", "===", "---", "&lt;b&gt;", "<!--", "[a](b)", "![a](b)"])
)
def test_markdown_text_is_escaped(said):
    words = replace_control_characters(said).split()
    blocks = (
        (Heading(f"a {said}"), ["h2"], ["a", *words]),
        (Paragraph(f"{said} a"), ["p"], [*words, "a"]),
        (Labels(((f"a {said}", said),)), ["ul", "li", "strong"], None),
        (Notes((f"a {said}",)), ["ul", "li"], ["[1]", "a", *words]),
        (Verbatim(f"a {said}"), ["pre", "code"], ["a", *words]),
        (
            Table((Column("a"), Column("b")), ((f"{said} a", "b"),)),
            ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"],
            ["a", "b", *words, "a", "b"],
        ),
    )
    for block, tags, text in blocks:
        actual = Rendered(markdown.text_of([block]))
        assert actual.tags == tags
        if text is not None:
            assert actual.words == text


# -- several


def test_one_workload_is_one_table():
    results = [a_result(), a_result(fields={"precision": "amp-bf16"}), a_result(fields={"topology": "1n1d"})]
    assert len(results_table.group_by_workload(results)) == 1
    text = shown(results_table.pages(results))
    assert [line.split("  ")[0] for line in text.splitlines() if line.startswith("torch ")] == [
        "torch 1n2d fp32",
        "torch 1n2d amp-bf16",
        "torch 1n1d fp32",
    ]


def test_cases_that_differ_in_the_data_source_only_have_different_names():
    results = [
        a_result(fields={"data": data, "strategy": strategy})
        for data in ("synthetic", "python-queue")
        for strategy in ("all_reduce", "horovod")
    ]
    (table,) = [block for block in results_table.pages(results) if isinstance(block, Table)]
    assert [row[0].text for row in table.rows] == [
        "torch 1n2d fp32 all_reduce synthetic",
        "torch 1n2d fp32 horovod synthetic",
        "torch 1n2d fp32 all_reduce python-queue",
        "torch 1n2d fp32 horovod python-queue",
    ]
    (shared, usual) = (shown(results_table.pages([item, item])) for item in (results[2], results[0]))
    assert "data python-queue" in shared
    assert "data synthetic" not in usual


def test_workloads_are_never_mixed_and_the_difference_is_named():
    results = [
        a_result(),
        a_result(fields={"batch_size": 64}),
        a_result(fields={"options": {"image_size": 64}}),
    ]
    blocks = results_table.pages(results)
    assert len([block for block in blocks if isinstance(block, Table)]) == 3
    assert blocks[0].text.startswith("3 workloads, which cannot be compared: they differ in batch_size")


def test_a_sweep_is_one_table_in_the_order_of_the_size():
    results = [a_result(fields={"batch_size": size}) for size in (8, 2, 4)]
    blocks = results_table.pages(results)
    assert blocks[0] == Paragraph("A sweep of batch size: 2, 4, 8.", "quiet")
    (table,) = [block for block in blocks if isinstance(block, Table)]
    at = [column.title for column in table.columns].index("batch per device")
    assert [row[at].text for row in table.rows] == ["2", "4", "8"]
    assert "cannot be compared" not in shown(blocks)


def test_a_table_of_single_devices_has_no_column_twice():
    def titles(**fields):
        blocks = results_table.pages([a_result(fields=fields)])
        (table,) = [block for block in blocks if isinstance(block, Table)]
        return [column.title for column in table.columns]

    assert not {"batch", "per device"} & {*titles(topology="1n1d")}
    assert "batch" in titles(topology="1n2d")


def test_refused_case_is_in_the_table_of_its_workload():
    failure = Failure("unsupported", "torch cannot do that.")
    refused = a_result(
        fields={"precision": "amp-fp16"}, status="unsupported", failure=failure, workload=None, metrics=()
    )
    refused = attrs.evolve(refused, facts=tuple(attrs.evolve(fact, observed=None) for fact in refused.facts))
    groups = results_table.group_by_workload([a_result(), refused])
    assert [len(group.results) for group in groups] == [2]
    text = shown(results_table.pages([a_result(), refused]))
    assert "✗ [1]" in text
    assert "[1] failed: unsupported: torch cannot do that." in text


def test_a_treatment_that_differs_names_the_cases():
    cases = [a_result(fields={"compiler": name}) for name in ("none", "inductor")]
    text = shown(results_table.pages(cases))
    assert "torch 1n2d fp32 none" in text
    assert "torch 1n2d fp32 inductor" in text


def test_a_table_of_results_fits_80_columns():
    for line in shown(
        results_table.pages([a_result(), a_result(fields={"precision": "amp-bf16"})])
    ).splitlines():
        assert len(line) <= 80


# -- numbers


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (133.2468, "img/s", "133.2 img/s"),
        (35439.4, "samples/s", "35,439 samples/s"),
        (0.0075123, "s", "7.512 ms"),
        (0.000085, "s", "85.00 µs"),
        (2.5 * 2**30, "B", "2.500 GiB"),
        (2**20, "B", "1.000 MiB"),
        (0.0, "B", "0 B"),
        (0.0, "s", "0 s"),
        (1.0, "steps", "1 steps"),
        (989.4e12, "FLOP/s", "989.4 TFLOP/s"),
        (852_766_060.0, "B/s", "852.8 MB/s"),
        (24.3e9, "FLOP", "24.30 GFLOP"),
        (0.0641, "J", "64.10 mJ"),
        (45.234, "%", "45.23 %"),
        (0.0638, "%", "0.0638 %"),
        (8.6e-14, "%", "0.0000 %"),
        (-0.0075, "s", "-7.500 ms"),
        (123456.0, "img/s", "123,456 img/s"),
    ],
)
def test_numbers_have_the_digits_that_mean_something(value, unit, expected):
    assert numbers.quantity(value, unit) == expected


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["B", "s", "img/s", "%", "FLOP/s", "J", ""]),
)
def test_any_number_can_be_written(value, unit):
    text = numbers.quantity(value, unit)
    assert text
    if math.isfinite(value) and 1e-9 <= abs(value) <= 1e15 and unit == "img/s":
        written = float(text.split()[0].replace(",", ""))
        assert math.isclose(written, value, rel_tol=5e-3)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "< 0.1 s"),
        (0.04, "< 0.1 s"),
        (0.05, "0.1 s"),
        (9.96, "10 s"),
        (61, "1 min 01 s"),
        (7503, "2 h 05 min"),
        (59.6, "1 min 00 s"),
    ],
)
def test_durations(seconds, expected):
    assert numbers.duration(seconds) == expected


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_exactly_the_numbers(chosen):
    actual = set()
    for part in filter(None, numbers.ranges(sorted(chosen)).split(", ")):
        low, _, high = part.partition("-")
        actual.update(range(int(low), int(high or low) + 1))
    assert actual == chosen


def test_a_column_is_in_one_unit():
    how = numbers.common_scale([0.0005, 1.5], "s")
    assert (how.unit, how(0.0005), how(1.5)) == ("s", "0.0005", "1.5000")


# -- blocks


def test_every_kind_of_block_has_both_forms():
    blocks = [
        Heading("Heading", Cell("aside")),
        Paragraph("text"),
        Labels((("label", "value"),)),
        Table((Column("column", right=True),), (("cell",),), "title"),
        Notes(("note",)),
        Verbatim("a script\n", "script's title"),
    ]
    for text in (shown(blocks), markdown.text_of(blocks)):
        for word in (
            "Heading",
            "aside",
            "text",
            "label",
            "value",
            "column",
            "cell",
            "title",
            "note",
            "script's title",
        ):
            assert word in text


@given(st.lists(st.text("ab {}\"'\\", min_size=1, max_size=200), min_size=1), st.integers(20, 120))
def test_a_script_is_shown_to_the_letter_at_every_width(lines, width):
    """But for spaces at a line's end, which nobody sees."""
    script = "".join(f"{line}\n" for line in lines)
    output = terminal.text_of([Verbatim(script, "Script")], width=width)
    assert output.splitlines()[1:] == [line.rstrip() for line in script.rstrip("\n").splitlines()]


def test_rendering_prints_nothing(capsys):
    terminal.text_of([Paragraph("text")])
    assert capsys.readouterr() == ("", "")
