"""`images`: JPEGs, decoded and augmented for ResNet's training recipe.

Per image: decode at full size (JPEG's scaled decoding would be cheaper, and would give other pixels), convert to RGB
(grayscale and CMYK as well), crop at random (`dlperf_sdk.worker.crop`), resize bilinearly with antialiasing, mirror
half of the time, normalize. EXIF orientation is ignored, as is usual for ImageNet. Pillow decodes, as in torchvision
and in Paddle's and OneFlow's own recipes; a framework with its own decoder overrides `read`.
"""

import os
import random
from typing import Any, Dict

import numpy

from dlperf_sdk.worker.crop import MEAN, STD, crop_box, generator_of, is_mirrored
from dlperf_sdk.worker.data import read_images, undecodable
from dlperf_sdk.worker.loading import Dataset, Keys, lay_out
from dlperf_sdk.worker.request import Request


class JpegImages(Dataset):
    """The images of the data source's image index, in batches: `image` float32 and `label` int64 (B,).

    For B samples, `image` is (B, 3, H, W) in the layout nchw and (B, H, W, 3) in nhwc, normalized with ImageNet's mean
    and standard deviation of each channel.

    Args:
        request: The case. The shape of its input `image` gives H and W.
        replica: The replica's global index.
        layout: The layout of images, `nchw` or `nhwc`.

    Raises:
        DataError: The index is not the one that was prepared.
        ImportError: Pillow is not installed.
    """

    def __init__(self, request: Request, replica: int, layout: str) -> None:
        super().__init__(request, replica, layout)
        shapes = {entry["name"]: entry["shape"] for entry in request.inputs}
        _, self.height, self.width = shapes["image"]
        self.images = read_images(request.data)
        self.facts["decoder"] = self.name_decoder()

    def batch(self, keys: Keys) -> Dict[str, numpy.ndarray]:
        """Return the images and labels of the samples that `keys` names.

        Each image is cropped and mirrored at random. The random numbers depend on the seed, the replica and the draw.

        Args:
            keys: A pair for each image, as `data.draws` yields them: the number of samples that the replica has drawn
                before, and the index of the sample.

        Returns:
            A dict of `image`, float32 (B, 3, H, W) or (B, H, W, 3) as the dataset's layout requires, and `label`, int64
            (B,), in the order of `keys`.

        Raises:
            DataError: An image cannot be read or decoded.
        """
        pixels = numpy.empty((len(keys), self.height, self.width, 3), numpy.uint8)
        for place, (draw, sample) in zip(pixels, keys):
            path = os.path.join(self.images.root, self.images.paths[sample])
            try:
                place[...] = self.read(path, generator_of(self.request.seed, self.replica, draw))
            except Exception as error:  # Pillow raises a dozen types for a broken file
                raise undecodable(path, error) from None
        labels = [self.images.labels[sample] for _, sample in keys]
        batch = {"image": normalize(pixels), "label": numpy.array(labels, numpy.int64)}
        return lay_out(batch, self.layout)

    def read(self, path: str, chance: random.Random) -> Any:
        """Return one image, cropped, resized and mirrored, with the size of the model's input `image`.

        Any exception that this raises becomes a DataError of `batch`.

        Args:
            path: Path of the JPEG.
            chance: Generator that draws the crop and the reflection; it advances.

        Returns:
            A Pillow image in RGB. A subclass may instead return a NumPy array (height, width, 3) of uint8.
        """
        return augment(decode(path), self.width, self.height, chance)

    def name_decoder(self) -> str:
        """Return the decoder and its version for the record, such as `Pillow 11.0.0, libjpeg-turbo 3.0.4`."""
        from PIL import __version__, features

        turbo = features.check("libjpeg_turbo") and features.version("libjpeg_turbo")
        library = "libjpeg-turbo %s" % turbo if turbo else "libjpeg %s" % features.version("jpg")
        return "Pillow %s, %s" % (__version__, library)


def decode(path: str) -> Any:
    """Return the JPEG at `path` as a Pillow image: RGB, at full size.

    EXIF orientation is ignored.

    Raises:
        OSError: The file cannot be read or is not a JPEG. Pillow raises further types for a damaged file.
    """
    from PIL import Image

    with Image.open(path, formats=("JPEG",)) as image:
        return image.convert("RGB")


def augment(image: Any, width: int, height: int, chance: random.Random) -> Any:
    """Return a random crop of a Pillow image, resized to `width` × `height` pixels and mirrored with probability ½.

    Args:
        image: A Pillow image.
        width: Width of the result in pixels.
        height: Height of the result in pixels.
        chance: Generator that draws the crop and the reflection; it advances.

    Returns:
        A new Pillow image; `image` is unchanged.
    """
    from PIL import Image

    cropped = image.crop(crop_box(image.width, image.height, chance))
    resized = cropped.resize((width, height), Image.Resampling.BILINEAR)
    return resized.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if is_mirrored(chance) else resized


def normalize(pixels: numpy.ndarray) -> numpy.ndarray:
    """Subtract ImageNet's mean from each channel of images, and divide by ImageNet's standard deviation.

    Args:
        pixels: The images, (B, H, W, 3), RGB: uint8 from 0 to 255.

    Returns:
        A float32 array (B, 3, H, W): a view of a new array whose memory is in the order (B, H, W, 3).
    """
    samples, height, width, channels = pixels.shape
    # Whole rows at a time: broadcasting over (…, 3) would loop over three elements at a time.
    mean, std = (numpy.tile(255 * numpy.array(values, numpy.float32), width) for values in (MEAN, STD))
    rows = pixels.reshape(samples, height, width * channels).astype(numpy.float32)
    rows -= mean
    rows /= std
    return rows.reshape(pixels.shape).transpose(0, 3, 1, 2)
