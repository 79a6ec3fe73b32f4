"""TensorBoard: what its own event accumulator and its hyperparameter plugin read."""

from __future__ import annotations

import attrs
import pytest
from dlperf_trackers import TrackerObserver, send
from libraries import requires

pytestmark = [requires("tensorboard"), pytest.mark.filterwarnings("ignore::Warning:.*")]


def accumulated(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(path)).Reload()


def test_tensorboard_reads_what_was_sent(result, tmp_path):
    send(result, f"tensorboard:{tmp_path}")
    (path,) = (tmp_path / result.id).iterdir()
    assert path.name.startswith("events.out.tfevents.") and path.name.endswith(".dlperf"), "no host name"
    events = accumulated(path)
    throughput = result.metric("throughput")
    for name, value in (("", throughput.value), ("_low", throughput.low), ("_high", throughput.high)):
        (scalar,) = events.Tensors(f"throughput{name}")
        assert (scalar.step, scalar.tensor_proto.float_val[0]) == (0, pytest.approx(value, rel=1e-6))
    assert [
        (event.step, event.tensor_proto.float_val[0]) for event in events.Tensors("repeats/throughput")
    ] == [(step, pytest.approx(value, rel=1e-6)) for step, value in enumerate(throughput.repeats, 1)]
    (report,) = events.Tensors("report")
    assert b"replicas-equal" in report.tensor_proto.string_val[0]


def test_the_hyperparameters_have_the_verdicts(result, tmp_path):
    from tensorboard.plugins.hparams import metadata

    send(result, f"tensorboard:{tmp_path}")
    summaries = accumulated(tmp_path / result.id).SummaryMetadata(metadata.SESSION_START_INFO_TAG)
    started = metadata.parse_session_start_info_plugin_data(summaries.plugin_data.content)
    values = started.hparams
    assert values["framework"].string_value == "numpy" and values["batch_size"].number_value == 4
    assert values["verdict.parity"].string_value == "pass" and values["id"].string_value == result.id


def test_a_result_that_is_sent_again_replaces_its_file(result, tmp_path):
    send(attrs.evolve(result, finished_at="2020-01-31T10:21:40+00:00", metrics=()), f"tensorboard:{tmp_path}")
    send(result, f"tensorboard:{tmp_path}")
    (path,) = (tmp_path / result.id).iterdir()
    assert len(accumulated(path).Tensors("throughput")) == 1


def test_host_names_are_sent_as_the_result_has_them_or_left_out(result, tmp_path, monkeypatch):
    (node, *_) = result.hardware
    named = attrs.evolve(result, hardware=({**node, "host": "gpu-17.example.org"},))
    texts = []
    for value in ("0", "1"):
        monkeypatch.setenv("DLPERF_TRACKERS_REDACT", value)
        TrackerObserver([f"tensorboard:{tmp_path}"]).dlperf_result(named)
        (report,) = accumulated(tmp_path / result.id).Tensors("report")
        texts.append(report.tensor_proto.string_val[0])
    assert b"gpu-17" in texts[0]
    assert b"gpu-17" not in texts[1] and b"host-" in texts[1]
