"""The loader of `images`: real JPEGs, decoded by MXNet in real loader processes."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
from conftest import make_request  # noqa: E402
from dlperf_mxnet.worker import images  # noqa: E402

from dlperf_sdk.data import prepare  # noqa: E402
from dlperf_sdk.spec.values import DataSpec  # noqa: E402
from dlperf_sdk.worker import data as worker  # noqa: E402
from dlperf_sdk.worker.crop import MEAN, STD, crop_box  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
import data_samples  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def request_for(folder, loaders=1, **changes):
    options = {"image_size": 32, "num_classes": 10}
    data = prepare(DataSpec("images", str(folder)), options, make_request("resnet50", options).inputs)
    return make_request("resnet50", options, {"loader_workers": loaders}, data=data, **changes)


def test_the_batches_are_those_that_the_order_and_the_recipe_give(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data", loaders=2, seed=5)
    batches = images.batches(request, 0)
    listed = worker.read_images(request.data)
    order = enumerate(worker.endless(range(len(listed.paths)), 5, 0))
    for _ in range(3):
        batch = next(batches)
        assert batch["image"].shape == (4, 3, 32, 32) and batch["label"].shape == (4,)
        for pixels, label in zip(batch["image"].asnumpy(), batch["label"].asnumpy(), strict=True):
            draw, sample = next(order)
            chance = random.Random(f"augment/5/0/{draw}")
            whole = images.decode(f"{listed.root}/{listed.paths[sample]}")
            expected = images.augment(whole, 32, 32, chance)
            expected = (expected / 255 - np.array(MEAN)) / np.array(STD)
            np.testing.assert_allclose(pixels.transpose(1, 2, 0), expected, atol=1e-4)
            assert label == listed.labels[sample]
    assert batches.prefetched == 4 and batches.facts["decoder"].startswith("OpenCV")


def test_a_crop_is_where_the_recipe_says(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(data_samples.jpeg(data_samples.gradient(60, 40)))
    whole = images.decode(path)
    left, top, right, bottom = crop_box(60, 40, random.Random(1))
    cropped = whole.asnumpy()[top:bottom, left:right]
    found = images.augment(whole, right - left, bottom - top, random.Random(1))
    assert (found == cropped).all() or (found == cropped[:, ::-1]).all()


def test_a_broken_image_is_named(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data")
    for path in worker.read_images(request.data).paths:
        (tmp_path / "data" / path).write_bytes(b"\xff\xd8 no more of it")
    with pytest.raises(worker.DataError, match=r"cannot be decoded"):
        next(images.batches(request, 0))


def test_orientation_is_ignored_and_grey_is_colour(tmp_path):
    turned = data_samples.gradient(60, 40)
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90°
    (tmp_path / "turned.jpg").write_bytes(data_samples.jpeg(turned, exif=exif))
    assert images.decode(tmp_path / "turned.jpg").shape == (40, 60, 3)
    (tmp_path / "grey.jpg").write_bytes(data_samples.jpeg(turned.convert("L")))
    assert images.decode(tmp_path / "grey.jpg").shape == (40, 60, 3)
