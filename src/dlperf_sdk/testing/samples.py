"""Small sample data for tests of data sources: a folder of JPEGs in ImageNet's layout, and a folder with a text."""

from __future__ import annotations

import random
from pathlib import Path

CLASSES, IMAGES = 3, 8
"""Classes of images, and JPEGs per class."""

_TEXT = (
    "the measured number of samples that a model takes in one second depends on its batch and on the device "
    "nobody knows before it has been tried so we try it again and write down what we saw with all that belongs to it"
)


def write_images(folder: Path) -> None:
    """Write `IMAGES` (8) copies of one JPEG of 96 × 64 pixels (width × height) for each of `CLASSES` (3) classes.

    The directories of the classes, `n00`, `n01` and `n02`, are made in `folder`, which must exist.

    Raises:
        FileExistsError: The directory of a class exists already.
    """
    content = Path(__file__).with_name("sample.jpg").read_bytes()
    for label in range(CLASSES):
        place = folder / f"n{label:02d}"
        place.mkdir()
        for number in range(IMAGES):
            (place / f"{number}.jpg").write_bytes(content)


def write_sentences(folder: Path) -> None:
    """Write a text of 80 paragraphs, of three to nine sentences each, to `text.txt` in an existing directory.

    The text is the same in every call. An existing file is overwritten.
    """
    draw = random.Random(0)  # noqa: S311 - nobody's secret
    paragraphs = [
        " ".join(
            " ".join(draw.choices(_TEXT.split(), k=draw.randint(5, 14))).capitalize() + "."
            for _ in range(draw.randint(3, 9))
        )
        for _ in range(80)
    ]
    (folder / "text.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
