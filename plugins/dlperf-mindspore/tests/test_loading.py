"""Batches of `images` and `text` from the plugin's threads."""

import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("mindspore", reason="the worker half needs MindSpore, which is not in this environment")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
loading_cases = pytest.importorskip("loading_cases", reason="sample images need Pillow")

from dlperf_sdk.worker.data import DataError  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def read(batch):
    return {name: value.asnumpy() for name, value in batch.items()}


@pytest.mark.parametrize("source", ["images", "text"])
def test_batches_are_the_datasets_in_the_order_of_the_seed(tmp_path, make_trainer, source):
    if source == "text":
        pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    for loaders in (1, 2):
        trainer, batches = loading_cases.open_batches(
            make_trainer, tmp_path / "data", source, loaders, seed=loaders
        )
        loading_cases.check_order(trainer, batches, source, read)


def test_a_broken_image_is_named(tmp_path, make_trainer):
    trainer, _ = loading_cases.open_batches(make_trainer, tmp_path / "data")
    loading_cases.break_images(tmp_path / "data")
    with pytest.raises(DataError, match="cannot be decoded"):
        next(trainer.batches())


def test_threads_end_with_their_loader(tmp_path, make_trainer):
    before = set(threading.enumerate())
    trainer, batches = loading_cases.open_batches(make_trainer, tmp_path / "data")
    next(batches)
    loaders = set(threading.enumerate()) - before
    assert loaders
    trainer.loaders[0]._batches.close()
    for thread in loaders:
        thread.join(60)
        assert not thread.is_alive()
