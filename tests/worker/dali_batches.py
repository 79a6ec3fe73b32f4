"""Print how the batches of DALI differ from Pillow's: a program for an environment that has DALI.

The arguments are the source folder of dlperf_sdk, and the fields of the request as JSON. Differences are in gray levels
of 255: their mean, and the largest one that is not at the edge of an image of 48 pixels.
"""

import json
import sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])

import numpy

from dlperf_sdk.worker import data
from dlperf_sdk.worker.dali_feed import DaliImages
from dlperf_sdk.worker.jpeg import JpegImages

REPLICA, BATCHES = 0, 5
request = SimpleNamespace(**json.loads(sys.argv[2]))
answers = {"largest": [], "mean": [], "labels": []}
try:
    for layout in ("nchw", "nhwc"):
        feed, images = DaliImages(request, REPLICA, layout), JpegImages(request, REPLICA, layout)
        for _, keys in zip(range(BATCHES), data.draws(request, REPLICA), strict=False):
            actual, expected = next(feed), images[keys]
            assert actual["image"].shape == expected["image"].shape
            assert actual["image"].dtype == numpy.float32
            levels = numpy.abs(actual["image"] - expected["image"]) * 255 * 0.225
            rows, columns = (2, 3) if layout == "nchw" else (1, 2)
            inner = levels.take(range(1, 47), rows).take(range(1, 47), columns)
            answers["largest"].append(float(inner.max()))
            answers["mean"].append(float(levels.mean()))
            answers["labels"].append(actual["label"].tolist() == expected["label"].tolist())
        answers["facts"] = feed.facts
        feed.close()
except data.DataError as error:
    answers["error"] = str(error)
print(json.dumps(answers))
