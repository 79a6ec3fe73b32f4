"""Real input data, prepared on the controller before anything is launched, never inside the window.

`prepare` converts a `DataSpec` to the value of `Request.data`, plain JSON:

- `source`: the spec's source. For a synthetic source that is all.
- `path`: the folder, resolved.
- `index`: the file that a worker reads first, with `dlperf_sdk.worker.data`.
- `checksum`: the index's SHA-256; the index holds the checksums of the files that belong to it. It follows from
  names, labels, text and settings, not from where the folder is.
- `samples`: the number of samples.

Each source adds facts of its own. Prepared data is kept in the user's cache directory, and is made again only when
the data or a setting differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlperf_sdk.data import folder
from dlperf_sdk.data.cache import Progress, ignore_progress
from dlperf_sdk.errors import SpecError, Unavailable
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.request import resolve


def check_exists(data: DataSpec) -> None:
    """Check that the data's folder exists. Data without a folder passes.

    A folder that the data's source does not take is not checked. Callers do this before they store anything. If the
    folder is removed later, the case fails.

    Args:
        data: The data source, and its folder if it has one.

    Raises:
        SpecError: The folder does not exist, or is not a folder.
    """
    # Planning refuses any other source with a folder: it is a mistake, also where missing folders are skipped.
    if data.path is not None and data.source in DATA_SOURCES and DATA_SOURCES[data.source].takes_folder:
        try:
            folder.resolve_folder(data.path, data.source)
        except Unavailable as error:
            raise SpecError(str(error)) from None


def describe(data: DataSpec, model_options: Mapping[str, Any]) -> str | None:
    """Return a phrase about the data's folder, such as `600 images in 2 classes`, without preparing it.

    Args:
        data: The source, and its folder.
        model_options: The model's options by name, with all defaults filled in.

    Returns:
        The phrase; None if the source has no folder, or no description.

    Raises:
        SpecError: The folder's contents do not fit the model.
        Unavailable: The folder does not exist, cannot be read, or contains no data.
        DocumentError: A link leads out of the folder, or a file is not a regular file.
    """
    function = DATA_SOURCES[data.source].description
    return None if function is None else str(resolve(function)(data.path, model_options))


def prepare(
    data: DataSpec,
    model_options: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    *,
    seed: int = 0,
    on_progress: Progress = ignore_progress,
) -> dict[str, Any]:
    """Prepare the data that the workers will read, and return the field `data` of their request.

    Args:
        data: The source, and its folder.
        model_options: The model's options by name, with all defaults filled in: `num_classes` bounds the labels of
            `images`, `vocabulary_size` the vocabulary of `text`.
        inputs: The model's inputs, as in the request: dicts with `name`, `shape` of one sample, and `dtype`.
        seed: The seed of the masking and of the sentence pairs of `text`.
        on_progress: Called with a stage as text, the amount done, and the total amount.

    Returns:
        A dict of JSON values. For a source without a folder, it contains only `source`, the source's name. For others,
        it also contains `path`, the folder; `index`, the path of the file that a worker reads first; `checksum`, the
        index's SHA-256 in hexadecimal; and `samples`, the number of samples. For `images` it also has the number of
        `classes`, and the size of all images in `bytes`; for `text` the numbers of `files`, `documents` and `tokens`,
        `vocabulary_size`, and the origin of the vocabulary in `vocabulary`.

    Raises:
        UnknownName: There is no data source of this name.
        SpecError: The source and the model do not fit, the source needs a folder and none is given, or it needs none
            and one is given.
        Unavailable: The folder does not exist, cannot be read, or contains no data; or there is no cache directory.
        DocumentError: A file in the folder is not what its name says, a link leads out of the folder, or the text is
            a single document.
        UsageError: `text` needs a package that is not installed.
        OSError: The prepared data cannot be written.
    """
    source = DATA_SOURCES[data.source]
    source.check_folder(data.path)
    if source.preparation is None:
        return {"source": source.name}
    names = [entry["name"] for entry in inputs]
    if not source.feeds(names, model_options):
        raise SpecError(
            f"data={source.name} gives each sample {', '.join(sorted(source.inputs or ()))}, and this model's inputs "
            f"are {', '.join(sorted(names))}. Use another model, or another data source."
        )
    prepared = resolve(source.preparation)(data.path, model_options, inputs, seed, on_progress)
    return {"source": source.name, **prepared}
