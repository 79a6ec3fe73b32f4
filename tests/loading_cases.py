"""Cases for the tests of frameworks' loaders: real JPEGs and text, and what the datasets give of them."""

import itertools

import attrs
import data_samples
import numpy as np

from dlperf_sdk.data import prepare
from dlperf_sdk.harness.in_process import MODELS, SMALL
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.jpeg import JpegImages
from dlperf_sdk.worker.loading import Draws, TokenArrays

SOURCES = {
    "images": ("resnet50", data_samples.image_folder, JpegImages),
    "text": ("bert-base", data_samples.text_folder, TokenArrays),
}
"""Data source → a model that reads it, what makes a folder, and the dataset."""


def open_batches(make_trainer, folder, source="images", loaders=2, **changes):
    """Return a trainer of a small model, and its batches from a folder, which is made if it is not there."""
    model, make_folder, _ = SOURCES[source]
    if not folder.exists():
        make_folder(folder)
    options = attrs.asdict(MODELS[model].Options(**SMALL[model]))
    inputs = [entry_to_dict(entry) for entry in MODELS[model].inputs(MODELS[model].Options(**SMALL[model]))]
    data = prepare(DataSpec(source, str(folder)), options, inputs)
    trainer = make_trainer(model, data=data, framework_options={"loader_workers": loaders}, **changes)
    return trainer, trainer.batches()


def check_order(trainer, batches, source, read, dataset=None):
    """Assert that the batches are the dataset's, in the order of the seed.

    `read` makes NumPy arrays of the one replica's batch, in the axes of the network's layout.
    """
    created = (dataset or SOURCES[source][2])(trainer.request, 0, trainer.layout)
    for keys in itertools.islice(Draws(trainer.request, 0), 4):
        actual, expected = read(next(batches)), created.batch(keys)
        assert list(actual) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(actual[name], values)
            assert str(actual[name].dtype) == str(values.dtype)
    facts = trainer.observed()["data"]
    assert facts["source"] == source and facts["samples"] == trainer.request.data["samples"]
    assert facts["loader_workers"] == trainer.request.framework_options["loader_workers"]
    assert facts["prefetched_batches"] == trainer.prefetched_batches() > 0


def break_images(folder):
    """Cut off every image of a folder that was prepared: what is opened from here on breaks with its first batch."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\xd8 no more of it")
