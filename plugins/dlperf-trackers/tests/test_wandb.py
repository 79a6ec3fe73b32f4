"""Weights & Biases, offline: the records that `wandb sync` uploads, parsed with the library's own message classes."""

from __future__ import annotations

import getpass
import json
import os
import platform
import struct

import pytest
from dlperf_trackers import TrackerFailed, send
from libraries import requires

pytestmark = [requires("wandb"), pytest.mark.filterwarnings("ignore::Warning:.*")]
KEY = "0123456789abcdef0123456789abcdef01234567"
BLOCK = 32768
"""The file is a log of LevelDB: blocks of this size, whose pieces have a header of 7 bytes."""
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """The directory that W&B writes to."""
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    return tmp_path


def records_in(path):
    """Return the records of an offline run."""
    from wandb.proto import wandb_internal_pb2

    data, place, record, records = path.read_bytes(), 7, b"", []
    assert data[:4] == b":W&B"
    while place + 7 <= len(data):
        left = BLOCK - place % BLOCK
        _, length, kind = struct.unpack("<IHB", data[place : place + 7]) if left >= 7 else (0, 0, 0)
        if kind == 0:  # padding
            place += left
            continue
        record = (b"" if kind in (FULL, FIRST) else record) + data[place + 7 : place + 7 + length]
        if kind in (FULL, LAST):
            records.append(wandb_internal_pb2.Record.FromString(record))
        place += 7 + length
    return records


def test_the_offline_run_has_what_was_sent(result, offline):
    send(result, "wandb")
    (path,) = offline.glob("wandb/offline-run-*/*.wandb")
    records = records_in(path)
    (run,) = [record.run for record in records if record.HasField("run")]
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert (run.run_id, run.project, run.display_name) == (result.id, "dlperf", result.spec.label)
    assert (
        config["framework"] == "numpy"
        and config["batch_size"] == 4
        and config["unit.throughput"] == "samples/s"
    )
    assert "parity: pass" in run.tags and "replicas-equal: pass" in run.tags
    summary = {}
    for record in records:
        for item in record.summary.update:
            summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
    throughput = result.metric("throughput")
    assert summary["throughput"] == pytest.approx(throughput.value, rel=1e-9)
    assert summary["throughput_low"] == pytest.approx(throughput.low, rel=1e-9)
    assert summary["throughput_high"] == pytest.approx(throughput.high, rel=1e-9)
    assert summary["verdict.parity"] == "pass"
    rows = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [(row["repeat"], row["throughput_repeat"]) for row in rows] == [
        (number, pytest.approx(value, rel=1e-9)) for number, value in enumerate(throughput.repeats, 1)
    ]
    (artifact,) = [
        record.request.log_artifact.artifact for record in records if record.request.HasField("log_artifact")
    ] or [record.artifact for record in records if record.HasField("artifact")]
    assert artifact.type == "dlperf-result"
    assert {entry.path for entry in artifact.manifest.contents} == {"report.md", "result.json"}
    assert run.host == "" and not [record for record in records if record.HasField("environment")]


def test_no_file_has_the_key_or_the_user(result, offline):
    send(result, "wandb", redact=True)
    files = [path for path in offline.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        assert KEY.encode() not in data, path
    (path,) = offline.glob("wandb/offline-run-*/*.wandb")
    texts = str([record for record in records_in(path) if not record.HasField("artifact")])
    for name in (platform.node(), getpass.getuser()):
        assert f'"{name}"' not in texts


def test_a_missing_key_is_a_failure(result, offline, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("HOME", str(offline))
    monkeypatch.setenv("NETRC", os.devnull)
    with pytest.raises(TrackerFailed, match=r"(?i)wandb: .*(login|api.?key)"):
        send(result, "wandb")
