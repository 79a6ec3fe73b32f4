"""The pipelines of `images` and `text`: real JPEGs and real text through paddle.io."""

import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
from conftest import make_request

from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import MODELS, SMALL
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker
from dlperf_sdk.worker.processes import Process

paddle = pytest.importorskip(
    "paddle", reason="the worker half needs Paddle, which is not in this environment"
)
images = pytest.importorskip("dlperf_paddle.worker.images")
text = pytest.importorskip("dlperf_paddle.worker.text")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
data_samples = pytest.importorskip("data_samples", reason="sample images need Pillow, sample text tokenizers")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def image_request(folder, loaders=1, num_classes=10, **changes):
    options = {"image_size": 32, "num_classes": num_classes}
    data = prepare(DataSpec("images", str(folder)), options, make_request("resnet50", options).inputs)
    return make_request("resnet50", options, {"loader_workers": loaders}, data=data, **changes)


def process(replica=0):
    return Process("trainer", 0, {}, (replica,), (replica,), replica)


def take(count, request, replica=0):
    batches = images.batches(request, process(replica))
    return [next(batches) for _ in range(count)]


def numbered_folder(folder, count):
    """One image per class: the label tells which image it is."""
    for i in range(count):
        path = folder / f"c{i:03}" / "1.jpg"
        path.parent.mkdir(parents=True)
        path.write_bytes(data_samples.jpeg(data_samples.gradient(20 + i, 30, red=i / count)))


def test_a_batch_is_what_the_model_reads(tmp_path):
    count = data_samples.image_folder(tmp_path / "data")
    batches = images.batches(image_request(tmp_path / "data", loaders=2), process())
    batch = next(batches)
    assert batch["image"].shape == [4, 3, 32, 32] and batch["image"].dtype == paddle.float32
    assert batch["label"].shape == [4] and batch["label"].dtype == paddle.int64
    # Normalised: black is (0 - mean) / std, white (1 - mean) / std.
    assert float(batch["image"].min()) >= -0.485 / 0.229 - 1e-5
    assert float(batch["image"].max()) <= (1 - 0.406) / 0.225 + 1e-5
    assert batches.facts["samples"] == count and batches.facts["loader_workers"] == 2
    turned = take(1, image_request(tmp_path / "data", layout="nhwc"))[0]["image"]
    np.testing.assert_array_equal(turned.numpy().transpose(0, 3, 1, 2), batch["image"].numpy())


def test_batches_do_not_depend_on_the_number_of_loaders_and_do_on_the_seed(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    one = take(4, image_request(tmp_path / "data", loaders=1))
    three = take(4, image_request(tmp_path / "data", loaders=3))
    other = take(4, image_request(tmp_path / "data", loaders=1, seed=1))
    for a, b, c in zip(one, three, other, strict=True):
        np.testing.assert_array_equal(a["image"].numpy(), b["image"].numpy())
        assert (a["image"].numpy() != c["image"].numpy()).any()


def test_the_order_is_the_seeds_and_replicas_share_nothing(tmp_path):
    numbered_folder(tmp_path / "data", 12)
    request = image_request(tmp_path / "data", num_classes=12, devices_per_node=2, batch_size=3)
    listed, seen = worker.read_images(request.data), []
    for replica in (0, 1):
        labels = [label for batch in take(2, request, replica) for label in batch["label"].numpy().tolist()]
        order = worker.endless(worker.share(12, replica, 2), 0, replica)
        assert labels == [listed.labels[next(order)] for _ in labels]
        seen += labels
    assert sorted(seen) == list(range(12))


def test_the_pixels_are_those_of_the_recipe(tmp_path):
    import random

    from PIL import Image

    from dlperf_sdk.worker.crop import crop_box

    data_samples.image_folder(tmp_path / "data")
    request = image_request(tmp_path / "data", seed=5)
    listed, order = worker.read_images(request.data), worker.endless(range(request.data["samples"]), 5, 0)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for number, batch in enumerate(take(2, request)):
        for place in range(4):
            sample = next(order)
            assert int(batch["label"][place]) == listed.labels[sample]
            chance = random.Random(f"augment/5/0/{4 * number + place}")
            with Image.open(Path(listed.root) / listed.paths[sample]) as image:
                whole = image.convert("RGB")
            box = crop_box(whole.width, whole.height, chance)
            pixels = np.asarray(whole.crop(box).resize((32, 32), Image.Resampling.BILINEAR), np.float64) / 255
            if chance.random() < 0.5:
                pixels = pixels[:, ::-1]
            expected = ((pixels - mean) / std).transpose(2, 0, 1)
            np.testing.assert_allclose(batch["image"][place].numpy(), expected, atol=2e-6)


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
    batches = text.batches(request, process())
    order = worker.endless(range(data["samples"]), 2, 0)
    for _ in range(5):
        batch = next(batches)
        samples = [next(order) for _ in range(4)]
        assert list(batch) == [entry["name"] for entry in request.inputs]
        for entry in request.inputs:
            value = batch[entry["name"]]
            assert value.dtype == getattr(paddle, entry["dtype"]) and value.shape == [4, *entry["shape"]]
            np.testing.assert_array_equal(value.numpy(), arrays[entry["name"]][samples])
