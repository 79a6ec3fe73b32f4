"""References that are generated: the noise, which is what float32 does to updates in all trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dlperf_numpy.framework import Linear

from dlperf_sdk.testing.references import Implementation, Pass, Setting, make_case

ERROR = 0.01


def gradients(weights: dict[str, Any], batches: list[Any], options: Any) -> list[Pass]:
    """Return gradients of 1, which float32 misses by `ERROR` per replica; the running means are alike."""
    values = {
        name: np.full_like(value, 1 + ERROR * len(batches) * (value.dtype == np.float32))
        for name, value in weights.items()
    }
    return [
        Pass(1.0, values, {"norm.running_mean": values["weight"] * (1 + replica)})
        for replica in range(len(batches))
    ]


def update(weights: dict[str, Any], combined: dict[str, Any], state: Any, step: int, numbers: Any) -> None:
    for name in weights:
        weights[name] -= combined[name]


@pytest.mark.parametrize(("has_pair", "expected"), [(True, 2 * ERROR), (False, ERROR)])
def test_the_noise_is_the_largest_deviation_of_all_trajectories(has_pair: bool, expected: float) -> None:
    case = make_case(Setting(Linear(), {}, 2), Implementation(gradients, update), has_pair=has_pair)
    assert set(case["noise"]) == {"weight", "norm.running_mean"}
    assert case["noise"] == pytest.approx(dict.fromkeys(case["noise"], expected), rel=1e-3)


def test_the_noise_has_a_floor_that_running_means_do_not_have() -> None:
    case = make_case(Setting(Linear(), {}, 2, noise_floor=0.5), Implementation(gradients, update))
    assert case["noise"] == pytest.approx({"weight": 0.5, "norm.running_mean": 2 * ERROR}, rel=1e-3)
