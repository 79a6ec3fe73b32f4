"""Batches are accounted for: labels that steps were given, against those of the request's draws."""

from __future__ import annotations

import hashlib
import itertools
import json
import types

import numpy as np
import pytest

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker import canonical, data
from dlperf_sdk.worker.batch_accounting import account

STEPS, SKIPPED, REPLICAS = 6, 3, (0, 1)
PLAN = make_plan(
    RunSpec(framework="numpy", model="linear", topology="1n2d", batch_size=4, repeats=1), Registry()
)
LABEL = {
    "name": "label",
    "shape": [],
    "dtype": "int64",
    "fill": {"kind": "integers", "low": 0, "high": 9},
    "is_label": True,
}


def written(path, lines):
    content = "\n".join(json.dumps(line) for line in lines).encode()
    path.write_bytes(content)
    return {"index": str(path), "checksum": hashlib.sha256(content).hexdigest()}


def images(folder, samples=40):
    """Sample i has the label i."""
    head = {"format": data.IMAGES, "version": data.INDEX_VERSION, "samples": samples}
    index = written(folder / "index", [head, *([i, f"{i}.jpg"] for i in range(samples))])
    return {"source": "images", "path": str(folder), "samples": samples, **index}


def text(folder, samples=40):
    """Sample i has the labels i and -i."""
    rows = np.array([(i, -i) for i in range(samples)], "<i4")
    rows.tofile(folder / "label.bin")
    digest = hashlib.sha256((folder / "label.bin").read_bytes()).hexdigest()
    array = {"name": "label", "file": "label.bin", "dtype": "<i4", "shape": rows.shape, "sha256": digest}
    head = {"format": data.TEXT, "version": data.INDEX_VERSION, "arrays": [array]}
    return {"source": "text", "samples": samples, **written(folder / "index", [head])}


def request_of(source):
    return PLAN.request("toy", ("python",), {}, source)._replace(inputs=[LABEL])


def draws(request, skipped=SKIPPED):
    """The samples of each step's batches in the window, one batch per replica."""
    drawn = zip(*(data.draws(request, replica) for replica in REPLICAS), strict=True)
    window = itertools.islice(drawn, skipped, skipped + STEPS)
    return [[np.array([sample for _, sample in keys]) for keys in step] for step in window]


def account_of(request, handles):
    process = types.SimpleNamespace(replicas=REPLICAS)
    trainer = types.SimpleNamespace(request=request, process=process, read_labels=lambda labels: labels)
    return account(trainer, handles, SKIPPED)


def of_images(request):
    return draws(request)


def of_text(request):
    return [[np.stack([samples, -samples], 1) for samples in step] for step in draws(request)]


@pytest.mark.parametrize(("source", "given"), [(images, of_images), (text, of_text)])
def test_drawn_batches_are_expected_and_counted(source, given, tmp_path):
    request = request_of(source(tmp_path))
    actual = account_of(request, given(request))
    assert actual.compared == STEPS
    assert actual.samples == STEPS * len(REPLICAS) * 4
    assert actual.unexpected == [[], []]


@pytest.mark.parametrize(("source", "given"), [(images, of_images), (text, of_text)])
def test_a_batch_that_is_repeated_is_unexpected(source, given, tmp_path):
    request = request_of(source(tmp_path))
    first = given(request)[0]
    assert account_of(request, [first] * STEPS).unexpected == [[1, 2, 3, 4, 5]] * 2


def test_a_pipeline_that_starts_over_is_unexpected(tmp_path):
    request = request_of(images(tmp_path))
    assert account_of(request, draws(request, skipped=0)).unexpected == [[*range(STEPS)]] * 2


def test_one_replica_with_the_shard_of_another_is_unexpected(tmp_path):
    request = request_of(images(tmp_path))
    handles = [[step[0], step[0]] for step in draws(request)]
    assert account_of(request, handles).unexpected == [[], [*range(STEPS)]]


def test_smaller_batch_is_unexpected_and_counted_by_its_size(tmp_path):
    request = request_of(images(tmp_path))
    actual = account_of(request, [[labels[:3] for labels in step] for step in draws(request)])
    assert actual.samples == STEPS * len(REPLICAS) * 3
    assert actual.unexpected == [[*range(STEPS)]] * 2


def test_synthetic_batches_are_the_canonical_ones():
    request = request_of({"source": "synthetic"})
    batches = [canonical.batch_of(request, replica)["label"] for replica in REPLICAS]
    assert account_of(request, [batches] * STEPS).unexpected == [[], []]
    assert account_of(request, [batches[::-1]] * STEPS).unexpected == [[*range(STEPS)]] * 2


def test_nothing_is_compared_without_labels_or_with_an_unknown_source():
    request = request_of({"source": "synthetic"})
    assert account_of(request, [None] * STEPS).compared == 0
    assert account_of(request._replace(inputs=[]), [[1]]).compared == 0
    assert account_of(request._replace(data={"source": "a-queue"}), [[1]]).compared == 0
