"""`images-dali`: the images, crops and reflections of `images`, decoded and resized by NVIDIA DALI in its own threads.

DALI decodes only the part of a JPEG that the crop needs. It computes on the host's processors also where the trainer
has a GPU. Its decoded pixels equal Pillow's. In resizing it rounds differently, and repeats the pixels at the edge of
the crop where Pillow's filter ends.
"""

import collections
import os
from typing import Any, Deque, Dict, List, Tuple

import numpy

from dlperf_sdk.worker import data
from dlperf_sdk.worker.crop import MEAN, STD, crop_box, generator_of, is_mirrored
from dlperf_sdk.worker.loading import PREFETCH, BatchFeed, Draws
from dlperf_sdk.worker.request import Request


class DaliImages(BatchFeed):
    """An endless iterator over one replica's batches of JPEGs.

    A batch of B samples is a dict of NumPy arrays: `image`, float32 (B, 3, H, W) in the layout nchw and (B, H, W, 3) in
    nhwc, normalized with ImageNet's mean and standard deviation of each channel; and `label`, int64 (B,). The shape of
    the model's input `image` gives H and W. `data.draws` defines the samples and their order. The framework's option
    `loader_workers` is the number of DALI's threads. `next()` raises DataError if an image cannot be read or decoded.

    Args:
        request: The case.
        replica: The replica's global index.
        layout: The layout of images, `nchw` or `nhwc`.

    Raises:
        DataError: The index is not the one that was prepared.
        ImportError: DALI is not installed.
    """

    def __init__(self, request: Request, replica: int, layout: str) -> None:
        import nvidia.dali

        threads = int(request.framework_options["loader_workers"])
        facts = dict(
            data.facts(request, replica),
            loader_workers=threads,
            prefetched_batches=PREFETCH,
            decoder="DALI %s" % nvidia.dali.__version__,
        )
        super().__init__(PREFETCH, facts)
        self._request, self._replica = request, replica
        self._images = data.read_images(request.data)
        self._draws = iter(Draws(request, replica))
        self._labels: Deque[List[int]] = collections.deque()
        self._pipeline = self._build(threads, layout)

    def _build(self, threads: int, layout: str) -> Any:
        from nvidia.dali import fn, pipeline, types

        _, height, width = next(entry["shape"] for entry in self._request.inputs if entry["name"] == "image")
        # `set_affinity` is left alone: the agent has given this process its processors.
        built = pipeline.Pipeline(
            batch_size=self._request.batch_size,
            num_threads=threads,
            device_id=None,
            prefetch_queue_depth=PREFETCH,
        )
        with built:
            encoded, start, shape, mirror = fn.external_source(source=self._next_encoded, num_outputs=4)
            pixels = fn.decoders.image_slice(
                encoded,
                start=start,
                shape=shape,
                axes=(0, 1),
                device="cpu",
                output_type=types.RGB,
                adjust_orientation=False,
            )
            pixels = fn.resize(pixels, size=(height, width), interp_type=types.INTERP_LINEAR, antialias=True)
            normalized = fn.crop_mirror_normalize(
                pixels,
                mirror=mirror,
                mean=[255 * value for value in MEAN],
                std=[255 * value for value in STD],
                dtype=types.FLOAT,
                output_layout="HWC" if layout == "nhwc" else "CHW",
            )
            built.set_outputs(normalized)
        built.build()
        return built

    def _next_encoded(self) -> Tuple[List[Any], List[Any], List[Any], List[Any]]:
        """Return the files of the next batch, the starts and the shapes (rows, columns) of the crops, and reflections.

        Raises:
            DataError: An image cannot be read, or has no valid header.
        """
        from PIL import Image

        keys = next(self._draws)
        columns: Tuple[List[Any], List[Any], List[Any], List[Any]] = ([], [], [], [])
        for draw, sample in keys:
            path = os.path.join(self._images.root, self._images.paths[sample])
            chance = generator_of(self._request.seed, self._replica, draw)
            try:
                content = numpy.fromfile(path, numpy.uint8)
                with Image.open(path, formats=("JPEG",)) as image:  # reads the header
                    left, top, right, bottom = crop_box(image.width, image.height, chance)
            except Exception as error:  # Pillow raises a dozen types for a broken file
                raise data.undecodable(path, error) from None
            columns[0].append(content)
            columns[1].append(numpy.array((top, left), numpy.int32))
            columns[2].append(numpy.array((bottom - top, right - left), numpy.int32))
            columns[3].append(numpy.int32(is_mirrored(chance)))
        self._labels.append([self._images.labels[sample] for _, sample in keys])
        return columns

    def close(self) -> None:
        """End DALI's threads; no batch can be taken afterwards."""
        self._pipeline = None

    def __next__(self) -> Dict[str, numpy.ndarray]:
        try:
            (images,) = self._pipeline.run()
        except RuntimeError as error:  # many lines about the operator, none about the file
            raise data.DataError(
                "DALI cannot decode an image. Run the case with `images` in place of `images-dali`: the message then "
                "names the file."
            ) from error
        # A copy: DALI overwrites its own memory in the next step.
        return {
            "image": numpy.array(images.as_array()),
            "label": numpy.array(self._labels.popleft(), numpy.int64),
        }
