"""`--trace`: an extra attempt under the framework's own profiler, and part of no figure."""

from __future__ import annotations

import errno
import gzip
import json

import pytest

from dlperf_sdk import Matrix, ResultStore, campaign, run
from dlperf_sdk.errors import InvalidRecord, PluginError, UnknownName, Unsupported
from dlperf_sdk.execution import tracing
from dlperf_sdk.execution.tracing import read_traces
from dlperf_sdk.harness.in_process import SMALL as PLAIN

pytestmark = pytest.mark.long

SMALL = {"batch_size": 4, "canonical_steps": 2, "warmup": 1, "steps": 4, "repeats": 1}


def test_trace_is_stored_beside_the_repeats_and_not_counted(tmp_path):
    fields = {**SMALL, "topology": "1n2d", "repeats": 2}
    result = run("faulty", "linear", store=tmp_path, trace=True, **fields)
    assert result.ok, result.failure
    assert len(result.repeats) == 2
    assert len(result.metric("throughput").repeats) == 2
    folder = tmp_path / result.id
    assert sorted(path.name for path in (folder / "attempts").iterdir()) == ["1", "2"]
    assert sorted(path.name for path in (folder / "traces").iterdir()) == ["rank-0.json.gz", "rank-1.json.gz"]
    for path in (folder / "traces").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert any(note.startswith("Traced apart from what was measured") for note in result.notes)


def test_a_result_has_summaries_of_its_traces(tmp_path):
    result = run("faulty", "linear", store=tmp_path, trace=True, **{**SMALL, "topology": "1n2d"})
    assert [(trace.rank, trace.steps, trace.window) for trace in result.traces] == [
        (0, 5, 1e-6),
        (1, 5, 1e-6),
    ]
    assert [operator.name for operator in result.traces[0].operators] == ["step"]
    assert ResultStore(tmp_path).load(result.id).traces == result.traces


def test_a_run_without_a_profiler_is_refused_before_anything_is_measured(tmp_path):
    result = run("numpy", "linear", store=tmp_path, trace=True, **SMALL)
    assert (result.status, result.repeats) == ("unsupported", ())
    assert result.failure.message == (
        "numpy offers no trace. Its plugin declares no profiler; leave out the trace."
    )
    assert not (tmp_path / result.id / "traces").exists()


def test_a_campaign_measures_a_framework_without_a_profiler(tmp_path):
    matrix = Matrix(fields={**SMALL, "model": "linear"}, axes={"framework": ["faulty", "numpy"]})
    outcome = campaign(matrix, tmp_path / "it", trace=True)
    assert outcome.exit_code == 0
    traced = {result.spec.framework: bool(result.traces) for result in outcome.results()}
    assert traced == {"faulty": True, "numpy": False}
    (untraced,) = (result for result in outcome.results() if not result.traces)
    assert any("no trace (unsupported): numpy offers no trace" in note for note in untraced.notes)


def test_a_trace_that_cannot_be_summarized_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("dlperf_sdk.results.trace_events.LARGEST_TRACE", 10)
    result = run("faulty", "linear", store=tmp_path, trace=True, **SMALL)
    assert result.ok and result.traces == ()
    assert (tmp_path / result.id / "traces" / "rank-0.json.gz").is_file()
    assert any("no summary of a trace: The trace of rank 0 is larger" in note for note in result.notes)


def test_a_campaign_traces_each_case_once(tmp_path):
    matrix = Matrix(fields={**SMALL, "model": "linear", "framework": "faulty"}, axes={"seed": [1, 2]})
    outcome = campaign(matrix, tmp_path / "it", trace=True)
    assert outcome.exit_code == 0
    for result in outcome.results():
        assert len(result.repeats) == 1
        assert (tmp_path / "it" / "runs" / result.id / "traces" / "rank-0.json.gz").is_file()


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (PluginError("It is gone."), "There is no trace: It is gone."),
        (UnknownName("launcher", "local", []), "There is no trace: There is no launcher named 'local'."),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "There is no trace (unavailable): The disk or quota is full",
        ),
    ],
    ids=["a plugin", "a launcher", "a full disk"],
)
def test_a_campaign_continues_after_a_trace_that_fails(tmp_path, monkeypatch, error, note):
    real, errors = tracing.launch, [error]

    def launch(*args, **kwargs):
        if errors:
            raise errors.pop()
        return real(*args, **kwargs)

    monkeypatch.setattr(tracing, "launch", launch)
    matrix = Matrix(fields={**SMALL, "model": "linear", "framework": "faulty"}, axes={"seed": [1, 2]})
    outcome = campaign(matrix, tmp_path / "it", trace=True)
    assert outcome.exit_code == 0
    untraced, traced = sorted(outcome.results(), key=lambda result: bool(result.traces))
    assert traced.traces
    assert any(sentence.startswith(note) for sentence in untraced.notes), untraced.notes


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([], InvalidRecord),
        ([{}], InvalidRecord),
        ([{"event": "attempt-ended", "failure": None, "records": [{"rank": 0}]}], InvalidRecord),
        (
            [{"event": "attempt-ended", "failure": None, "records": [{"rank": 0, "trace": "!"}]}],
            InvalidRecord,
        ),
        (
            [{"event": "ended", "failure": {"kind": "unsupported", "message": "no", "type": None}}],
            Unsupported,
        ),
    ],
)
def test_returned_trace_is_checked(events, error):
    with pytest.raises(error):
        read_traces(event for event in events)


@pytest.mark.framework
def test_torch_s_profiler_sees_the_model(tmp_path):
    options = PLAIN["bert-base"]
    result = run("torch", "bert-base", store=tmp_path, trace=True, device="cpu", options=options, **SMALL)
    assert result.ok, result.failure
    packed = (tmp_path / result.id / "traces" / "rank-0.json.gz").read_bytes()
    names = {event.get("name") for event in json.loads(gzip.decompress(packed))["traceEvents"]}
    assert "aten::native_layer_norm" in names
    (summary,) = result.traces
    assert "aten::addmm" in {operator.name for operator in summary.operators}
    assert 0 < summary.busy <= summary.window
    assert summary.communication is None
