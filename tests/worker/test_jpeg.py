"""The JPEGs of `images`: decoding, crops, normalization, and errors that name the file."""

import math
import random
from pathlib import Path

import data_samples
import numpy as np
import pytest
from PIL import Image

from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import MODELS
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker
from dlperf_sdk.worker import jpeg
from dlperf_sdk.worker.crop import crop_box

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


class Asked:
    """The fields of a request that a dataset reads."""

    def __init__(self, folder, seed=0):
        model = MODELS["resnet50"]
        self.inputs = [
            entry_to_dict(entry) for entry in model.inputs(model.Options(image_size=32, num_classes=10))
        ]
        self.data = prepare(DataSpec("images", str(folder)), {"num_classes": 10}, self.inputs)
        self.seed = seed


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_batch_follows_the_recipe(tmp_path, layout):
    data_samples.image_folder(tmp_path / "data")
    images = jpeg.JpegImages(Asked(tmp_path / "data", seed=5), 1, layout)
    keys = [(0, 2), (7, 0), (8, 2)]
    batch = images[keys]
    assert batch["image"].dtype == np.float32 and batch["image"].flags.c_contiguous
    assert batch["label"].dtype == np.int64
    shape = (3, 3, 32, 32) if layout == "nchw" else (3, 32, 32, 3)
    assert batch["image"].shape == shape
    pictures = batch["image"] if layout == "nhwc" else batch["image"].transpose(0, 2, 3, 1)
    for (draw, sample), actual, label in zip(keys, pictures, batch["label"], strict=True):
        assert label == images.images.labels[sample]
        chance = random.Random(f"augment/5/1/{draw}")
        with Image.open(Path(images.images.root) / images.images.paths[sample]) as image:
            whole = image.convert("RGB")
        box = crop_box(whole.width, whole.height, chance)
        pixels = np.asarray(whole.crop(box).resize((32, 32), Image.Resampling.BILINEAR), np.float64) / 255
        if chance.random() < 0.5:
            pixels = pixels[:, ::-1]
        np.testing.assert_allclose(actual, (pixels - MEAN) / STD, atol=2e-6)
    assert not np.array_equal(batch["image"][0], batch["image"][2])  # the same image, cropped anew
    assert images.facts["decoder"].startswith("Pillow ")


@pytest.mark.parametrize("damage", ["truncated", "png", "gone"])
def test_an_image_that_broke_after_the_preparation_is_named(tmp_path, damage):
    data_samples.image_folder(tmp_path / "data")
    images = jpeg.JpegImages(Asked(tmp_path / "data"), 0, "nchw")
    path = tmp_path / "data" / "n01" / "one.JPEG"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:700])
    elif damage == "png":
        data_samples.gradient(9, 9).save(path, "PNG")
    else:
        path.unlink()
    error = images[[(0, images.images.paths.index("n01/one.JPEG"))]]
    assert isinstance(error, worker.DataError)
    assert "data/n01/one.JPEG cannot be decoded: " in str(error) and "Traceback" not in str(error)


def test_an_altered_index_is_refused(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    requested = Asked(tmp_path / "data")
    index = Path(requested.data["index"])
    index.write_bytes(index.read_bytes().replace(b"one", b"two"))
    with pytest.raises(worker.DataError, match="has changed"):
        jpeg.JpegImages(requested, 0, "nchw")


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_every_jpeg_becomes_rgb(tmp_path, mode):
    color = {"L": 200, "CMYK": (0, 255, 255, 0), "RGB": (255, 0, 0)}[mode]
    path = tmp_path / "x.jpg"
    path.write_bytes(data_samples.jpeg(Image.new(mode, (16, 16), color), quality=100, subsampling=0))
    decoded = jpeg.decode(path)
    assert decoded.mode == "RGB" and decoded.size == (16, 16)
    expected = (200, 200, 200) if mode == "L" else (255, 0, 0)
    assert np.abs(np.asarray(decoded, int) - expected).max() <= 4


def test_orientation_is_ignored_and_other_formats_refused(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    (tmp_path / "x.jpg").write_bytes(data_samples.jpeg(data_samples.gradient(30, 20), exif=turned.tobytes()))
    assert jpeg.decode(tmp_path / "x.jpg").size == (30, 20)
    data_samples.gradient(30, 20).save(tmp_path / "y.jpg", "PNG")
    with pytest.raises(OSError, match="cannot identify"):
        jpeg.decode(tmp_path / "y.jpg")


def test_real_photographs():
    photographs = data_samples.photographs()
    if not photographs:  # other packages bring them; the JPEGs that the other tests make are always there
        pytest.skip("no photograph: neither scikit-learn, matplotlib nor CPython's own tests are here")
    for path in photographs:
        decoded = jpeg.decode(path)
        with Image.open(path) as image:
            assert decoded.size == image.size
        pixels = np.asarray(jpeg.augment(decoded, 224, 224, random.Random(0)))
        assert pixels.shape == (224, 224, 3) and pixels.std() > 5


@pytest.mark.parametrize(("width", "height"), [(500, 375), (64, 64), (30, 400), (1000, 3), (1, 1), (1, 90)])
def test_crops_have_the_area_and_ratio_of_the_recipe(width, height):
    chance = random.Random(1)
    areas, ratios = [], []
    for _ in range(2000):
        left, top, right, bottom = crop_box(width, height, chance)
        assert 0 <= left < right <= width and 0 <= top < bottom <= height
        areas.append((right - left) * (bottom - top) / (width * height))
        ratios.append((right - left) / (bottom - top))
    if width >= 30 and height >= 30:
        # Rounding to whole pixels moves the ratio of the smallest crop, 9 × 7 pixels, most.
        assert min(ratios) > 0.7 and max(ratios) < 1.45
    if (width, height) == (500, 375):
        assert min(areas) >= 0.079 and max(areas) > 0.9
        # Area f and ratio r fit if f <= 0.75 r; of the uniform f and the log-uniform r these means are left:
        # E f = E((0.75 r)² - 0.08²) / 2 E(0.75 r - 0.08), E log r = E(log r · 0.75 r) / E(0.75 r - 0.08).
        assert abs(np.mean(areas) - 0.4318) < 4 * np.std(areas) / 2000**0.5
        assert abs(np.mean(np.log(ratios)) - 0.0307) < 4 * np.std(np.log(ratios)) / 2000**0.5


def test_central_crop_if_no_crop_fits():
    assert crop_box(1000, 3, random.Random(0)) == (498, 0, 502, 3)
    left, top, right, bottom = crop_box(3, 1000, random.Random(0))
    assert (left, right) == (0, 3) and math.isclose((top + bottom) / 2, 500, abs_tol=1)
    assert (right - left) / (bottom - top) >= 3 / 4


def test_half_of_the_images_are_mirrored():
    image = data_samples.gradient(64, 64)
    chance = random.Random(3)
    count = 400
    mirrored = 0
    for _ in range(count):
        pixels = np.asarray(jpeg.augment(image, 8, 8, chance), int)
        mirrored += pixels[:, 0, 0].mean() > pixels[:, -1, 0].mean()
    assert data_samples.close(mirrored / count, 0.5, count)


def test_normalize_by_hand():
    pixels = np.broadcast_to(np.array([0, 255], np.uint8)[None, None, :, None], (1, 1, 2, 3))
    expected = [[-2.1179, 2.2489], [-2.0357, 2.4286], [-1.8044, 2.6400]]
    np.testing.assert_allclose(jpeg.normalize(pixels)[0, :, 0], expected, atol=1e-4)
