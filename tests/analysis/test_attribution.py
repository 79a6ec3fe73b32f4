"""Attribution of a step's time: which runs it takes, what it leaves out, and how often its intervals are right."""

import random

import pytest
from result_samples import a_result

from dlperf_sdk.analysis import attribute
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import attribution, results_table
from dlperf_sdk.reports.html import blocks_of_results
from dlperf_sdk.reports.markdown import text_of

DEVICES, BATCH_SIZE = 2, 32
PARTS = {"whole": 0.160, "training": 0.125, "compute": 0.100, "communication": 0.060, "input": 0.150}
"""Part → seconds of its step: 25 ms of communication are exposed, and 35 ms of input."""


def a_run(part, seconds, repeats=7, noise=0.0, draw=None, **fields):
    """A run of a part, whose repeats have step times around `seconds`; without noise they all have it."""
    draw = draw or random.Random(0)
    case = {"topology": "1n2d", "batch_size": BATCH_SIZE, "data": "python-queue", "part": part, **fields}
    devices = int(case["topology"][2])
    rates = tuple(BATCH_SIZE * devices / (seconds * draw.gauss(1, noise)) for _ in range(repeats))
    metric = Metric("throughput", "img/s", sorted(rates)[len(rates) // 2], repeats=rates)
    return a_result(id=f"run-{part}", metrics=(metric,), fields=case)


def runs(**changes):
    return [a_run(part, seconds, **changes) for part, seconds in PARTS.items()]


def test_a_step_is_divided():
    (actual,) = attribute(runs())
    seconds = {name: span.seconds for name, span in vars_of(actual).items()}
    assert seconds == pytest.approx(
        {
            "step": 0.160,
            "compute": 0.100,
            "communication": 0.025,
            "input_stall": 0.035,
            "communication_alone": 0.060,
            "input_alone": 0.150,
        }
    )
    assert all(span.low == pytest.approx(span.seconds) for span in vars_of(actual).values())
    assert str(actual.spec.data) == "python-queue" and actual.spec.is_whole_step


def vars_of(actual):
    names = ("step", "compute", "communication", "input_stall", "communication_alone", "input_alone")
    return {name: getattr(actual, name) for name in names}


@pytest.mark.parametrize(
    ("fields", "parts", "known"),
    [
        ({}, ("whole", "training", "compute"), {"communication", "input_stall"}),
        ({}, ("training", "compute"), {"communication"}),
        ({}, ("whole", "compute"), set()),  # input and communication cannot be told apart
        ({"data": "synthetic"}, ("whole", "compute"), {"communication"}),
        ({"topology": "1n1d"}, ("whole", "compute"), {"input_stall"}),
    ],
)
def test_runs_that_an_attribution_takes(fields, parts, known):
    (actual,) = attribute([a_run(part, PARTS[part], **fields) for part in parts])
    spans = {name: span for name, span in vars_of(actual).items() if span is not None}
    assert set(spans) == {"step", "compute", *known}


@pytest.mark.parametrize(
    "parts", [("whole",), ("whole", "training"), ("compute",), ("input", "communication")]
)
def test_too_few_runs(parts):
    assert attribute([a_run(part, PARTS[part]) for part in parts]) == []
    assert attribution.tables([a_run(part, PARTS[part]) for part in parts]) == []


def test_parts_without_input_serve_every_data_source():
    alone = [a_run(part, PARTS[part], data="synthetic") for part in ("training", "compute", "communication")]
    wholes = [
        a_run("whole", seconds, data=data) for data, seconds in (("zmq", 0.160), ("python-queue", 0.150))
    ]
    of_synthetic, *others = attribute([*alone, *wholes])
    assert of_synthetic.input_stall is None
    assert [str(actual.spec.data) for actual in others] == ["zmq", "python-queue"]
    assert [actual.input_stall.seconds for actual in others] == pytest.approx([0.035, 0.025])
    assert [actual.communication.seconds for actual in others] == pytest.approx([0.025, 0.025])
    own = a_run("training", 0.130, data="zmq")
    (actual, *_) = attribute([own, *alone, *wholes])
    assert actual.input_stall.seconds == pytest.approx(0.030)
    assert attribute([a_run("input", 0.150, data="synthetic-host"), *wholes]) == []


def test_runs_of_different_cases_are_not_mixed():
    whole, training = a_run("whole", 0.16), a_run("training", 0.125)
    others = ({"batch_size": 64}, {"precision": "amp-bf16"}, {"seed": 1})
    for fields in others:
        assert attribute([whole, training, a_run("compute", 0.1, **fields)]) == []
    (actual,) = attribute([whole, training, a_run("compute", 0.1, labels={"commit": "abc"})])
    assert actual.compute.seconds == pytest.approx(0.1)


def test_a_failed_run_does_not_count():
    failed = a_result(status="timeout", metrics=(), fields={"data": "python-queue", "part": "compute"})
    assert attribute([a_run("whole", 0.16), failed]) == []


def test_few_repeats_give_no_interval():
    (actual,) = attribute(runs(repeats=2))
    assert {span.low for span in vars_of(actual).values()} == {None}
    (table,) = attribution.tables(runs(repeats=2))
    assert {row[2].text for row in table.rows} == {"too few repeats"}


def test_intervals_cover_the_true_times():
    """At 2 % noise and 7 repeats, each 95 % interval holds the true time in at least 93 % of 400 experiments."""
    draw, hits, trials = random.Random(1), dict.fromkeys(("compute", "communication", "input_stall"), 0), 400
    for _ in range(trials):
        (actual,) = attribute(runs(noise=0.02, draw=draw))
        for name, true in (("compute", 0.100), ("communication", 0.025), ("input_stall", 0.035)):
            span = getattr(actual, name)
            hits[name] += span.low <= true <= span.high
    assert min(hits.values()) >= 0.93 * trials, hits


def test_reports_show_it():
    """The terminal, Markdown and HTML have the table, with what each part costs and takes alone."""
    terminal = text_of(results_table.pages(runs()))
    markdown = text_of(blocks_of_results(runs()))
    for text in (terminal, markdown):
        assert attribution.TITLE in text
        assert "torch resnet50 · 1n2d · fp32 · 32 per device · python-queue" in text
        row = next(line for line in text.splitlines() if "exposed communication" in line and "|" in line)
        assert [cell.strip() for cell in row.split("|")[2:6]] == [
            "25.00",
            "25.00 – 25.00",
            "15.6%",
            "60.00",
        ], row


def test_an_interval_around_zero_says_so():
    results = [a_run("whole", 0.16, noise=0.02), a_run("training", 0.16, noise=0.02), a_run("compute", 0.1)]
    (table,) = attribution.tables(results)
    (stall,) = (row for row in table.rows if row[0].text == "input stall")
    assert stall[2].text.endswith("includes 0") and stall[2].tone == "doubt"
