"""The reference of `resnet50-v1`: that of `resnet50` with the stride of a bottleneck in its first 1×1 convolution.

`scripts/references/trajectory.py` says how to run `plugins/dlperf-models-2017/scripts/resnet50_v1.py [small gamma]`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import attrs
from dlperf_models_2017.resnet50_v1 import ResNet50V1

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts" / "references"))

import resnet50
import trajectory
from resnet50 import forward, meet, update

RIGHT = replace(resnet50.RIGHT, stride_first=True, smoothing=False)
ALONE = ("alone",)
"""Mistakes of one replica are computed for one replica only: two take twice the time, and add nothing."""
MISTAKES = {
    "the stride in a bottleneck's 3×3 convolution (v1.5)": (ALONE, replace(RIGHT, stride_first=False)),
    "label smoothing 0.1": (ALONE, replace(RIGHT, smoothing=True)),
    "momentum 0.875 whatever is asked for": (ALONE, replace(RIGHT, momentum=0.875)),
    **{
        name: (topologies[:1], replace(variant, stride_first=True, smoothing=False))
        for name, (topologies, variant) in resnet50.MISTAKES.items()
        if variant.smoothing and not variant.stride_first and variant.momentum != 0.9
    },
}
RATE_MISTAKES = {
    name: (topologies[:1], replace(variant, stride_first=True, smoothing=False))
    for name, (topologies, variant) in resnet50.RATE_MISTAKES.items()
}
CASES = {
    name: attrs.evolve(setting, model=ResNet50V1())
    for name, setting in resnet50.CASES.items()
    if name != "full"
}

if __name__ == "__main__":
    trajectory.main(
        "resnet50-v1",
        CASES,
        forward,
        meet,
        update,
        RIGHT,
        MISTAKES,
        sys.argv[1:],
        rate_mistakes=RATE_MISTAKES,
    )
