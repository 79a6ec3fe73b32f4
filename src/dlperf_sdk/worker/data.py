"""Read prepared data: the index, its checksums, and the samples that belong to a replica.

The controller wrote the index (`dlperf_sdk.data`), and put its SHA-256 into `request.data`; a worker rejects an
index that differs. The framework's plugin decodes the samples: this module needs only the standard library.
"""

import hashlib
import json
import os
import random
from array import array
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from dlperf_sdk.worker.request import Request

INDEX_VERSION = "1.0"
IMAGES = "dlperf-images"
TEXT = "dlperf-text"


class DataError(Exception):
    """The prepared data is missing or differs from what the controller prepared, or an image cannot be decoded."""


class Images(NamedTuple):
    """A folder of JPEGs: sample i is `paths[i]`, below `root`, with label `labels[i]`."""

    root: str
    paths: List[str]
    labels: List[int]


class Array(NamedTuple):
    """One input of every sample in one file: `numpy.memmap(path, dtype, "r", shape=shape)`."""

    path: str
    dtype: str
    """As NumPy writes it: `<i4` or `<f4`."""
    shape: Tuple[int, ...]
    """(samples, …)."""


def checksum(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError if the file cannot be read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _data_error(path: str, problem: str) -> DataError:
    return DataError(
        "The prepared data %s %s. The controller prepares data on its own machine, before the run: "
        "run again, and on several nodes let all of them see this file and the data's folder under the same "
        "paths." % (path, problem)
    )


def undecodable(path: str, error: Exception) -> DataError:
    """Return the error for an image that cannot be decoded.

    Args:
        path: Path of the image, for the message.
        error: The decoder's exception. The message has the last line of its text, or its type if it has no text.
    """
    reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return DataError("The image %s cannot be decoded: %s. Replace or remove it." % (path, reason))


def _check(path: str, expected: str) -> None:
    try:
        actual = checksum(path)
    except OSError as error:
        raise _data_error(path, "cannot be read (%s)" % error.strerror) from error
    if actual != expected:
        raise _data_error(path, "has changed: its SHA-256 is %s, and was %s" % (actual, expected))


@contextmanager
def _parsing(path: str) -> Iterator[None]:
    """Turn what a malformed index raises into DataError."""
    try:
        yield
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _data_error(path, "is malformed (%s: %s)" % (type(error).__name__, error)) from error


def _header(line: str, path: str, kind: str) -> Dict[str, Any]:
    header: Dict[str, Any] = json.loads(line)
    major = str(header["version"]).partition(".")[0]
    if header["format"] != kind or major != INDEX_VERSION.partition(".")[0]:
        identity = (header["format"], header["version"], kind, INDEX_VERSION)
        raise _data_error(path, "is %s %s, and this worker reads %s %s" % identity)
    return header


def read_images(data: Dict[str, Any]) -> Images:
    """Return the paths and labels in the image index of the data source `images:FOLDER`, in the index's order.

    The index is checked against its checksum. The images are not read.

    Args:
        data: `Request.data`, whose `index`, `checksum` and `path` are used.

    Raises:
        DataError: The index is missing, altered, malformed, or of another version.
    """
    path = data["index"]
    _check(path, data["checksum"])
    images = Images(data["path"], [], [])
    with _parsing(path), open(path, encoding="ascii") as file:
        header = _header(file.readline(), path, IMAGES)
        for line in file:
            label, relative = json.loads(line)
            images.paths.append(relative)
            images.labels.append(label)
    if len(images.paths) != header.get("samples"):
        raise _data_error(path, "lists %d images, not %s" % (len(images.paths), header.get("samples")))
    return images


def read_arrays(data: Dict[str, Any]) -> Dict[str, Array]:
    """Return path, dtype and shape of each array of the data source `text:FOLDER`, by the name of the model's input.

    The index and each array's file are read in full and checked against their checksums.

    Args:
        data: `Request.data`, whose `index` and `checksum` are used.

    Raises:
        DataError: The index or an array is missing, altered, malformed, or of another version.
    """
    path = data["index"]
    _check(path, data["checksum"])
    arrays = {}
    with _parsing(path), open(path, encoding="ascii") as file:
        for entry in _header(file.read(), path, TEXT)["arrays"]:
            file_path = os.path.join(os.path.dirname(path), os.path.basename(entry["file"]))
            _check(file_path, entry["sha256"])
            arrays[entry["name"]] = Array(file_path, entry["dtype"], tuple(entry["shape"]))
    return arrays


def share(samples: int, replica: int, replicas: int) -> range:
    """Return the indexes of the samples that belong to one replica: every `replicas`-th, from `replica` on.

    No sample belongs to two replicas, unless there are fewer samples than replicas. In that case replica r has one
    sample, r mod `samples`.

    Args:
        samples: Number of samples, at least 1.
        replica: The replica's global index.
        replicas: Number of replicas on all nodes.
    """
    if samples < replicas:
        return range(replica % samples, replica % samples + 1)
    return range(replica, samples, replicas)


def endless(samples: range, seed: int, replica: int) -> Iterator[int]:
    """Yield the indexes of a replica's samples, epoch after epoch, each epoch in a new random order, without end.

    Only the seed and the replica determine the order, on every version of Python. Each draw shuffles one element, so
    that a new epoch of a million samples causes no pause in the measured window (R. Durstenfeld, Algorithm 235:
    Random permutation, CACM 7, 1964).

    Args:
        samples: The indexes of the replica's samples, as `share` returns them; not empty.
        seed: The request's seed.
        replica: The replica's global index.
    """
    generator = random.Random("order/%d/%d" % (seed, replica))  # noqa: S311 (no secret)
    order = array("q", samples)
    while True:
        for i in range(len(order)):
            j = i + int(generator.random() * (len(order) - i))
            order[i], order[j] = order[j], order[i]
            yield order[i]


def draws(request: Request, replica: int) -> Iterator[List[Tuple[int, int]]]:
    """Yield one list per batch of a replica, without end: a pair (draw, sample) for each sample of the batch.

    `sample` is the sample's index. `draw` counts all samples that this replica has taken so far, from 0. Augmentation
    is seeded by `draw`: it differs between two visits of a sample, and is the same in every run. If the replica has
    fewer samples than a batch, samples occur several times in a batch, which `facts` reports.

    Args:
        request: The case; its number of samples (`data["samples"]`), seed, batch size, nodes and devices are used.
        replica: The replica's global index.
    """
    shard = share(request.data["samples"], replica, request.nodes * request.devices_per_node)
    drawn = enumerate(endless(shard, request.seed, replica))
    while True:
        yield [next(drawn) for _ in range(request.batch_size)]


def facts(request: Request, replica: int) -> Dict[str, Any]:
    """Return facts about the data of one replica, as JSON values, for the record.

    Args:
        request: The case; its data source, number of samples, batch size, nodes and devices are used.
        replica: The replica's global index.

    Returns:
        A dict: `source`, the data source; `samples`, the number of samples in the data set; `samples_per_replica`, the
        number that belong to this replica; `repeats_within_a_batch`, true if this replica has fewer samples than a
        batch; `shared_between_replicas`, true if there are fewer samples than replicas.
    """
    replicas = request.nodes * request.devices_per_node
    size = len(share(request.data["samples"], replica, replicas))
    return {
        "source": request.data["source"],
        "samples": request.data["samples"],
        "samples_per_replica": size,
        "repeats_within_a_batch": size < request.batch_size,
        "shared_between_replicas": request.data["samples"] < replicas,
    }
