"""The base of trainers, with NumPy for a framework: data sources, weights, micro-batches, schedule, evidence."""

import itertools
import types
from time import monotonic, sleep

import numpy as np
import pytest

from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.worker import canonical, data
from dlperf_sdk.worker.base_trainer import BaseTrainer, ManifestError
from dlperf_sdk.worker.loading import Loader
from dlperf_sdk.worker.precision import Precision, name_precision
from dlperf_sdk.worker.python_dataset import GeneratorFeed
from dlperf_sdk.worker.python_queue import QueueFeed
from dlperf_sdk.worker.sources import SOURCES, Source, replace_sources
from dlperf_sdk.worker.unsupported import Unsupported

MANIFEST = [
    {"name": "weight", "shape": [2, 3], "init": {"kind": "normal", "std": 1.0}, "decay": True},
    {"name": "bias", "shape": [2], "init": {"kind": "constant", "value": 0.5}, "decay": False},
]
INPUTS = [
    {"name": "x", "shape": [3], "dtype": "float32", "fill": {"kind": "normal"}},
    {"name": "image", "shape": [3, 2, 4], "dtype": "float32", "fill": {"kind": "normal"}},
]
PRECISIONS = {
    "fp32": Precision("float32", "float32"),
    "tf32": Precision("float32", "float32", tf32=True),
    "amp-fp16": Precision("float32", "float16"),
    "fp16": Precision("float16", "float16"),
}


class InTurn(Loader):
    """Loads each batch when it is asked for."""

    def open(self, dataset, draws, request):
        return (dataset[keys] for keys in draws)


class Samples:
    """Batches that are the numbers of their samples."""

    def __init__(self, request, replica, layout):
        self.facts = {"reader": "a test"}

    def __getitem__(self, keys):
        samples = [sample for _, sample in keys]
        return data.DataError("sample 3 is broken") if 3 in samples else {"x": samples}


class Linear(BaseTrainer):
    """Gradients and losses are written down, and nothing is learned."""

    precisions, loader = PRECISIONS, InTurn
    layouts = ("nchw", "nhwc")
    sources = {**SOURCES, "numbers": Source(lambda trainer: trainer.load(Samples), None)}

    def __init__(self, request, replicas=(0,), parameters=("weight", "bias")):
        super().__init__(None, request, types.SimpleNamespace(replicas=replicas))
        self.values, self.calls = {}, []
        self.load_canonical_weights(dict.fromkeys(parameters))

    def assign(self, name, parameter, values):
        self.values[name] = values

    def read_parameter(self, name, replica):
        return self.values[name]

    def place(self, batches):
        return batches

    def slice_batch(self, batch, start, stop):
        return [super(Linear, self).slice_batch(own, start, stop) for own in batch]

    def set_learning_rate(self, rate):
        self.calls.append(("rate", rate))

    def clear_gradients(self):
        self.calls.append("clear")

    def backward(self, piece, parts, is_last):
        self.calls.append(("backward", len(piece[0]["x"]), parts, is_last))
        return 1.0 / parts

    def update(self):
        self.calls.append("update")

    def outputs_and_references(self):
        self.product_types = ["float16" if self.dropout == 0.0 else "float32"]
        return [np.array([3.0]), np.array([0.0])], [np.array([0.0]), np.array([4.0])]

    def widen(self, value):
        return value

    def observe_settings(self):
        return {"precision": self.name_precision(["float32"], tf32=False), "layout": None}


def request(**changes):
    fields = {
        "framework": "toy",
        "model": "linear",
        "program": "measure",
        "nodes": 1,
        "devices_per_node": 2,
        "batch_size": 4,
        "accumulation": 1,
        "precision": "fp32",
        "scales_loss": False,
        "loss_scale": 1.0,
        "compiler": "none",
        "layout": "auto",
        "seed": 0,
        "parameters": MANIFEST,
        "inputs": INPUTS,
        "data": {"source": "synthetic", "samples": 12},
        "optimizer": {"policy": "warmup", "warmup_learning_rate": 1.0, "warmup_steps": 4},
        "model_options": {"dropout": 0.1},
        "framework_options": {"loader_workers": 3},
    }
    return types.SimpleNamespace(**{**fields, **changes})


def test_an_unknown_data_source_is_refused():
    trainer = Linear(request(data={"source": "texts"}))
    with pytest.raises(
        Unsupported,
        match=r"no data source 'texts' \(did you mean 'text'\?\); choose one of .* text, zmq, zmq-tcp$",
    ):
        trainer.batches()


