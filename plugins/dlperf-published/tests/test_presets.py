"""The presets: they have every case of the reports that they measure again."""

from __future__ import annotations

import itertools
import re
import textwrap
from pathlib import Path

import pytest

from dlperf_sdk.campaigns import file, planning
from dlperf_sdk.campaigns.campaign import expand_cases
from dlperf_sdk.registry.plugins import Registry

REGISTRY = Registry()


def specs(campaign):
    return [item.spec for item in expand_cases(campaign, "stamp")]


def written(folder: Path, text: str) -> Path:
    path = folder / "case.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("data", ["synthetic", "images:photos"])
def test_preset_tf_cnn_2017_runs_on_several_devices(tmp_path, data):
    (tmp_path / "photos").mkdir()
    text = (
        f"name: a\nextends: ['preset:tf-cnn-2017']\noverrides: [{{set: {{device: cpu, data: '{data}'}}}}]\n"
    )
    _, entries = planning.plan_campaign(file.load_campaign(written(tmp_path, text)), REGISTRY)
    ran = [entry.case.spec for entry in entries if entry.refusal is None]
    for sizes in ("1n2d", "1n4d", "1n8d"):
        strategies = {(item.model, item.strategy) for item in ran if str(item.topology) == sizes}
        assert strategies == set(
            itertools.product(
                ("inception-v3", "resnet50-v1"),
                ("parameter_server", "distributed_replicated", "all_reduce"),
            )
        )
    assert len(ran) == len(entries) == 2 * 2 * (1 + 3 * 3)


@pytest.mark.parametrize(
    ("preset", "collection", "releases"),
    [
        ("dlperf-v1", "dlperf-v1.0", ("v1.0",)),
        ("tf-cnn-2017", "tf-cnn-2017", ("2017",)),
        ("tensorpack-2017", "tensorpack", ("2017-09",)),
    ],
)
def test_a_preset_has_every_case_of_its_report(preset, collection, releases):
    """But for topologies that the preset leaves out, and variants of models that no plugin could be asked for."""
    campaign = specs(file.load_campaign(f"preset:{preset}"))
    actual = {_case(item, item.precision) for item in campaign}
    topologies = {str(item.topology) for item in campaign}
    models = {item.model for item in campaign}
    missing = {
        _case(figure, figure.precision.replace("fp16", "amp-fp16").replace("amp-amp-", "amp-"))
        for figure in Registry().collection(collection).figures
        if str(figure.topology) in topologies and figure.model in models and figure.release in releases
    } - actual
    assert not missing
    if preset == "dlperf-v1":
        assert {item.framework for item in campaign} == {"torch", "tensorflow", "mxnet", "oneflow", "paddle"}
        assert topologies == {"1n1d", "1n8d", "2n8d", "4n8d"}
        assert sum(item.wants_max_batch for item in campaign) == 11 * 4 * 2 + 11 * 4 * 4
        protocol = campaign[0].resolved_protocol()
        assert (protocol.warmup, protocol.steps, protocol.repeats) == (20, 100, 7)


def _case(item, precision):
    return item.framework, item.model, str(item.topology), item.batch_size, precision, item.compiler


def test_preset_dlperf_v1_measures_the_cases_of_its_source():
    """Real data, which the source used, and synthetic data; BERT with and without gradient clipping."""
    campaign = specs(file.load_campaign("preset:dlperf-v1"))
    sources = {(item.model, item.data.source) for item in campaign}
    assert sources == {
        *(("resnet50", source) for source in ("images", "synthetic")),
        *(("bert-base", source) for source in ("text", "synthetic")),
    }
    clipping = {item.options.get("clip_norm") for item in campaign if item.model == "bert-base"}
    assert clipping == {1.0, 0.0}


def test_a_preset_s_data_are_in_the_current_directory_and_skipped_where_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path,
        "name: a\nextends: ['preset:dlperf-v1']\n"
        "overrides: [{set: {device: cpu, framework: torch, topology: 1n1d, precision: fp32, compiler: none}}]\n",
    )
    (tmp_path / "images").mkdir()
    _, entries = planning.plan_campaign(file.load_campaign(path), REGISTRY)
    skipped = {entry.case.spec.data.source for entry in entries if entry.refusal}
    planned = {
        (entry.case.spec.data.source, entry.case.spec.data.path) for entry in entries if not entry.refusal
    }
    assert planned == {("images", str(tmp_path / "images")), ("synthetic", None)}
    assert skipped == {"text"}
    assert {entry.refusal[0] for entry in entries if entry.refusal} == {"missing"}


GUIDE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "campaigns.md"


def small_file(name: str) -> str:
    """Return the campaign file `name` from the guide's section about small size."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    (block,) = [block for block in map(textwrap.dedent, blocks) if f"\nname: {name}\n" in block]
    return block


@pytest.mark.parametrize(
    ("preset", "file_name", "planned", "skipped"),
    [
        ("tf-cnn-2017", "small", 8, 0),
        ("tensorpack-2017", "small", 12, 0),
        ("dlperf-v1", "small-v1", 96, 36),
    ],
)
def test_the_guide_s_small_preset_is_planned_on_two_cpus(
    tmp_path, monkeypatch, preset, file_name, planned, skipped
):
    """On real data, if the preset has any. What is skipped is what a CPU lacks."""
    monkeypatch.chdir(tmp_path)
    for folder in ("images", "text"):
        (tmp_path / folder).mkdir()
    text = small_file(file_name).replace("preset:tf-cnn-2017", f"preset:{preset}")
    _, entries = planning.plan_campaign(file.load_campaign(written(tmp_path, text)), REGISTRY)
    ran = [entry.case.spec for entry in entries if entry.refusal is None]
    assert {(item.device, item.batch_size) for item in ran} == {("cpu", 2)}
    assert {str(item.topology) for item in ran} == {"1n1d", "1n2d"}
    refused = [entry for entry in entries if entry.refusal is not None]
    assert (len(ran), len(refused)) == (planned, skipped)
    assert {(entry.refusal[0], entry.case.spec.precision) for entry in refused} <= {
        ("unsupported", "amp-fp16")
    }
    if preset == "dlperf-v1":
        assert sum(item.data.source in ("images", "text") for item in ran) == planned / 2
