"""The data source `images`: JPEGs, decoded and augmented in parallel by tf.data, for ResNet's training recipe.

Per image: decode to RGB at full size with the accurate integer transform (grayscale and CMYK as well), crop at
random, resize bilinearly with antialiasing, mirror half of the time, normalize. Only the crop is decoded, which gives
the same pixels. EXIF orientation is ignored, as is usual for ImageNet. The crop is TensorFlow's own: 8 to 100 % of
the area at an aspect ratio from 3/4 to 4/3 (C. Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6);
the whole image if ten attempts do not fit.
"""

import os

import tensorflow as tf

from dlperf_sdk.worker.crop import AREA, MEAN, RATIO, STD
from dlperf_sdk.worker.data import read_images

ATTEMPTS = 10
"""Attempts at a crop that fits into the image."""


def load_images(trainer):
    """Start a pipeline of JPEGs for each replica; return an endless iterator over batches.

    `trainer` is a `TensorFlowTrainer`. The batches are what the trainer's `place` returns, on the devices.

    Raises:
        DataError: The prepared data is missing, or is not what the controller prepared. The iterator's `next()` raises
            a DataError, too.
    """
    return trainer.load(JpegPipeline)


class JpegPipeline:
    """A tf.data pipeline of a request's images, which an index file lists, for `loading.Loader`.

    A batch has `image`, (B, H, W, 3) in the layout `nhwc` and (B, 3, H, W) in `nchw`, float32; and `label`, (B,),
    int64.

    Args:
        request: The `Request`, whose `data` names the index file.
        replica: The replica's global index.
        layout: The layout of images, `nchw` or `nhwc`.

    Raises:
        DataError: The index file is missing, malformed, or not the one that the controller prepared.
    """

    def __init__(self, request, replica, layout):
        self.request, self.replica, self.layout = request, replica, layout
        self.facts = {}
        shapes = {entry["name"]: entry["shape"] for entry in request.inputs}
        _, self.height, self.width = shapes["image"]
        self.images = read_images(request.data)
        self.signature = {
            "path": tf.TensorSpec((request.batch_size,), tf.string),
            "label": tf.TensorSpec((request.batch_size,), tf.int64),
            "seed": tf.TensorSpec((request.batch_size, 2), tf.int64),
        }

    def keys_of(self, draws):
        """Return a dict of the lists `path`, `label` and `seed`, each with one item per sample of a batch.

        `draws` is the list of the batch's pairs (draw, sample): the number of the draw and the sample's index. A
        sample's seed is a pair of integers: one combines the request's seed and the replica's index, the other is the
        draw.
        """
        images = self.images
        return {
            "path": [os.path.join(images.root, images.paths[sample]) for _, sample in draws],
            "label": [images.labels[sample] for _, sample in draws],
            "seed": [(self.request.seed + (self.replica << 32), draw) for draw, _ in draws],
        }

    def pipeline(self, keys, workers):
        """Return a `tf.data.Dataset` of batches, in the order of `keys`.

        `keys` is a `tf.data.Dataset` of dicts as `keys_of` returns them; `workers` is the number of images that are
        decoded in parallel. Iterating raises `tf.errors.OpError` if an image cannot be read or decoded.
        """
        return keys.unbatch().map(self._load, workers).batch(self.request.batch_size, drop_remainder=True)

    def _load(self, key):
        image = normalize(augment(tf.io.read_file(key["path"]), self.height, self.width, key["seed"]))
        if self.layout == "nchw":
            image = tf.transpose(image, (2, 0, 1))
        return {"image": image, "label": key["label"]}

    def explain(self, draws, error):
        """Return the message for a batch that failed: it names the first image that cannot be decoded.

        If all images can be decoded, the message is that of `error`, TensorFlow's exception. `draws` is the list of the
        batch's pairs (draw, sample).
        """
        for path in self.keys_of(draws)["path"]:
            fault = _fault(path)
            if fault is not None:
                return "The image %s cannot be decoded: %s. Replace or remove it." % (path, fault)
        return "A batch of images cannot be made: %s." % error.message


def augment(encoded, height, width, seed):
    """Return a random crop of a JPEG, resized to `height` × `width` pixels and mirrored with probability ½.

    Args:
        encoded: The content of a JPEG file, a scalar string tensor.
        height: Height of the result in pixels.
        width: Width of the result in pixels.
        seed: Two integers, which determine the crop and the reflection.

    Returns:
        A float32 tensor (height, width, 3), RGB, from 0 to 255.
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        tf.zeros((1, 0, 4)),  # no object that it must hold
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=RATIO,
        area_range=AREA,
        max_attempts=ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], 0)
    pixels = tf.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_ACCURATE")
    resized = tf.image.resize(pixels, (height, width), antialias=True)
    # Chance of its own: the crop has used this seed.
    return tf.image.stateless_random_flip_left_right(resized, tf.bitwise.invert(seed))


def decode(encoded):
    """Return the image in a JPEG file's content, `encoded`, in its full size: a uint8 tensor (height, width, 3), RGB.

    `encoded` is a scalar string tensor.

    Raises:
        tf.errors.InvalidArgumentError: The content is not a JPEG, or is damaged.
    """
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")


def normalize(pixels):
    """Return (pixels - mean) / deviation in float32, with ImageNet's mean and deviation of each color.

    `pixels` are RGB values from 0 to 255, a tensor (…, 3).
    """
    return (pixels - [255 * value for value in MEAN]) / [255 * value for value in STD]


def _fault(path):
    """Return TensorFlow's error message if the image cannot be decoded; None if it can."""
    try:
        decode(tf.io.read_file(path))
    except tf.errors.OpError as error:
        return error.message
    return None
