"""The pipelines of `images` and `text`: real JPEGs and real text through tf.data."""

import sys
import tempfile
from pathlib import Path

import attrs
import numpy as np
import pytest
from conftest import MODELS, SMALL, make_request

from dlperf_sdk.data import prepare
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker

tf = pytest.importorskip(
    "tensorflow", reason="the worker half needs TensorFlow, which is not in this environment"
)
images = pytest.importorskip("dlperf_tensorflow.worker.images")
text = pytest.importorskip("dlperf_tensorflow.worker.text")
loading = pytest.importorskip("dlperf_tensorflow.worker.loading")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
data_samples = pytest.importorskip("data_samples", reason="sample images need Pillow, sample text tokenizers")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _no_files(tmp_path, monkeypatch):
    """Pipelines write none: a worker that is killed would leave them behind. AutoGraph writes a function once in a
    process, so every test looks."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())


def image_request(folder, loaders=1, num_classes=10, **changes):
    options = {"image_size": 32, "num_classes": num_classes}
    data = prepare(DataSpec("images", str(folder)), options, make_request("resnet50", options).inputs)
    return make_request("resnet50", options, {"loader_workers": loaders}, data=data, **changes)


def open_loader(request, replica=0, dataset=images.JpegPipeline):
    layout = "nchw" if request.layout == "nchw" else "nhwc"
    return loading.Loader(dataset(request, replica, layout), request, replica)


def take(count, request, replica=0):
    batches = open_loader(request, replica)
    return [next(batches) for _ in range(count)]


def numbered_folder(folder, count):
    """One image per class: the label tells which image it is."""
    for i in range(count):
        path = folder / f"c{i:03}" / "1.jpg"
        path.parent.mkdir(parents=True)
        path.write_bytes(data_samples.jpeg(data_samples.gradient(20 + i, 30, red=i / count)))


def test_batch_matches_the_models_inputs(tmp_path):
    count = data_samples.image_folder(tmp_path / "data")
    batches = open_loader(image_request(tmp_path / "data", loaders=2))
    batch = next(batches)
    assert batch["image"].shape == (4, 32, 32, 3) and batch["image"].dtype == tf.float32
    assert batch["label"].shape == (4,) and batch["label"].dtype == tf.int64
    # Normalized: black is (0 - mean) / std, white (1 - mean) / std.
    assert tf.reduce_min(batch["image"]) >= -0.485 / 0.229 - 1e-5
    assert tf.reduce_max(batch["image"]) <= (1 - 0.406) / 0.225 + 1e-5
    assert batches.facts["samples"] == count and batches.facts["loader_workers"] == 2
    turned = take(1, image_request(tmp_path / "data", layout="nchw"))[0]["image"]
    np.testing.assert_array_equal(turned.numpy().transpose(0, 2, 3, 1), batch["image"].numpy())


def test_batches_do_not_depend_on_the_number_of_loaders_and_do_on_the_seed(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    one = take(4, image_request(tmp_path / "data", loaders=1))
    three = take(4, image_request(tmp_path / "data", loaders=3))
    other = take(4, image_request(tmp_path / "data", loaders=1, seed=1))
    for a, b, c in zip(one, three, other, strict=True):
        np.testing.assert_array_equal(a["image"], b["image"])
        assert (a["image"].numpy() != c["image"].numpy()).any()


def test_the_order_is_the_seeds_and_replicas_share_nothing(tmp_path):
    numbered_folder(tmp_path / "data", 12)
    request = image_request(tmp_path / "data", num_classes=12, devices_per_node=2, batch_size=3)
    listed, observed = worker.read_images(request.data), []
    for replica in (0, 1):
        labels = [label for batch in take(2, request, replica) for label in batch["label"].numpy().tolist()]
        order = worker.endless(worker.share(12, replica, 2), 0, replica)
        assert labels == [listed.labels[next(order)] for _ in labels]
        observed += labels
    assert sorted(observed) == list(range(12))


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_every_jpeg_becomes_rgb(mode):
    from PIL import Image

    color = {"L": 200, "CMYK": (0, 255, 255, 0), "RGB": (255, 0, 0)}[mode]
    encoded = data_samples.jpeg(Image.new(mode, (16, 16), color), quality=100, subsampling=0)
    decoded = images.decode(encoded).numpy().astype(int)
    expected = (200, 200, 200) if mode == "L" else (255, 0, 0)
    assert decoded.shape == (16, 16, 3) and np.abs(decoded - expected).max() <= 4


def test_crops_have_the_area_and_the_ratio_of_the_recipe_and_half_are_mirrored():
    # Red grows from left to right, so the crop's width and its direction can be read from its pixels.
    ramp = np.broadcast_to(np.linspace(0, 255, 256)[None, :, None], (192, 256, 3)).astype(np.uint8)
    encoded = tf.io.encode_jpeg(ramp, quality=100)
    widths, mirrored, count = [], 0, 300
    for i in range(count):
        pixels = images.augment(encoded, 16, 16, tf.constant([7, i], tf.int64)).numpy()
        left, right = pixels[:, 0].mean(), pixels[:, -1].mean()
        mirrored += left > right
        widths.append(abs(right - left) / 255 * 16 / 15)
    assert data_samples.close(mirrored / count, 0.5, count)
    # The narrowest crop: sqrt(0.08 · 192 · 256 · 3/4) = 54 of 256 columns.
    assert min(widths) > 50 / 256 and max(widths) <= 1.05
    assert max(widths) - min(widths) > 0.5


@pytest.mark.parametrize("damage", ["truncated", "gone"])
def test_an_image_that_broke_after_the_preparation_is_named(tmp_path, damage):
    numbered_folder(tmp_path / "data", 3)
    request = image_request(tmp_path / "data")
    path = tmp_path / "data" / "c001" / "1.jpg"
    content = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(worker.DataError, match=r"c001/1\.jpg cannot be decoded"):
        take(2, request)


def test_text_batches_are_the_prepared_sequences_in_the_order_of_the_seed(tmp_path):
    pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    data_samples.text_folder(tmp_path / "data")
    options = attrs.asdict(MODELS["bert-base"].Options(**SMALL["bert-base"]))
    data = prepare(DataSpec("text", str(tmp_path / "data")), options, make_request("bert-base").inputs)
    request = make_request("bert-base", None, {"loader_workers": 3}, data=data, seed=2)
    arrays = {
        name: np.fromfile(entry.path, entry.dtype).reshape(entry.shape)
        for name, entry in worker.read_arrays(data).items()
    }
    batches = open_loader(request, dataset=text.TokenPipeline)
    order = worker.endless(range(data["samples"]), 2, 0)
    for _ in range(5):
        batch = next(batches)
        samples = [next(order) for _ in range(4)]
        assert list(batch) == [entry["name"] for entry in request.inputs]
        for entry in request.inputs:
            value = batch[entry["name"]]
            assert value.dtype.name == entry["dtype"] and value.shape == (4, *entry["shape"])
            np.testing.assert_array_equal(value.numpy(), arrays[entry["name"]][samples])