def test_workers_know_declared_data_sources_only():
    assert set(SOURCES) <= DATA_SOURCES.names


def test_labels_of_a_source_read_by_the_plugin_are_unchanged():
    sources = replace_sources(images=list)
    assert sources["images"] == Source(list, SOURCES["images"].due_labels)
    assert {name: sources[name] for name in sources if name != "images"} == {
        name: SOURCES[name] for name in SOURCES if name != "images"
    }
    with pytest.raises(Unsupported, match="'imags' .did you mean 'images'"):
        replace_sources(imags=list)


def test_an_unknown_precision_is_refused():
    with pytest.raises(
        Unsupported,
        match=r"no precision 'fp8' \(did you mean 'fp\d\d'\?\); choose one of amp-fp16, fp16, fp32, tf32$",
    ):
        Linear(request(precision="fp8"))


@pytest.mark.parametrize("kind, name, nearest", [("compiler", "nine", "none"), ("layout", "nhcw", "nhwc")])
def test_an_unknown_compiler_or_layout_is_refused(kind, name, nearest):
    with pytest.raises(
        Unsupported, match=rf"no {kind} '{name}' \(did you mean '{nearest}'\?\); choose one of "
    ):
        Linear(request(**{kind: name}))


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_shards_in_the_networks_layout(source):
    trainer = Linear(request(layout="nhwc", data={"source": source}), replicas=(2, 5))
    expected = [canonical.batch(INPUTS, 4, shard, 0) for shard in (2, 5)]
    for batch in itertools.islice(trainer.batches(), 2):
        for actual, wanted in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(actual["x"], wanted["x"])
            np.testing.assert_array_equal(actual["image"], wanted["image"].transpose(0, 2, 3, 1))
            assert actual["image"].flags.c_contiguous
    assert trainer.prefetched_batches() == 0 and "data" not in trainer.observed()


@pytest.fixture
def queued():
    """A trainer of two replicas whose batches come from threads, which end with the test."""
    trainer = Linear(request(layout="nhwc", data={"source": "python-queue"}), replicas=(2, 5))
    batches = trainer.batches()
    yield trainer, batches
    for feed in trainer.loaders:
        feed.close()
        feed.thread.join(60)
        assert not feed.thread.is_alive()


def test_a_thread_per_replica_queues_copies_of_the_canonical_shards(queued):
    trainer, batches = queued
    expected = [canonical.batch(INPUTS, 4, shard, 0) for shard in (2, 5)]
    taken = list(itertools.islice(batches, 4))
    for batch in taken:
        for actual, wanted in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(actual["x"], wanted["x"])
            np.testing.assert_array_equal(actual["image"], wanted["image"].transpose(0, 2, 3, 1))
    taken[0][0]["x"][:] = -1
    np.testing.assert_array_equal(taken[3][0]["x"], expected[0]["x"])
    np.testing.assert_array_equal(trainer.host_batches()[0]["x"], expected[0]["x"])
    assert len({feed.thread.ident for feed in trainer.loaders}) == 2
    assert trainer.prefetched_batches() == 3
    facts = {"source": "python-queue", "samples_per_replica": 4, "queue_size": 2}
    assert trainer.observed()["data"] == facts


def test_the_counts_of_queued_batches_are_those_of_all_threads(queued):
    trainer, batches = queued
    assert Linear(request()).input_counts() is None
    for _ in range(5):
        next(batches)
    # Each thread puts the fifth batch, and those that fill the queue, before it counts no more.
    deadline = monotonic() + 60
    while (counts := trainer.input_counts()).batches < 2 * 7 and monotonic() < deadline:
        sleep(0.001)
    assert counts.batches == 2 * 7 and counts.seconds > 0
    assert 2 * 2 <= counts.depth <= 2 * counts.batches
    next(batches)
    assert counts.changes_since(counts) == {"batches": 0, "seconds": 0.0, "depth": 0}


def test_a_batch_that_cannot_be_copied_raises_its_error_in_the_training_loop():
    feed = QueueFeed({"x": np.ones(3), "y": object()}, request(data={"source": "python-queue"}))
    with pytest.raises(AttributeError, match="copy"):
        next(feed)
    feed.thread.join(60)
    assert not feed.thread.is_alive()


class InProcess(GeneratorFeed):
    """Yields the generator's batches one after another."""

    def open(self, generate, request):
        return generate()


