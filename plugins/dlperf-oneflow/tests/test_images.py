"""The loader of `images`: real JPEGs, decoded by Pillow in real loader processes."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
from conftest import make_request
from dlperf_oneflow.worker import images

from dlperf_sdk.data import prepare
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker
from dlperf_sdk.worker.crop import MEAN, STD
from dlperf_sdk.worker.processes import Process

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
import data_samples


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def request_for(folder, loaders=1, **changes):
    options = {"image_size": 32, "num_classes": 10}
    data = prepare(DataSpec("images", str(folder)), options, make_request("resnet50", options).inputs)
    return make_request("resnet50", options, {"loader_workers": loaders}, data=data, **changes)


PROCESS = Process("trainer", 0, {}, (0,), (0,), 0)


def test_the_batches_are_those_that_the_order_and_the_recipe_give(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data", loaders=2, seed=5)
    batches = images.batches(request, PROCESS)
    listed = worker.read_images(request.data)
    order = enumerate(worker.endless(range(len(listed.paths)), 5, 0))
    for _ in range(3):
        batch = next(batches)
        assert batch["image"].shape == (4, 3, 32, 32) and batch["image"].dtype == np.float32
        assert batch["label"].dtype == np.int64
        for pixels, label in zip(batch["image"], batch["label"], strict=True):
            draw, sample = next(order)
            whole = images.decode(f"{listed.root}/{listed.paths[sample]}")
            expected = np.asarray(images.augment(whole, 32, 32, random.Random(f"augment/5/0/{draw}")))
            expected = (expected / 255 - np.array(MEAN)) / np.array(STD)
            np.testing.assert_allclose(pixels.transpose(1, 2, 0), expected, atol=1e-4)
            assert label == listed.labels[sample]
    assert batches.prefetched == 4 and batches.facts["decoder"].startswith("Pillow")


def test_a_broken_image_is_named(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data")
    for path in worker.read_images(request.data).paths:
        (tmp_path / "data" / path).write_bytes(b"\xff\xd8 no more of it")
    with pytest.raises(worker.DataError, match=r"cannot be decoded"):
        next(images.batches(request, PROCESS))
