"""`images`: JPEGs, decoded and augmented in parallel, for ResNet's training recipe.

Per image: decode at full size, convert to RGB (greyscale and CMYK as well), crop at random
(`dlperf_sdk.worker.crop`), resize bilinearly with antialiasing, mirror half of the time, normalise. EXIF
orientation is ignored, as is usual for ImageNet. Pillow decodes, as in OneFlow's own recipes.
"""

import os
import random

import numpy as np
from PIL import Image, features
from PIL import __version__ as pillow_version

from dlperf_oneflow.worker.loading import Batches
from dlperf_sdk.worker.crop import MEAN, STD, crop_box
from dlperf_sdk.worker.data import DataError, read_images


def batches(request, process):
    """An endless iterator over this replica's batches: `image` (B, 3, H, W) float32, `label` (B,) int64.

    Raises:
        DataError: the index is not the one that was prepared; later, an image does not decode.
    """
    made = Batches(Jpegs(request, process.replicas[0]), request, process)
    turbo = features.check("libjpeg_turbo") and features.version("libjpeg_turbo")
    made.facts["decoder"] = "Pillow %s, %s" % (
        pillow_version,
        "libjpeg-turbo %s" % turbo if turbo else "libjpeg %s" % features.version("jpg"),
    )
    return made


class Jpegs:
    """The images of a request's index; called with keys, a batch or a `DataError`. See `loading.Batches`."""

    def __init__(self, request, replica):
        shapes = {entry["name"]: entry["shape"] for entry in request.inputs}
        _, self.height, self.width = shapes["image"]
        self.images = read_images(request.data)
        self.chance = "augment/%d/%d/%%d" % (request.seed, replica)

    def __call__(self, keys):
        pixels = np.empty((len(keys), self.height, self.width, 3), np.uint8)
        for place, (draw, sample) in zip(pixels, keys):
            path = os.path.join(self.images.root, self.images.paths[sample])
            chance = random.Random(self.chance % draw)  # noqa: S311 (no secret)
            try:
                place[...] = augment(decode(path), self.width, self.height, chance)
            except Exception as error:  # Pillow raises a dozen types for a broken file
                why = "The image %s cannot be decoded: %s. Replace or remove it." % (path, error)
                return DataError(why)
        labels = [self.images.labels[sample] for _, sample in keys]
        return {"image": normalise(pixels), "label": np.array(labels, np.int64)}


def decode(path):
    """A JPEG as an RGB image of its full size."""
    with Image.open(path, formats=("JPEG",)) as image:
        return image.convert("RGB")


def augment(image, width, height, chance):
    """A random crop of the image, width × height, perhaps mirrored."""
    cropped = image.crop(crop_box(image.width, image.height, chance))
    resized = cropped.resize((width, height), Image.Resampling.BILINEAR)
    return resized.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if chance.random() < 0.5 else resized


def normalise(pixels):
    """(B, H, W, 3) bytes as (B, 3, H, W) float32 with ImageNet's mean and deviation taken out."""
    image = (pixels - 255 * np.float32(MEAN)) / (255 * np.float32(STD))
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2))
