"""The loader of `text`: prepared arrays, read in real loader processes."""

import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from conftest import make_request
from dlperf_torch.worker import text

from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import MODELS, SMALL
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker
from dlperf_sdk.worker.processes import Process

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
import data_samples

# Three loaders on two cores are slow, and right.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
pytest.importorskip(
    "tokenizers", reason="text cannot be prepared here: the package tokenizers is not installed"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def request_for(folder, loaders=1, **changes):
    options = attrs.asdict(MODELS["bert-base"].Options(**SMALL["bert-base"]))
    data = prepare(DataSpec("text", str(folder)), options, make_request("bert-base").inputs)
    return make_request("bert-base", None, {"loader_workers": loaders}, data=data, **changes)


def process(replica=0):
    return Process("trainer", 0, {}, (replica,), (replica,), replica)


def arrays_of(request):
    return {
        name: np.fromfile(entry.path, entry.dtype).reshape(entry.shape)
        for name, entry in worker.read_arrays(request.data).items()
    }


def test_batches_are_the_prepared_sequences_in_the_order_of_the_seed(tmp_path):
    data_samples.text_folder(tmp_path / "data")
    request = request_for(tmp_path / "data", loaders=3, seed=2)
    arrays = arrays_of(request)
    batches = text.batches(request, process())
    order = worker.endless(range(request.data["samples"]), 2, 0)
    for _ in range(5):
        batch = next(batches)
        samples = [next(order) for _ in range(4)]
        assert list(batch) == [entry["name"] for entry in request.inputs]
        for entry in request.inputs:
            value = batch[entry["name"]]
            assert value.dtype == getattr(torch, entry["dtype"]) and value.shape == (4, *entry["shape"])
            np.testing.assert_array_equal(value.numpy(), arrays[entry["name"]][samples])
    assert batches.prefetched == 6
    assert batches.facts["source"] == "text" and batches.facts["samples"] == request.data["samples"]


def test_replicas_share_nothing_and_cover_everything(tmp_path):
    data_samples.text_folder(tmp_path / "data", files=1)
    request = request_for(tmp_path / "data", devices_per_node=2, nodes=2, batch_size=1)
    rows = arrays_of(request)
    everything = sorted(_row(rows, i) for i in range(request.data["samples"]))
    seen = []
    for replica in range(4):
        batches = text.batches(request, process(replica))
        own = len(worker.share(request.data["samples"], replica, 4))
        seen += [_row({name: value.numpy() for name, value in next(batches).items()}, 0) for _ in range(own)]
    assert sorted(seen) == everything


def _row(arrays, i):
    return tuple(arrays["input_ids"][i].tolist() + arrays["masked_positions"][i].tolist())


def test_few_sequences_fill_a_large_batch(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("One two three.\n\nFour five six.")
    request = request_for(tmp_path / "data", batch_size=32)
    assert request.data["samples"] < 32
    batches = text.batches(request, process())
    assert next(batches)["input_ids"].shape == (32, SMALL["bert-base"]["sequence_length"])
    assert batches.facts["repeats_within_a_batch"] is True


def test_an_altered_array_is_refused(tmp_path):
    data_samples.text_folder(tmp_path / "data", files=1)
    request = request_for(tmp_path / "data")
    path = Path(request.data["index"]).parent / "input_ids.bin"
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(content)
    with pytest.raises(worker.DataError, match=r"input_ids\.bin has changed"):
        text.batches(request, process())
