"""The random crop of ResNet's training recipe, the same for every framework; decoding and resizing are theirs.

C. Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6: 8 to 100 % of the area, at an aspect
ratio from 3/4 to 4/3.
"""

import math
from random import Random
from typing import Tuple

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""Of ImageNet's red, green and blue, where white is 1; the numbers that every ImageNet recipe uses."""
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10


def crop_box(width: int, height: int, chance: Random) -> Tuple[int, int, int, int]:
    """Return left, top, right and bottom, in pixels, of a random crop of an image of width × height.

    Its area is uniform in AREA, its ratio log-uniform in RATIO; `chance` draws both. If no crop of ten fits into the
    image, it is the largest in the middle whose ratio is allowed.
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
