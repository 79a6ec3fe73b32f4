"""Prepare `images:FOLDER`: JPEGs in ImageNet's layout, one folder per class, listed in an index.

The index is JSON Lines in ASCII. The first line is a header: `format`, `version`, `samples`, `classes` (the names; a
label is an index into this list). Each line after it is `[label, path]`, the path relative to the images' folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf_sdk import private_files
from dlperf_sdk.data import cache, folder
from dlperf_sdk.errors import DocumentError, SpecError, Unavailable
from dlperf_sdk.worker.data import IMAGES, INDEX_VERSION

_SUFFIXES = (".jpeg", ".jpg")
_START = b"\xff\xd8\xff"
"""Start of image, and the first byte of the marker that follows: ITU-T T.81, annex B."""
_END = b"\xff\xd9"
_LARGEST = 256 * 1024 * 1024
"""Maximum size of an image file in bytes: one without its end is read as a whole."""

Classes = dict[str, list[folder.File]]


def _classes(root: Path, parent: Path) -> Classes:
    """Return the folders that contain JPEGs, and their files, both sorted by name."""
    by_class = {
        name: folder.files(root, parent / name, _SUFFIXES) for name in folder.subfolders(root, parent)
    }
    return {name: images for name, images in by_class.items() if images}


def scan(root: Path) -> tuple[Path, Classes]:
    """Find the classes of an image folder.

    Args:
        root: Absolute path of the data's folder, without links.

    Returns:
        A pair: the folder that contains a subfolder per class, which is `root` or its subfolder `train`; and a dict of
        class name → list of its JPEG files. Classes and files are sorted by name. A folder without a JPEG is not a
        class.

    Raises:
        Unavailable: There is no image, or a folder cannot be read.
        DocumentError: A link leads out of the root, or an image is not a regular file.
    """
    parent = root
    if "train" in folder.subfolders(root, root) and (classes := _classes(root, root / "train")):
        parent = root / "train"
    else:
        classes = _classes(root, root)
    if not classes:
        raise Unavailable(
            f"There are no images in {root}. They must be JPEG files (.jpg, .jpeg, .JPEG), one folder per "
            "class, in FOLDER/CLASS/ or FOLDER/train/CLASS/."
        )
    return parent, classes


def _list_classes(path: str, model_options: Mapping[str, Any]) -> tuple[Path, Classes]:
    """Return what `scan` returns for the folder that a user named, if the model has enough classes.

    Args:
        path: The folder.
        model_options: The model's options; `num_classes` is the largest number of classes.

    Raises:
        SpecError: The folder has more classes than the model.
        Unavailable: The folder does not exist, cannot be read, or contains no images.
        DocumentError: A link leads out of the folder, or an image is not a regular file.
    """
    limit = int(model_options["num_classes"])
    parent, classes = scan(folder.resolve_folder(path, "images"))
    if len(classes) > limit:
        raise SpecError(
            f"{parent} holds {len(classes)} classes, and the model distinguishes {limit}. Set "
            f"num_classes={len(classes)}, or name a folder with fewer."
        )
    return parent, classes


def describe_images(path: str, model_options: Mapping[str, Any]) -> str:
    """Return the numbers of images and classes as a phrase: `600 images in 2 classes`. No image is opened.

    Args:
        path: Path of the folder, in which `~` is expanded. It has a subfolder of JPEGs for each class, or a subfolder
            `train` that contains these.
        model_options: The model's options by name; `num_classes` is the largest number of classes.

    Raises:
        SpecError: The folder has more classes than the model.
        Unavailable: The folder does not exist, cannot be read, or contains no images.
        DocumentError: A link leads out of the folder, or an image is not a regular file.
    """
    _, classes = _list_classes(path, model_options)
    images = sum(map(len, classes.values()))
    return f"{images:,} image{'s' * (images != 1)} in {len(classes):,} class{'es' * (len(classes) != 1)}"


def _check_jpeg(path: Path) -> None:
    """Check that a file begins as a JPEG and contains the marker of a JPEG's end. It is not decoded.

    Raises:
        Unavailable: It cannot be read.
        DocumentError: It is not a JPEG, is truncated, or is larger than 256 MiB.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_START))
            size = file.seek(0, os.SEEK_END)
            if size > _LARGEST:
                raise DocumentError(f"The image {path} is larger than {_LARGEST:,} bytes. Remove it.")
            file.seek(max(0, size - len(_END)))
            complete = file.read() == _END
            if not complete:
                # Cameras and old tools append data after the end of the image.
                file.seek(0)
                complete = _END in file.read()
    except OSError as error:
        raise Unavailable(
            f"The image {path} cannot be read: {error.strerror}. Check its permissions."
        ) from error
    if start != _START:
        raise DocumentError(
            f"{path} is not a JPEG, although its name says so: it begins with {start.hex(' ') or 'nothing'}, "
            f"not {_START.hex(' ')}. Convert or remove it."
        )
    if not complete:
        raise DocumentError(
            f"The JPEG {path} is incomplete: its end is missing. Download it again, or remove it."
        )


def prepare_images(
    path: str,
    model_options: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    seed: int,
    on_progress: cache.Progress,
) -> dict[str, Any]:
    """List the JPEGs of a folder, check each one, and write an index; return the data's facts for the request.

    If an index of the same files, by size and time of modification, is in the cache, they are not checked again.

    Args:
        path: Path of the folder, in which `~` is expanded. It has a subfolder of JPEGs for each class, or a subfolder
            `train` that contains these.
        model_options: The model's options by name; `num_classes` is the largest number of classes.
        inputs: Not used.
        seed: Not used.
        on_progress: Called with a stage as text, the number of images checked so far, and the number of all images.

    Returns:
        A dict: `path`, the folder that contains the subfolders of the classes; `index`, the path of the index;
        `checksum`, the index's SHA-256 in hexadecimal; `samples`, the number of images; `classes`, the number of
        classes; and `bytes`, the size of all images together.

    Raises:
        SpecError: The folder has more classes than the model.
        Unavailable: The folder does not exist, cannot be read, or contains no images; or there is no cache directory.
        DocumentError: An image is not a complete JPEG of at most 256 MiB, or a link leads out of the folder.
        OSError: The index cannot be written.
    """
    parent, classes = _list_classes(path, model_options)
    listed = [
        (label, f"{name}/{file.name}")
        for label, (name, images) in enumerate(classes.items())
        for file in images
    ]
    header = {"format": IMAGES, "version": INDEX_VERSION, "samples": len(listed), "classes": list(classes)}
    lines = [json.dumps(header), *(json.dumps(entry) for entry in listed), ""]
    content = "\n".join(lines).encode("ascii")

    # An existing index shows that the same files were checked: its name covers their sizes and times.
    state = [os.fspath(parent), list(classes.items())]
    key = hashlib.sha256(content + json.dumps(state).encode("ascii")).hexdigest()
    index = cache.directory() / f"images-{key[:32]}.jsonl"
    if not index.is_file() or index.read_bytes() != content:
        for done, (_, relative) in enumerate(listed):
            if done % 256 == 0:
                on_progress("looking at images", done, len(listed))
            _check_jpeg(parent / relative)
        private_files.write(index, content)
    on_progress("looking at images", len(listed), len(listed))
    return {
        "path": os.fspath(parent),
        "index": os.fspath(index),
        "checksum": hashlib.sha256(content).hexdigest(),
        "samples": len(listed),
        "classes": len(classes),
        "bytes": sum(file.size for files in classes.values() for file in files),
    }
