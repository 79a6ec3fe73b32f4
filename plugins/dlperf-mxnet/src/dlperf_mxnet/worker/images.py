"""`images`: JPEGs, decoded and augmented in parallel, for ResNet's training recipe.

Per image: decode at full size with MXNet's own decoder (OpenCV in its wheel), crop at random
(`dlperf_sdk.worker.crop`), resize bilinearly as MXNet's recipes do, without antialiasing, mirror half of the
time, normalise. EXIF orientation is ignored, as is usual for ImageNet.
"""

import os
import random

import mxnet as mx
import numpy as np

from dlperf_mxnet.worker.loading import Batches
from dlperf_sdk.worker.crop import MEAN, STD, crop_box
from dlperf_sdk.worker.data import DataError, read_images

_COLOR, _IGNORE_ORIENTATION = 1, 128
"""OpenCV's flags of `imdecode`."""
_BILINEAR = 1


def batches(request, replica):
    """An endless iterator over a replica's batches: `image` (B, 3, H, W), or (B, H, W, 3) in the layout
    `nhwc`, and `label` (B,).

    Raises:
        DataError: the index is not the one that was prepared; later, an image does not decode.
    """
    made = Batches(JpegDataset(request, replica), Normalised(request.layout), request, replica)
    made.facts["decoder"] = "OpenCV in MXNet %s" % mx.__version__
    return made


class JpegDataset:
    """The images of a request's index; `dataset[draw, sample]` is (H, W, 3) bytes and a label."""

    def __init__(self, request, replica):
        shapes = {entry["name"]: entry["shape"] for entry in request.inputs}
        _, self.height, self.width = shapes["image"]
        self.images = read_images(request.data)
        self.chance = "augment/%d/%d/%%d" % (request.seed, replica)

    def __getitem__(self, key):
        draw, sample = key
        path = os.path.join(self.images.root, self.images.paths[sample])
        chance = random.Random(self.chance % draw)  # noqa: S311 (no secret)
        try:
            pixels = augment(decode(path), self.width, self.height, chance)
        except (OSError, ValueError, mx.MXNetError) as error:
            why = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise DataError(
                "The image %s cannot be decoded: %s. Replace or remove it." % (path, why[0])
            ) from None
        return pixels, self.images.labels[sample]


def decode(path):
    """A JPEG as (H, W, 3) bytes, RGB, of its full size."""
    with open(path, "rb") as file:
        return mx.image.imdecode(file.read(), flag=_COLOR | _IGNORE_ORIENTATION)


def augment(image, width, height, chance):
    """A random crop of the image, (height, width, 3) bytes, perhaps mirrored."""
    left, top, right, bottom = crop_box(image.shape[1], image.shape[0], chance)
    size = (width, height)
    pixels = mx.image.fixed_crop(image, left, top, right - left, bottom - top, size, _BILINEAR).asnumpy()
    return pixels[:, ::-1] if chance.random() < 0.5 else pixels


class Normalised:
    """Samples to a batch, with ImageNet's mean and deviation taken out."""

    def __init__(self, layout):
        self.channels_last = layout == "nhwc"

    def __call__(self, samples):
        pixels = np.stack([pixels for pixels, _ in samples])
        image = (pixels - 255 * np.float32(MEAN)) / (255 * np.float32(STD))
        return {
            "image": image if self.channels_last else image.transpose(0, 3, 1, 2),
            "label": np.array([label for _, label in samples]),
        }
