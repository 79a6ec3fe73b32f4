"""The loader of `images`: real JPEGs, decoded by Pillow in real loader processes."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_request
from dlperf_torch.worker import images, loading
from PIL import Image

from dlperf_sdk.data import prepare
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker
from dlperf_sdk.worker.processes import Process

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
import data_samples

# Three loaders on two cores are slow, and right.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def request_for(folder, loaders=1, num_classes=10, **changes):
    options = {"image_size": 32, "num_classes": num_classes}
    plain = make_request("resnet50", options).inputs
    data = prepare(DataSpec("images", str(folder)), options, plain)
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
    batches = images.batches(request_for(tmp_path / "data", loaders=2), process())
    batch = next(batches)
    assert set(batch) == {"image", "label"}
    assert batch["image"].shape == (4, 3, 32, 32) and batch["image"].dtype == torch.float32
    assert batch["label"].shape == (4,) and batch["label"].dtype == torch.int64
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    # Normalised: black is (0 - mean) / std, white (1 - mean) / std.
    assert (
        batch["image"].min() >= -0.485 / 0.229 - 1e-5 and batch["image"].max() <= (1 - 0.406) / 0.225 + 1e-5
    )
    assert batches.prefetched == 4
    assert batches.facts["samples"] == batches.facts["samples_per_replica"] == count
    assert batches.facts["loader_workers"] == 2 and batches.facts["decoder"].startswith("Pillow ")
    assert batches.facts["repeats_within_a_batch"] is False


def test_the_batches_are_those_that_the_order_and_the_recipe_give(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data", loaders=2, seed=5, layout="nchw")
    found = take(3, request)
    listed = worker.read_images(request.data)
    order = worker.endless(range(len(listed.paths)), 5, 0)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for number, batch in enumerate(found):
        assert batch["image"].is_contiguous()
        for place in range(4):
            sample = next(order)
            assert batch["label"][place] == listed.labels[sample]
            chance = random.Random(f"augment/5/0/{4 * number + place}")
            with Image.open(Path(listed.root) / listed.paths[sample]) as image:
                whole = image.convert("RGB")
            box = images.crop_box(whole.width, whole.height, chance)
            pixels = np.asarray(whole.crop(box).resize((32, 32), Image.Resampling.BILINEAR), np.float64) / 255
            if chance.random() < 0.5:
                pixels = pixels[:, ::-1]
            expected = ((pixels - mean) / std).transpose(2, 0, 1)
            np.testing.assert_allclose(batch["image"][place].numpy(), expected, atol=2e-6)


def test_batches_do_not_depend_on_the_number_of_loaders_and_do_on_the_seed(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    one = take(4, request_for(tmp_path / "data", loaders=1))
    three = take(4, request_for(tmp_path / "data", loaders=3))
    other = take(4, request_for(tmp_path / "data", loaders=1, seed=1))
    assert all(torch.equal(a["image"], b["image"]) for a, b in zip(one, three, strict=True))
    assert not any(torch.equal(a["image"], b["image"]) for a, b in zip(one, other, strict=True))


def test_torch_own_chance_is_left_alone(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    before = torch.get_rng_state()
    take(1, request_for(tmp_path / "data"))
    assert torch.equal(torch.get_rng_state(), before)


def test_replicas_share_nothing_and_each_epoch_is_complete(tmp_path):
    numbered_folder(tmp_path / "data", 12)
    request = request_for(tmp_path / "data", num_classes=12, nodes=1, devices_per_node=2, batch_size=3)
    seen = []
    for replica in (0, 1):
        epochs = [
            torch.cat([b["label"] for b in part]).tolist() for part in _pairs(take(4, request, replica))
        ]
        assert sorted(epochs[0]) == sorted(epochs[1]) and len(set(epochs[0])) == 6
        seen += epochs[0]
    assert sorted(seen) == list(range(12))


def _pairs(items):
    return zip(items[::2], items[1::2], strict=True)


def test_a_folder_smaller_than_a_batch_repeats_and_says_so(tmp_path):
    numbered_folder(tmp_path / "data", 3)
    request = request_for(tmp_path / "data", batch_size=8)
    batches = images.batches(request, process())
    labels = [next(batches)["label"].tolist() for _ in range(3)]
    assert [len(batch) for batch in labels] == [8, 8, 8]
    flat = [label for batch in labels for label in batch]
    assert all(sorted(flat[i : i + 3]) == [0, 1, 2] for i in range(0, 24, 3))
    assert batches.facts["repeats_within_a_batch"] is True
    # The same image, drawn twice in one batch, is cropped anew.
    image = next(batches)
    twice = [i for i, label in enumerate(image["label"].tolist()) if label == 0]
    assert not torch.equal(image["image"][twice[0]], image["image"][twice[1]])


def test_fewer_images_than_replicas(tmp_path):
    numbered_folder(tmp_path / "data", 1)
    request = request_for(tmp_path / "data", nodes=1, devices_per_node=3, batch_size=2)
    batches = images.batches(request, process(2))
    assert next(batches)["label"].tolist() == [0, 0]
    assert batches.facts["shared_between_replicas"] is True


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_every_jpeg_becomes_rgb(tmp_path, mode):
    colour = {"L": 200, "CMYK": (0, 255, 255, 0), "RGB": (255, 0, 0)}[mode]
    path = tmp_path / "x.jpg"
    path.write_bytes(data_samples.jpeg(Image.new(mode, (16, 16), colour), quality=100, subsampling=0))
    decoded = images.decode(path)
    assert decoded.mode == "RGB" and decoded.size == (16, 16)
    expected = (200, 200, 200) if mode == "L" else (255, 0, 0)
    assert np.abs(np.asarray(decoded, int) - expected).max() <= 4


def test_orientation_is_ignored_and_other_formats_refused(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    (tmp_path / "x.jpg").write_bytes(data_samples.jpeg(data_samples.gradient(30, 20), exif=turned.tobytes()))
    assert images.decode(tmp_path / "x.jpg").size == (30, 20)
    data_samples.gradient(30, 20).save(tmp_path / "y.jpg", "PNG")
    with pytest.raises(OSError, match="cannot identify"):
        images.decode(tmp_path / "y.jpg")


def test_real_photographs(tmp_path):
    found = data_samples.photographs()
    if (
        not found
    ):  # they are other packages' to give away; the JPEGs that the other tests make are always there
        pytest.skip(
            "no photograph: neither scikit-learn, matplotlib nor CPython's own tests are installed here"
        )
    for path in found:
        decoded = images.decode(path)
        with Image.open(path) as image:
            assert decoded.size == image.size
        pixels = np.asarray(images.augment(decoded, 224, 224, random.Random(0)))
        assert pixels.shape == (224, 224, 3) and pixels.std() > 5


@pytest.mark.parametrize(("width", "height"), [(500, 375), (64, 64), (30, 400), (1000, 3), (1, 1), (1, 90)])
def test_crops_lie_inside_with_the_area_and_ratio_of_the_recipe(width, height):
    chance = random.Random(1)
    areas, ratios = [], []
    for _ in range(2000):
        left, top, right, bottom = images.crop_box(width, height, chance)
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


def test_no_fitting_crop_means_the_middle():
    assert images.crop_box(1000, 3, random.Random(0)) == (498, 0, 502, 3)
    left, top, right, bottom = images.crop_box(3, 1000, random.Random(0))
    assert (left, right) == (0, 3) and math.isclose((top + bottom) / 2, 500, abs_tol=1)
    assert (right - left) / (bottom - top) >= 3 / 4


def test_half_of_the_images_are_mirrored():
    image = data_samples.gradient(64, 64)
    chance = random.Random(3)
    count = 400
    mirrored = 0
    for _ in range(count):
        pixels = np.asarray(images.augment(image, 8, 8, chance), int)
        mirrored += pixels[:, 0, 0].mean() > pixels[:, -1, 0].mean()
    assert data_samples.close(mirrored / count, 0.5, count)


def test_normalise_by_hand():
    pixels = torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 2, 1).expand(1, 1, 2, 3)
    for layout in (True, False):
        found = images.normalise(pixels, layout)[0, :, 0]
        expected = [[-2.1179, 2.2489], [-2.0357, 2.4286], [-1.8044, 2.6400]]
        torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=0)


@pytest.mark.parametrize("damage", ["truncated", "png", "gone"])
def test_an_image_that_broke_after_the_preparation_is_named(tmp_path, damage):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data", batch_size=32)
    path = tmp_path / "data" / "n01" / "one.JPEG"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:700])
    elif damage == "png":
        data_samples.gradient(9, 9).save(path, "PNG")
    else:
        path.unlink()
    message = None
    batches = images.batches(request, process())
    try:
        next(batches)
    # Not pytest.raises: its traceback would hold the loaders, which then take torch five seconds to end.
    except worker.DataError as error:
        message = str(error)
    assert "data/n01/one.JPEG cannot be decoded: " in message and "Traceback" not in message


def test_an_altered_index_is_refused(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    request = request_for(tmp_path / "data")
    index = Path(request.data["index"])
    index.write_bytes(index.read_bytes().replace(b"one", b"two"))
    with pytest.raises(worker.DataError, match="has changed"):
        images.batches(request, process())


class Threads:
    def __getitem__(self, keys):
        return {"threads": torch.tensor(torch.get_num_threads()), "pid": torch.tensor(os.getpid())}


def test_loaders_are_processes_of_one_thread(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    batches = loading.Batches(Threads(), request_for(tmp_path / "data", loaders=2), process())
    found = [next(batches) for _ in range(4)]
    assert {int(batch["threads"]) for batch in found} == {1}
    assert len({int(batch["pid"]) for batch in found} - {os.getpid()}) == 2


_WORKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from dlperf_sdk.worker import lifetime
from test_images import images, process, request_for
batches = images.batches(request_for(Path(sys.argv[2]), loaders=2), process())
next(batches)
print(*lifetime.children(), flush=True)
time.sleep(60)
"""


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has ended; perhaps in this very moment
        return False


def test_loaders_die_with_their_worker_even_by_sigkill(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    worker_process = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(Path(__file__).parent), str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        loaders = [int(pid) for pid in worker_process.stdout.readline().split()]
        assert len(loaders) == 2 and all(map(_alive, loaders))
    finally:
        worker_process.send_signal(signal.SIGKILL)
        worker_process.communicate()
    # torch's own watchdog looks every five seconds; the kernel's signal comes at once.
    deadline = time.monotonic() + 2
    while any(map(_alive, loaders)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(_alive, loaders))
