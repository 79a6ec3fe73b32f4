"""Batches of `images`, which MXNet decodes, and `text` through gluon's DataLoader, in real loader processes."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
loading_cases = pytest.importorskip("loading_cases", reason="sample images need Pillow")

import data_samples  # noqa: E402
from dlperf_mxnet.worker import images  # noqa: E402

from dlperf_sdk.worker import data as worker  # noqa: E402
from dlperf_sdk.worker.crop import MEAN, STD, crop_box  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def as_float32(dataset):
    """The dataset, whose batches are in the type that MXNet's operators take."""

    class Float32(dataset):
        def batch(self, keys):
            return {name: values.astype(np.float32) for name, values in super().batch(keys).items()}

    return Float32


def read(batch):
    (own,) = batch
    return {name: value.asnumpy() for name, value in own.items()}


@pytest.mark.parametrize(("source", "layout"), [("images", "auto"), ("text", "auto")])
def test_batches_are_the_datasets_in_the_order_of_the_seed(tmp_path, make_trainer, source, layout):
    if source == "text":
        pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    dataset = as_float32(images.OpenCVImages if source == "images" else loading_cases.TokenArrays)
    for loaders in (1, 2):
        trainer, batches = loading_cases.open_batches(
            make_trainer, tmp_path / "data", source, loaders, layout=layout, seed=loaders
        )
        loading_cases.check_order(trainer, batches, source, read, dataset)


def test_images_follow_the_recipe(tmp_path, make_trainer):
    trainer, batches = loading_cases.open_batches(make_trainer, tmp_path / "data", seed=5)
    listed = worker.read_images(trainer.request.data)
    order = enumerate(worker.endless(range(len(listed.paths)), 5, 0))
    batch = read(next(batches))
    for pixels, label in zip(batch["image"], batch["label"], strict=True):
        draw, sample = next(order)
        whole = images.decode(f"{listed.root}/{listed.paths[sample]}")
        expected = images.augment(whole, 40, 40, random.Random(f"augment/5/0/{draw}"))
        expected = (expected / 255 - np.array(MEAN)) / np.array(STD)
        np.testing.assert_allclose(pixels.transpose(1, 2, 0), expected, atol=1e-4)
        assert label == listed.labels[sample]
    assert trainer.observed()["data"]["decoder"].startswith("OpenCV")


def test_crops_follow_the_recipe(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(data_samples.jpeg(data_samples.gradient(60, 40)))
    whole = images.decode(path)
    left, top, right, bottom = crop_box(60, 40, random.Random(1))
    cropped = whole.asnumpy()[top:bottom, left:right]
    actual = images.augment(whole, right - left, bottom - top, random.Random(1))
    assert (actual == cropped).all() or (actual == cropped[:, ::-1]).all()


def test_a_broken_image_is_named(tmp_path, make_trainer):
    trainer, _ = loading_cases.open_batches(make_trainer, tmp_path / "data")
    loading_cases.break_images(tmp_path / "data")
    with pytest.raises(worker.DataError, match="cannot be decoded"):
        next(trainer.batches())


def test_orientation_is_ignored_and_grey_is_color(tmp_path):
    turned = data_samples.gradient(60, 40)
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90°
    (tmp_path / "turned.jpg").write_bytes(data_samples.jpeg(turned, exif=exif))
    assert images.decode(tmp_path / "turned.jpg").shape == (40, 60, 3)
    (tmp_path / "grey.jpg").write_bytes(data_samples.jpeg(turned.convert("L")))
    assert images.decode(tmp_path / "grey.jpg").shape == (40, 60, 3)
