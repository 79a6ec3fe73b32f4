"""Preparing `images:FOLDER`, and reading its index as a worker does."""

import hashlib
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import data_samples
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.data import describe, prepare
from dlperf_sdk.errors import DocumentError, SpecError, Unavailable, UnknownName
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker import data as worker

RESNET = ResNet50()
INPUTS = [entry_to_dict(entry) for entry in RESNET.inputs(RESNET.Options())]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data"


def images(folder, num_classes=1000, **more):
    return prepare(DataSpec("images", str(folder)), {"num_classes": num_classes}, INPUTS, **more)


def test_a_folder_is_described_without_being_prepared(tmp_path, cache):
    folder = tmp_path / "data"
    count = data_samples.image_folder(folder)
    spec = DataSpec("images", str(folder))
    assert describe(spec, {"num_classes": 3}) == f"{count} images in 3 classes"
    assert not cache.exists()
    with pytest.raises(SpecError, match="Set num_classes=3"):
        describe(spec, {"num_classes": 2})
    with pytest.raises(Unavailable, match="does not exist"):
        describe(DataSpec("images", str(tmp_path / "none")), {"num_classes": 3})
    assert describe(DataSpec("synthetic"), {}) is None


def test_index_lists_every_image_with_the_label_of_its_class(tmp_path):
    count = data_samples.image_folder(tmp_path / "data")
    (tmp_path / "data" / "n02" / "notes.txt").write_text("not an image")
    (tmp_path / "data" / "empty").mkdir()
    (tmp_path / "data" / ".hidden").mkdir()

    prepared = images(tmp_path / "data", num_classes=3)

    assert json.loads(json.dumps(prepared)) == prepared
    assert prepared["source"] == "images" and prepared["samples"] == count and prepared["classes"] == 3
    listed = worker.read_images(prepared)
    actual = dict(zip(listed.paths, listed.labels, strict=True))
    assert actual["n01/one.JPEG"] == 0 and actual["n02/grey.JPG"] == 1 and actual["n03/cmyk.jpg"] == 2
    on_disk = {
        f"{path.parent.name}/{path.name}"
        for path in (tmp_path / "data").rglob("*")
        if path.suffix.lower() in (".jpg", ".jpeg")
    }
    assert set(actual) == on_disk and len(listed.paths) == count
    assert listed.paths == sorted(listed.paths)
    assert all((Path(listed.root) / path).is_file() for path in listed.paths)


def test_train_folder_is_taken_and_the_checksum_does_not_tell_where_it_lies(tmp_path):
    data_samples.image_folder(tmp_path / "a", train=True)
    data_samples.image_folder(tmp_path / "b" / "c")
    first, second = images(tmp_path / "a"), images(tmp_path / "b" / "c")
    assert first["path"] == str(tmp_path / "a" / "train")
    assert first["checksum"] == second["checksum"] and first["index"] != second["index"]


def test_a_class_may_be_called_train(tmp_path):
    for name in ("train", "car"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "1.jpg").write_bytes(data_samples.jpeg(data_samples.gradient(8, 8)))
    assert worker.read_images(images(tmp_path / "data")).paths == ["car/1.jpg", "train/1.jpg"]


