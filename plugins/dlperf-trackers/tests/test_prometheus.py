"""Prometheus: what the library's own parser reads."""

from __future__ import annotations

import attrs
import pytest
from dlperf_trackers import TrackerFailed, send
from dlperf_trackers.command import main as track
from libraries import requires

from dlperf_sdk import Registry
from dlperf_sdk.testing import ObserverConformance

pytestmark = requires("prometheus_client")


def read(path):
    """Return (name, labels) → value of the samples in a file, and name → help text."""
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    assert all(family.type == "gauge" for family in families)
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    return samples, {family.name: family.documentation for family in families}


def value(samples, name, **labels):
    (found,) = [
        value
        for (n, others), value in samples.items()
        if n == name and labels.items() <= dict(others).items()
    ]
    return found


def test_the_parser_reads_what_was_sent(result, tmp_path):
    send(result, f"prometheus:{tmp_path}/text")
    (path,) = (tmp_path / "text").iterdir()
    assert path.name.startswith("dlperf-numpy-linear-1n1d-b4-fp32-") and path.suffix == ".prom"
    samples, _ = read(path)
    throughput = result.metric("throughput")
    case = {"case": "numpy linear 1n1d b4 fp32", "framework": "numpy", "batch_size": "4", "unit": "samples/s"}
    assert value(samples, "dlperf_throughput", **case) == pytest.approx(throughput.value, rel=1e-12)
    assert value(samples, "dlperf_throughput_low", **case) == pytest.approx(throughput.low, rel=1e-12)
    assert value(samples, "dlperf_throughput_high", **case) == pytest.approx(throughput.high, rel=1e-12)
    assert value(samples, "dlperf_verdict", check="parity", outcome="pass") == 1
    assert value(samples, "dlperf_run_ok") == 1 and value(samples, "dlperf_run_repeats") == 6
    assert value(samples, "dlperf_run_info", id=result.id, status="ok") == 1


def test_one_file_has_the_latest_result_of_a_case(result, store, tmp_path):
    spec = attrs.evolve(result.spec, options={"features": 'a "quoted"\n\\name'})
    failed = attrs.evolve(
        result, spec=spec, metrics=(), verdicts=(attrs.evolve(result.verdicts[0], outcome="fail"),)
    )
    assert track([f"prometheus:{tmp_path}", result.id, "--store", str(store)]) == 0
    send(result, f"prometheus:{tmp_path}")
    send(failed, f"prometheus:{tmp_path}")
    files = {path: read(path) for path in tmp_path.iterdir()}
    assert len(files) == 2
    (good, helps), (bad, others) = sorted(files.values(), key=lambda pair: -len(pair[0]))
    assert value(bad, "dlperf_run_ok", case=spec.label) == 0 and value(good, "dlperf_run_ok") == 1
    assert good.keys().isdisjoint(bad), "node_exporter refuses a series that is in two files"
    assert others.items() <= helps.items(), "node_exporter refuses files with different help texts"


def test_a_directory_that_cannot_be_written_is_a_failure(result):
    with pytest.raises(TrackerFailed, match=r"prometheus: .*Not a directory: '/dev/null/text'"):
        send(result, "prometheus:/dev/null/text")


class TestObserver(ObserverConformance):
    observer, framework, model = "trackers", "numpy", "linear"

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path, monkeypatch):
        """Let the observer send to a directory, where a run leaves a file."""
        monkeypatch.setenv("DLPERF_TRACKERS", f"prometheus:{tmp_path}")
        monkeypatch.setattr(type(self), "registry", Registry())
        return tmp_path

    def test_it_follows_a_run(self, directory):
        super().test_it_follows_a_run()
        (path,) = directory.iterdir()
        assert value(read(path)[0], "dlperf_run_ok") == 1
