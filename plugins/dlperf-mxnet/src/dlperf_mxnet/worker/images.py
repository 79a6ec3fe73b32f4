"""`images` with MXNet's own decoder, OpenCV in its wheel.

It resizes bilinearly as MXNet's recipes do, without antialiasing; the rest is the recipe of `dlperf_sdk.worker.jpeg`.
"""

import mxnet as mx

from dlperf_sdk.worker.crop import crop_box
from dlperf_sdk.worker.jpeg import JpegImages

_COLOR, _IGNORE_ORIENTATION = 1, 128
"""OpenCV's flags of `imdecode`."""
_BILINEAR = 1


def load_images(trainer):
    """Return the iterator of the trainer's batches of JPEGs, which OpenCV decodes."""
    return trainer.load(OpenCVImages)


class OpenCVImages(JpegImages):
    """The images of a request's index, decoded by OpenCV."""

    def read(self, path, chance):
        """Return one image's pixels, (H, W, 3) bytes, augmented by draws of the generator `chance`."""
        return augment(decode(path), self.width, self.height, chance)

    def name_decoder(self):
        """Return the decoder and its version."""
        return "OpenCV in MXNet %s" % mx.__version__


def decode(path):
    """Return the JPEG in a file as (H, W, 3) bytes, RGB, of its full size."""
    with open(path, "rb") as file:
        return mx.image.imdecode(file.read(), flag=_COLOR | _IGNORE_ORIENTATION)


def augment(image, width, height, chance):
    """Return a random crop of an image, resized to (height, width, 3) bytes and mirrored in half of the cases.

    Args:
        image: The decoded image, (H, W, 3) bytes.
        width: Width of the result in pixels.
        height: Height of the result in pixels.
        chance: The generator of random numbers that draws the crop and the reflection.
    """
    left, top, right, bottom = crop_box(image.shape[1], image.shape[0], chance)
    size = (width, height)
    pixels = mx.image.fixed_crop(image, left, top, right - left, bottom - top, size, _BILINEAR).asnumpy()
    return pixels[:, ::-1] if chance.random() < 0.5 else pixels