def test_second_preparation_reads_no_image_and_a_changed_one_is_looked_at(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    observed = []
    progress = lambda what, done, total: observed.append((done, total))  # noqa: E731
    first = images(tmp_path / "data", on_progress=progress)
    assert observed[0][0] == 0 and observed[-1][0] == observed[-1][1] == first["samples"]
    observed.clear()
    assert images(tmp_path / "data", on_progress=progress) == first
    assert len(observed) == 1

    broken = tmp_path / "data" / "n01" / "one.JPEG"
    broken.write_bytes(b"GIF89a" + broken.read_bytes())
    with pytest.raises(DocumentError, match=r"one\.JPEG is not a JPEG.*47 49 46"):
        images(tmp_path / "data")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    """A sparse file takes no room on the disk, and would fill the memory."""
    data_samples.image_folder(tmp_path / "data")
    with (tmp_path / "data" / "n01" / "one.JPEG").open("r+b") as file:
        file.truncate(10**11)
    with pytest.raises(DocumentError, match=r"one\.JPEG is larger than 268,435,456 bytes"):
        images(tmp_path / "data")


def test_cache_is_private_and_a_corrupt_index_is_refused_by_workers_and_made_again(tmp_path, cache):
    data_samples.image_folder(tmp_path / "data")
    prepared = images(tmp_path / "data")
    index = Path(prepared["index"])
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
    assert hashlib.sha256(index.read_bytes()).hexdigest() == prepared["checksum"]

    content = index.read_bytes()
    index.write_bytes(content.replace(b"[0,", b"[1,", 1))
    with pytest.raises(worker.DataError, match="has changed"):
        worker.read_images(prepared)
    assert images(tmp_path / "data") == prepared and index.read_bytes() == content

    index.unlink()
    with pytest.raises(worker.DataError, match="cannot be read"):
        worker.read_images(prepared)


def test_worker_refuses_an_index_of_another_version_or_length(tmp_path):
    path = tmp_path / "index.jsonl"

    def read(*lines):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return worker.read_images({"path": "/", "index": str(path), "checksum": worker.checksum(str(path))})

    header = {"format": worker.IMAGES, "version": "1.7", "samples": 1, "classes": ["a"]}
    assert read(header, [0, "a/b.jpg"]).paths == ["a/b.jpg"]
    with pytest.raises(worker.DataError, match=r"this worker reads dlperf-images 1\.0"):
        read({**header, "version": "2.0"}, [0, "a/b.jpg"])
    with pytest.raises(worker.DataError, match="lists 0 images, not 1"):
        read(header)
    for lines in ([[]], [3], [header, 0], [header, [1, 2, 3]], [{"format": worker.IMAGES}], ["é"], []):
        with pytest.raises(worker.DataError, match="is malformed"):
            read(*lines)


def test_more_classes_than_the_model_has_are_refused(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    with pytest.raises(
        SpecError, match=r"holds 3 classes, and the model distinguishes 2\. Set num_classes=3"
    ):
        images(tmp_path / "data", num_classes=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\x89PNG\r\n\x1a\n" + bytes(64),
            "is not a JPEG, although its name says so: it begins with 89 50 4e",
        ),
        (b"", "begins with nothing"),
        (data_samples.jpeg(data_samples.gradient(64, 64))[:400], "is incomplete"),
    ],
)
def test_file_that_is_not_a_jpeg_is_named(tmp_path, content, message):
    data_samples.image_folder(tmp_path / "data")
    (tmp_path / "data" / "n02" / "bad.jpg").write_bytes(content)
    with pytest.raises(DocumentError, match=message) as caught:
        images(tmp_path / "data")
    assert "n02/bad.jpg" in str(caught.value)


def test_bytes_after_the_image_are_allowed(tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    content = data_samples.jpeg(data_samples.gradient(9, 9))
    (tmp_path / "data" / "a" / "1.jpg").write_bytes(content + bytes(9000))
    assert images(tmp_path / "data")["samples"] == 1


def test_folder_missing_a_file_or_without_images(tmp_path):
    with pytest.raises(Unavailable, match="does not exist"):
        images(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="is not a folder"):
        images(tmp_path / "file")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "flat.jpg").write_bytes(data_samples.jpeg(data_samples.gradient(8, 8)))
    with pytest.raises(Unavailable, match="one folder per class"):
        images(tmp_path / "data")


