"""The data source `images` with MXNet's own decoder, which is OpenCV.

Images are resized bilinearly without antialiasing, as in MXNet's recipes; the rest is as in `dlperf_sdk.worker.jpeg`.
"""

import mxnet as mx

from dlperf_sdk.worker.crop import crop_box, is_mirrored
from dlperf_sdk.worker.jpeg import JpegImages

_COLOR, _IGNORE_ORIENTATION = 1, 128
"""OpenCV's flags of `imdecode`."""
_BILINEAR = 1


def load_images(trainer):
    """Start the trainer's loaders of JPEGs, which OpenCV decodes; return the batches on the devices, without end.

    Raises:
        DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it, too.
    """
    return trainer.load(OpenCVImages)


class OpenCVImages(JpegImages):
    """The images of a request's index as batches in the form of `JpegImages`, decoded by OpenCV.

    Raises:
        DataError: The index is not the one that was prepared.
    """

    def read(self, path, chance):
        """Return one image's pixels, cropped, resized and mirrored: a NumPy array of (H, W, 3) bytes, RGB.

        `path` is the JPEG file; `chance` is the generator that draws the crop and the reflection. H and W are the
        model's.

        Raises:
            OSError: the file cannot be read.
            MXNetError: OpenCV cannot decode it.
        """
        return augment(decode(path), self.width, self.height, chance)

    def name_decoder(self):
        """Return the decoder and MXNet's version for the record."""
        return "OpenCV in MXNet %s" % mx.__version__


def decode(path):
    """Return the JPEG at a path as an MXNet array of (H, W, 3) bytes: RGB, at full size, EXIF orientation ignored.

    Raises:
        OSError: the file cannot be read.
        MXNetError: OpenCV cannot decode it.
    """
    with open(path, "rb") as file:
        return mx.image.imdecode(file.read(), flag=_COLOR | _IGNORE_ORIENTATION)


def augment(image, width, height, chance):
    """Return a random crop of an image, resized to `width` × `height` pixels and mirrored with probability ½.

    Args:
        image: An MXNet array of (H, W, 3) bytes.
        width: Width of the result in pixels.
        height: Height of the result in pixels.
        chance: Generator that draws the crop and the reflection.

    Returns:
        A NumPy array of (height, width, 3) bytes.
    """
    left, top, right, bottom = crop_box(image.shape[1], image.shape[0], chance)
    size = (width, height)
    pixels = mx.image.fixed_crop(image, left, top, right - left, bottom - top, size, _BILINEAR).asnumpy()
    return pixels[:, ::-1] if is_mirrored(chance) else pixels
