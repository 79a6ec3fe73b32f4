"""Batches of `images` and `text` through paddle.io, in real loader processes."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("paddle", reason="the worker half needs Paddle, which is not in this environment")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
loading_cases = pytest.importorskip("loading_cases", reason="sample images need Pillow")

from dlperf_sdk.worker.data import DataError  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))


def read(batch):
    return {name: value.numpy() for name, value in batch.items()}


@pytest.mark.parametrize(("source", "layout"), [("images", "nchw"), ("images", "nhwc"), ("text", "auto")])
def test_batches_are_the_datasets_in_the_order_of_the_seed(tmp_path, make_trainer, source, layout):
    if source == "text":
        pytest.importorskip("tokenizers", reason="text cannot be prepared without the package tokenizers")
    for loaders in (1, 2):
        trainer, batches = loading_cases.open_batches(
            make_trainer, tmp_path / "data", source, loaders, layout=layout, seed=loaders
        )
        loading_cases.check_order(trainer, batches, source, read)


def test_a_broken_image_is_named(tmp_path, make_trainer):
    trainer, _ = loading_cases.open_batches(make_trainer, tmp_path / "data")
    loading_cases.break_images(tmp_path / "data")
    with pytest.raises(DataError, match="cannot be decoded"):
        next(trainer.batches())
