"""The random crop and reflection of ResNet's training recipe, the same for every framework and decoder.

C. Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6: 8 to 100 % of the area, at an aspect ratio
from 3/4 to 4/3.
"""

import math
from random import Random
from typing import Tuple

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's red, green and blue, where white is 1; every ImageNet recipe uses
these."""
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10


def crop_box(width: int, height: int, chance: Random) -> Tuple[int, int, int, int]:
    """Return left, top, right and bottom, in pixels, of a random crop of an image of `width` × `height` pixels.

    The crop's share of the area is uniform in `AREA` (0.08 to 1); its aspect ratio, width over height, is log-uniform
    in `RATIO` (3/4 to 4/3). If none of ten draws fits into the image, the crop is the largest in the middle whose ratio
    is in `RATIO`. The crop ends before the column `right` and the row `bottom`, as in Pillow.

    Args:
        width: The image's width, at least 1.
        height: The image's height, at least 1.
        chance: Generator that draws area, ratio and position; it advances.
    """
    low, high = RATIO
    for _ in range(_ATTEMPTS):
        area = width * height * chance.uniform(*AREA)
        ratio = math.exp(chance.uniform(math.log(low), math.log(high)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(chance.random() * (width - w + 1)), int(chance.random() * (height - h + 1))
            return left, top, left + w, top + h
    w, h = min(width, round(height * high)), min(height, round(width / low))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def is_mirrored(chance: Random) -> bool:
    """Return True with probability ½: the crop is to be mirrored.

    Args:
        chance: Generator that has drawn the crop of the same image before; it advances.
    """
    return chance.random() < 0.5


def generator_of(seed: int, replica: int, draw: int) -> Random:
    """Return the generator of one sample's crop and reflection.

    Args:
        seed: The request's seed.
        replica: The replica's global index.
        draw: Number of samples that the replica has taken before (`data.draws`).
    """
    return Random("augment/%d/%d/%d" % (seed, replica, draw))  # noqa: S311 (no secret)