def test_a_generator_per_replica_feeds_the_frameworks_dataset_with_copies(monkeypatch):
    monkeypatch.setattr(Linear, "generator_feed", InProcess)
    trainer = Linear(request(layout="nhwc", data={"source": "python-dataset"}), replicas=(2, 5))
    expected = [canonical.batch(INPUTS, 4, shard, 0) for shard in (2, 5)]
    first, second = itertools.islice(trainer.batches(), 2)
    first[0]["x"][:] = -1
    for actual, wanted in zip(second, expected, strict=True):
        np.testing.assert_array_equal(actual["x"], wanted["x"])
        np.testing.assert_array_equal(actual["image"], wanted["image"].transpose(0, 2, 3, 1))
    assert trainer.prefetched_batches() == 2 and trainer.input_counts() is None
    assert trainer.observed()["data"] == {
        "source": "python-dataset",
        "samples_per_replica": 4,
        "loader_workers": 1,
        "prefetched_batches": 2,
    }
    trainer.loaders[0].close()
    with pytest.raises(StopIteration):
        next(trainer.loaders[0])


def test_a_plugin_without_such_a_dataset_refuses_the_source():
    with pytest.raises(Unsupported, match="the plugin toy has no dataset over a Python generator"):
        Linear(request(data={"source": "python-dataset"})).batches()


def test_every_replica_has_a_loader_and_the_facts_are_of_the_fewest_samples():
    requested = request(data={"source": "numbers", "samples": 3}, batch_size=1)
    trainer = Linear(requested, replicas=(0, 1))
    first, second = next(trainer.batches())
    assert first["x"][0] in (0, 2) and second["x"] == [1]
    assert trainer.prefetched_batches() == 6
    observed = trainer.observed()["data"]
    assert (observed["samples_per_replica"], observed["reader"], observed["loader_workers"]) == (
        1,
        "a test",
        3,
    )


def test_a_batch_that_cannot_be_loaded_raises_its_error():
    batches = Linear(request(data={"source": "numbers", "samples": 4}, devices_per_node=1)).batches()
    with pytest.raises(data.DataError, match="sample 3 is broken"):
        next(batches)


def test_weights_are_the_canonical_ones():
    trainer = Linear(request())
    wanted = list(canonical.weights(MANIFEST, 0))
    for (name, values), (found_name, actual) in zip(wanted, trainer.parameters(0), strict=True):
        assert found_name == name
        np.testing.assert_array_equal(actual, values)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (("weight",), "linear: the network lacks the manifest's parameters bias"),
        (("weight", "bias", "scale"), "linear: the manifest lacks the network's parameters scale"),
    ],
)
def test_parameters_that_are_not_the_manifests_are_refused(parameters, problem):
    with pytest.raises(ManifestError, match=problem):
        Linear(request(), parameters=parameters)


def test_a_step_accumulates_micro_batches_and_follows_the_schedule():
    trainer = Linear(request(accumulation=2), replicas=(0, 1))
    batch = trainer.canonical_batch()
    assert trainer.step(batch) == (1.0, 8, None)
    assert trainer.calls == [
        ("rate", 0.25),
        "clear",
        ("backward", 2, 2, False),
        ("backward", 2, 2, True),
        "update",
    ]
    trainer.step(batch)
    assert ("rate", 0.5) in trainer.calls and trainer.steps == 2


def test_micro_batches_are_the_batch_in_order():
    trainer = Linear(request(accumulation=4))
    batch = trainer.canonical_batch()
    parts = [piece[0]["x"] for piece in trainer.micro_batches(batch)]
    np.testing.assert_array_equal(np.concatenate(parts), batch[0]["x"])


def test_the_deviation_is_over_all_outputs_without_dropout():
    trainer = Linear(request())
    assert trainer.observed() == {"accumulation": 1}
    assert trainer.deviation() == pytest.approx(5 / 4)
    assert trainer.dropout == 0.1
    assert trainer.observed() == {"precision": "amp-fp16", "accumulation": 1}


def test_precisions_are_named_by_their_types():
    def name(products, tf32=False, weights=("float32",)):
        return name_precision(PRECISIONS, weights, products, tf32)

    assert name(["float32"]) == "fp32"
    assert name(["float32"], tf32=True) == "tf32"
    assert name(["float16", "float32", "float16"]) == "amp-fp16+fp32"
    assert name(["float64"]) == "float64"
    assert name(["float16"], weights=["float16"]) == "fp16"
    assert name(["float16"], weights=["float16", "float32"]) == "amp-fp16+fp16"
    assert name(["float32"], weights=["float16"]) == "float32"
