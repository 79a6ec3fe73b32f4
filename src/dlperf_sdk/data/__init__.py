"""Real input, prepared on the controller before anything is launched: never inside the window.

`prepare` turns a `DataSpec` into the value of `Request.data`, plain JSON:

- `source`: the spec's source. For a synthetic one that is all.
- `path`: the folder, resolved.
- `index`: the file that a worker reads first, with `dlperf_sdk.worker.data`.
- `checksum`: the index's SHA-256; the index holds those of whatever belongs to it. It follows from names,
  labels, text and settings, not from where the folder lies.
- `samples`: how many there are.

Beside these stands what is worth telling of each source. What preparation makes lies in the user's cache
directory, and is made again only when the data or a setting differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlperf_sdk.data.cache import Progress, silent
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.spec.values import DataSpec

SOURCES = ("images", "synthetic", "synthetic-host", "text")
"""What `prepare` knows. Which of them feed a model, the model says (`Model.data`)."""


def prepare(
    data: DataSpec,
    model_options: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    *,
    seed: int = 0,
    on_progress: Progress = silent,
) -> dict[str, Any]:
    """Make what the workers will read, and say where it is.

    Args:
        data: The source, and its folder.
        model_options: The model's options, resolved: `num_classes` bounds the labels of `images`,
            `vocabulary_size` the vocabulary of `text`.
        inputs: The model's inputs, as in the request: `name`, `shape` of one sample, `dtype`.
        seed: The seed of the masking and of the sentence pairs of `text`.
        on_progress: Called with what is being done, how much of it is done, and how much there is.

    Raises:
        UnknownName: there is no such source.
        SpecError: the source and the model do not fit, or a folder is given where none belongs.
        Unavailable: the folder is not there, cannot be read, or holds nothing of use.
        DocumentError: a file in the folder is not what its name says.
        UsageError: `text` needs a package that is not installed.
    """
    if data.source not in SOURCES:
        raise UnknownName("data source", data.source, SOURCES)
    if data.source.startswith("synthetic"):
        if data.path is not None:
            raise SpecError(f"data is {str(data)!r}; {data.source} samples are made up, and take no folder.")
        return {"source": data.source}
    if data.path is None:
        raise SpecError(f"data is {data.source!r}; name the folder: {data.source}:FOLDER.")
    if data.source == "images":
        from dlperf_sdk.data.images import prepare_images

        return prepare_images(data.path, model_options, inputs, on_progress)
    from dlperf_sdk.data.text import prepare_text

    return prepare_text(data.path, model_options, inputs, seed, on_progress)
