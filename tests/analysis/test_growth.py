"""The model of growth: what it learns from other series, and where it assumes no further growth."""

import random

import attrs
import pytest

from dlperf_sdk.analysis.growth import Example, learn


def test_it_is_never_worse_than_the_last_efficiency():
    """Where growth of other releases does not help to predict the next doubling, none is predicted."""
    chance = random.Random(1)
    noise = [
        Example(str(number % 9), 2, 4, abs(chance.gauss(0, 0.05)), 0.1 * (number % 9 == 3) * (number % 2))
        for number in range(45)
    ]
    model = learn(tuple(noise))
    assert (model.base, model.persistence) == (0, 0)
    assert (model.next(0.5), model.faster) == (0, 0) and model.slower > 0
    lasting = [attrs.evolve(example, actual=0.02 + 0.5 * example.measured) for example in noise]
    model = learn(tuple(lasting))
    assert (model.base, model.persistence) == (0.02, 0.5)
    assert model.slower == pytest.approx(0, abs=1e-9) == model.faster
