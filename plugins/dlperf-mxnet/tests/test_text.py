"""The loader of `text`: real text, tokenised and masked when it is prepared, through real loader processes."""

import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
from conftest import make_request
from dlperf_mxnet.worker import text

from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import MODELS, SMALL
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
import data_samples


@pytest.mark.parametrize("loaders", [1, 2])
def test_the_batches_are_the_prepared_sequences_in_the_order_of_the_seed(tmp_path, monkeypatch, loaders):
    pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    data_samples.text_folder(tmp_path / "data")
    options = attrs.asdict(MODELS["bert-base"].Options(**SMALL["bert-base"]))
    data = prepare(DataSpec("text", str(tmp_path / "data")), options, make_request("bert-base").inputs)
    replicas = {"devices_per_node": 2, "seed": 3}
    request = make_request(
        "bert-base", SMALL["bert-base"], {"loader_workers": loaders}, data=data, **replicas
    )
    written = {
        name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
        for name, entry in worker.read_arrays(data).items()
    }
    seen = {}
    for replica in (0, 1):
        batches = text.batches(request, replica)
        draws = iter(worker.draws(request, replica))
        for _ in range(3):
            keys, batch = next(draws), next(batches)
            assert set(batch) == {entry["name"] for entry in request.inputs}
            samples = [sample for _, sample in keys]
            for name, values in batch.items():
                np.testing.assert_array_equal(values.asnumpy(), written[name][samples])
                assert values.dtype == np.float32
            seen.setdefault(replica, []).append(samples)
        assert batches.facts["samples"] == data["samples"] and batches.facts["loader_workers"] == loaders
    assert seen[0] != seen[1]
