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
    """Start the trainer's loaders of JPEGs, in which OpenCV decodes the files; return an iterator over the batches.

    The iterator is endless. A batch is a list with a dict per replica of this process: input name → MXNet array on the
    replica's device. `trainer` is an `MXNetTrainer`.

    Raises:
        DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it, too.
    """
    return trainer.load(OpenCVImages)


class OpenCVImages(JpegImages):
    """The dataset `JpegImages`, with OpenCV as the decoder; the arguments are the same.

    Raises:
        DataError: The index of the images is not the one that was prepared.
    """

    def read(self, path, chance):
        """Return one image, cropped, resized and mirrored: a uint8 NumPy array (H, W, 3), RGB.

        `path` is the path of the JPEG file; `chance` is the `random.Random` that draws the crop and the reflection. H
        and W are the height and width that the model takes.

        Raises:
            OSError: The file cannot be read.
            MXNetError: OpenCV cannot decode it.
        """
        return augment(decode(path), self.width, self.height, chance)

    def name_decoder(self):
        """Return the decoder's name for the record, such as `OpenCV in MXNet 1.9.1`."""
        return "OpenCV in MXNet %s" % mx.__version__


def decode(path):
    """Return the image in the JPEG file `path`, in its full size: a uint8 MXNet array (height, width, 3), RGB.

    The orientation in the EXIF data is ignored.

    Raises:
        OSError: The file cannot be read.
        MXNetError: OpenCV cannot decode it.
    """
    with open(path, "rb") as file:
        return mx.image.imdecode(file.read(), flag=_COLOR | _IGNORE_ORIENTATION)


def augment(image, width, height, chance):
    """Return a random crop of an image, resized to `width` × `height` pixels and mirrored with probability ½.

    Args:
        image: A uint8 MXNet array (rows, columns, 3), of any size.
        width: Width of the result in pixels.
        height: Height of the result in pixels.
        chance: The `random.Random` that draws the crop and the reflection.

    Returns:
        A uint8 NumPy array (`height`, `width`, 3).
    """
    left, top, right, bottom = crop_box(image.shape[1], image.shape[0], chance)
    size = (width, height)
    pixels = mx.image.fixed_crop(image, left, top, right - left, bottom - top, size, _BILINEAR).asnumpy()
    return pixels[:, ::-1] if is_mirrored(chance) else pixels
