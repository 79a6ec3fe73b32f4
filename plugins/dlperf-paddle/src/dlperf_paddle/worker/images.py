"""`images`: JPEGs, decoded and augmented in parallel, for ResNet's training recipe.

Per image: decode at full size (JPEG's scaled decoding would be cheaper, and would be other pixels), convert
to RGB (greyscale and CMYK as well), crop at random, resize bilinearly with antialiasing, mirror half of the
time, normalise. EXIF orientation is ignored, as is usual for ImageNet. Pillow decodes, as it does in Paddle's
own `paddle.vision.datasets`; Paddle's `decode_jpeg` works on GPUs only.
"""

import os
import random

import numpy as np
from paddle.io import Dataset
from PIL import Image, features
from PIL import __version__ as pillow_version

from dlperf_paddle.worker.loading import Batches
from dlperf_sdk.worker.crop import MEAN, STD, crop_box
from dlperf_sdk.worker.data import DataError, read_images


def batches(request, process):
    """An endless iterator over this replica's batches: `image` (B, 3, H, W) float32, or (B, H, W, 3) in the
    layout nhwc; `label` (B,) int64.

    Raises:
        DataError: the index is not the one that was prepared; later, an image does not decode.
    """
    dataset = JpegDataset(request, process.replicas[0])
    made = Batches(dataset, dataset.collate, request, process)
    turbo = features.check("libjpeg_turbo") and features.version("libjpeg_turbo")
    made.facts["decoder"] = "Pillow %s, %s" % (
        pillow_version,
        "libjpeg-turbo %s" % turbo if turbo else "libjpeg %s" % features.version("jpg"),
    )
    return made


class JpegDataset(Dataset):
    """The images of a request's index; `dataset[key]` is pixels and label, or a `DataError`. See `loading.Batches`."""

    def __init__(self, request, replica):
        super().__init__()
        shapes = {entry["name"]: entry["shape"] for entry in request.inputs}
        _, self.height, self.width = shapes["image"]
        self.images = read_images(request.data)
        self.chance = "augment/%d/%d/%%d" % (request.seed, replica)
        self.channels_last = request.layout == "nhwc"

    def __len__(self):
        return len(self.images.paths)

    def __getitem__(self, key):
        draw, sample = key
        path = os.path.join(self.images.root, self.images.paths[sample])
        chance = random.Random(self.chance % draw)  # noqa: S311 (no secret)
        try:
            pixels = np.asarray(augment(decode(path), self.width, self.height, chance))
        except Exception as error:  # Pillow raises a dozen types for a broken file
            return DataError("The image %s cannot be decoded: %s. Replace or remove it." % (path, error))
        return pixels, self.images.labels[sample]

    def collate(self, samples):
        """A batch, normalised."""
        return {
            "image": normalise(np.stack([pixels for pixels, _ in samples]), self.channels_last),
            "label": np.array([label for _, label in samples], np.int64),
        }


def decode(path):
    """A JPEG as an RGB image of its full size."""
    with Image.open(path, formats=("JPEG",)) as image:
        return image.convert("RGB")


def augment(image, width, height, chance):
    """A random crop of the image, width × height, perhaps mirrored."""
    cropped = image.crop(crop_box(image.width, image.height, chance))
    resized = cropped.resize((width, height), Image.Resampling.BILINEAR)
    return resized.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if chance.random() < 0.5 else resized


def normalise(pixels, channels_last):
    """(B, H, W, 3) bytes as (B, 3, H, W) float32 with ImageNet's mean and deviation taken out."""
    mean, std = (np.float32(255) * np.array(values, np.float32) for values in (MEAN, STD))
    image = (pixels.astype(np.float32) - mean) / std
    return image if channels_last else np.ascontiguousarray(image.transpose(0, 3, 1, 2))