def test_links_inside_are_followed_and_links_outside_refused(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    (tmp_path / "data" / "n04").symlink_to("n01")
    assert "n04/one.JPEG" in worker.read_images(images(tmp_path / "data")).paths

    outside = tmp_path / "outside"
    data_samples.image_folder(outside)
    (tmp_path / "data" / "n05").symlink_to(outside / "n01")
    with pytest.raises(DocumentError, match=r"n05 is a link to .*outside/n01, outside the data's folder"):
        images(tmp_path / "data")
    (tmp_path / "data" / "n05").unlink()
    (tmp_path / "data" / "n01" / "away.jpg").symlink_to(outside / "n01" / "one.JPEG")
    with pytest.raises(DocumentError, match=r"away\.jpg is a link"):
        images(tmp_path / "data")


def test_named_pipe_is_not_waited_on(tmp_path):
    data_samples.image_folder(tmp_path / "data")
    os.mkfifo(tmp_path / "data" / "n01" / "pipe.jpg")
    with pytest.raises(DocumentError, match=r"pipe\.jpg is not a regular file"):
        images(tmp_path / "data")


def test_names_with_line_breaks_and_invalid_utf8_are_supported(tmp_path):
    content = data_samples.jpeg(data_samples.gradient(8, 8))
    folder = tmp_path / "data" / "ä\nb"
    folder.mkdir(parents=True)
    for name in (b"1\n[9,.jpg", b"\xff.jpg"):
        (folder / os.fsdecode(name)).write_bytes(content)
    listed = worker.read_images(images(tmp_path / "data"))
    assert len(listed.paths) == 2
    assert all((Path(listed.root) / path).read_bytes() == content for path in listed.paths)


def test_model_without_images_unknown_sources_and_stray_folders(tmp_path):
    bert = BertBase()
    inputs = [entry_to_dict(entry) for entry in bert.inputs(bert.Options())]
    with pytest.raises(SpecError, match="inputs are attention_mask.* Use another model"):
        prepare(DataSpec("images", str(tmp_path)), {}, inputs)
    with pytest.raises(UnknownName, match="Did you mean 'images'"):
        prepare(DataSpec("image", str(tmp_path)), {}, INPUTS)
    with pytest.raises(SpecError, match="takes no folder"):
        prepare(DataSpec("synthetic", str(tmp_path)), {}, INPUTS)
    with pytest.raises(SpecError, match="name the folder as well: images:FOLDER"):
        prepare(DataSpec("images"), {}, INPUTS)
    for source in ("synthetic", "synthetic-host"):
        assert prepare(DataSpec(source), {}, INPUTS) == {"source": source}


def test_cache_that_cannot_be_made(tmp_path, monkeypatch):
    data_samples.image_folder(tmp_path / "data")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match="DLPERF_CACHE_DIR"):
        images(tmp_path / "data")


@given(st.integers(1, 300), st.integers(1, 40))
def test_shares_are_disjoint_complete_and_even(samples, replicas):
    shares = [worker.share(samples, replica, replicas) for replica in range(replicas)]
    everything = [sample for share in shares for sample in share]
    if samples >= replicas:
        assert sorted(everything) == list(range(samples))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    else:
        assert all(len(share) == 1 for share in shares) and set(everything) == set(range(samples))


@given(st.integers(1, 60), st.integers(0, 2**40), st.integers(0, 9))
def test_every_epoch_visits_every_sample_once(count, seed, replica):
    own = range(replica, replica + 3 * count, 3)
    stream, again = worker.endless(own, seed, replica), worker.endless(own, seed, replica)
    for _ in range(3):
        epoch = [next(stream) for _ in range(count)]
        assert sorted(epoch) == list(own)
        assert epoch == [next(again) for _ in range(count)]


def test_order_is_the_same_in_every_python_and_differs_by_epoch_and_replica():
    stream = worker.endless(range(8), 0, 0)
    first, second = [[next(stream) for _ in range(8)] for _ in range(2)]
    # Written down once: another interpreter that gives other numbers would train on other batches.
    assert first == [6, 5, 7, 4, 3, 2, 0, 1]
    assert second != first
    other = worker.endless(range(8), 0, 1)
    assert [next(other) for _ in range(8)] != first


@given(st.integers(1, 20), st.integers(1, 7), st.integers(1, 3), st.integers(0, 99))
def test_batches_are_full_and_draws_are_counted(samples, batch_size, devices, seed):
    requested = SimpleNamespace(
        data={"samples": samples}, batch_size=batch_size, nodes=2, devices_per_node=devices, seed=seed
    )
    for replica in (0, 2 * devices - 1):
        stream = worker.draws(requested, replica)
        drawn = [item for _ in range(3) for item in next(stream)]
        own = worker.share(samples, replica, 2 * devices)
        order = worker.endless(own, seed, replica)
        assert drawn == [(draw, next(order)) for draw in range(3 * batch_size)]
