"""Summaries of synthetic traces: what counts as work, communication and idle time, in both forms of events."""

from __future__ import annotations

import gzip
import json

import pytest

from dlperf_sdk.documents import reading
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.results import trace_events
from dlperf_sdk.results.trace_summary import MOST_OPERATORS, TraceSummary, summarize_trace

DECLARED = TraceEvents(
    operators=Events(category="op", name=r"(.+?)(?:\.\d+)?"),
    communication=(Events(name="(ring):.*"), Events(category="kernel", name="(ring)Kernel.*")),
    device=Events(category="kernel|copy"),
)
START = 1_795_743_849_200_000
"""Microseconds since 1970, as some profilers count."""


def event(name, start, duration, *, tid=1, category="op", **fields):
    return {
        **{"ph": "X", "name": name, "cat": category, "pid": 7, "tid": tid},
        **{"ts": START + start, "dur": duration, **fields},
    }


def pack(events, *, whole=True):
    return gzip.compress(json.dumps({"traceEvents": events} if whole else events).encode())


def summarize(events, device="cpu", declared=DECLARED, **options) -> TraceSummary | None:
    return summarize_trace(pack(events, **options), declared, device=device, rank=3, steps=2)


STEP = [
    event("python", 0, 5000, category="python_function"),
    event("matmul.1", 100, 400),
    event("add", 200, 100),
    event("matmul.2", 600, 100),
    event("ring:sum", 650, 150, tid=2, category="annotation"),
    event("ring:sum", 900, 50, tid=2, category="annotation"),
]


def test_summary_has_unions_and_self_times():
    summary = summarize(STEP)
    assert (summary.rank, summary.steps) == (3, 2)
    times = [summary.window, summary.busy, summary.idle, summary.communication, summary.exposed_communication]
    # From 100 to 950: busy from 100 to 500, from 600 to 800 and from 900 to 950.
    assert times == pytest.approx([850e-6, 650e-6, 200e-6, 200e-6, 150e-6])
    assert summary.work == pytest.approx(500e-6)
    assert [(time.name, time.count) for time in summary.operators] == [("matmul", 2), ("add", 1)]
    assert [time.seconds for time in summary.operators] == pytest.approx([400e-6, 100e-6])


def test_work_of_an_accelerator_is_its_kernels_and_copies():
    kernels = [
        event("gemm", 300, 200, tid="stream 7", category="kernel"),
        event("gemm", 400, 200, tid="stream 8", category="kernel"),
        event("memcpy", 800, 100, tid="stream 7", category="copy"),
        event("ringKernel_f32", 550, 150, tid="stream 9", category="kernel"),
    ]
    summary = summarize([*STEP[:4], *kernels], "cuda")
    assert summary.busy == pytest.approx(500e-6) and summary.idle == pytest.approx(100e-6)
    assert summary.communication == pytest.approx(150e-6)
    assert summary.exposed_communication == pytest.approx(100e-6)
    assert {time.name: time.count for time in summary.operators} == {"gemm": 2, "memcpy": 1}
    assert summary.work == pytest.approx(500e-6)


def test_an_accelerator_without_a_declaration_has_no_summary():
    assert summarize(STEP, "npu", TraceEvents(Events())) is None


@pytest.mark.parametrize(
    "communication", [(), Events(name="absent")], ids=["not-declared", "not-in-the-trace"]
)
def test_without_events_of_it_communication_is_unknown(communication):
    """A library with threads of its own, such as Horovod's, may be invisible to the profiler."""
    summary = summarize(STEP, declared=TraceEvents(Events(category="op"), communication))
    assert summary.communication is None and summary.exposed_communication is None
    assert summary.window == pytest.approx(600e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_begins_and_ends_are_paired_by_thread_and_name(whole):
    pairs = []
    for item in STEP:
        plain = {key: value for key, value in item.items() if key != "dur"}
        pairs.append({**plain, "ph": "B"})
        pairs.append({**plain, "ph": "E", "ts": item["ts"] + item["dur"]})
    pairs.sort(key=lambda item: item["ts"])
    unmatched = [{**pairs[0], "ph": "E", "name": "other"}, {**pairs[0], "ph": "B", "cat": "op", "ts": START}]
    assert summarize([*unmatched, *pairs], whole=whole) == summarize(STEP)


def test_selections_see_processes_and_arguments():
    process = {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "/device:X"}}
    events = [process, {}, event("a", 0, 1, args={"hlo_op": "a"}), event("b", 0, 1, args={})]
    for selection in (Events(argument="hlo_op"), Events(process="/device:.*", name="a")):
        summary = summarize(events, declared=TraceEvents(selection))
        assert [time.name for time in summary.operators] == ["a"]


def test_many_long_names_are_cut():
    events = [event(f"{i}{'x' * 5000}\x1b[1m", i, 1) for i in range(100)]
    summary = summarize(events)
    assert len(summary.operators) == MOST_OPERATORS
    assert all(len(time.name) <= trace_events.LONGEST_NAME for time in summary.operators)
    assert summarize([event("a\x1b[1m", 0, 1)]).operators[0].name == "a�[1m"


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "no event that stands for work"),
        (["text"], "must hold a list"),
        ({"a": 1}, "must hold a list"),
        ([event("a", 0, -1)], "'a' ends before it starts"),
        ([event("a", 0, "1")], "'dur'"),
        ([event("a", 0, True)], "'dur'"),
        ([{**event("a", 0, 1), "ts": None}], "'ts'"),
        ([{**event("a", 0, 1), "ts": {}}], "'ts'"),
        ([event("a", 0, 1), {**event("a", 0, 1), "ts": -(10**308)}], "'ts'"),
        ([event("a", 0, 1), {**event("a", 0, 1), "ts": 1.7e308}], "'ts'"),
        ([event("a", 0, 1.7e308)], "'dur'"),
    ],
)
def test_a_malformed_trace_is_refused(events, message):
    with pytest.raises(DocumentError, match=message):
        summarize(events)


def test_odd_threads_and_arguments_are_accepted():
    odd = event("a", 0, 1, tid=[1], args=7)
    assert summarize([odd, {"ph": "M", "name": "process_name", "pid": {}, "args": []}]).busy > 0
    with pytest.raises(DocumentError, match="no event that stands for work"):
        summarize([odd, event("b", 0, 1, args=["hlo_op"])], declared=TraceEvents(Events(argument="hlo_op")))


def test_a_time_out_of_range_in_an_event_that_is_ignored_changes_nothing():
    assert summarize([{"ph": "i", "ts": 1.7e308}, *STEP]) == summarize(STEP)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"{}", "not valid gzip"),
        (pack(STEP)[:-20], "cut off"),
        (gzip.compress(b'{"traceEvents": [NaN]}'), "NaN"),
        (gzip.compress(b"[" * 100_000), "nested too deeply"),
    ],
    ids=["no gzip", "cut off", "no JSON", "deep"],
)
def test_a_damaged_file_is_refused(packed, message):
    with pytest.raises(DocumentError, match=message):
        summarize_trace(packed, DECLARED, device="cpu", rank=0, steps=1)


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(trace_events, "LARGEST_TRACE", 1000)
    with pytest.raises(DocumentError, match="larger than 1000 bytes when unpacked"):
        summarize_trace(gzip.compress(b" " * 10**6), DECLARED, device="cpu", rank=0, steps=1)
    assert reading.unpack_gzip(gzip.compress(b"1" * 1000), 1000, "it") == b"1" * 1000
