"""A protocol as far as a source states it: its text, its differences, and its check."""

import pytest

from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.spec.stated_protocol import AS_PRESCRIBED, DEVIATES, NOT_STATED, StatedProtocol

PRESCRIBED = PROTOCOLS["dlperf-v1"]


@pytest.mark.parametrize(
    ("stated", "outcome", "text"),
    [
        (StatedProtocol(20, 100, 7), AS_PRESCRIBED, "20 + 100 steps, 7 repeats"),
        (StatedProtocol(0, 100, 7), DEVIATES, "0 + 100 steps, 7 repeats"),
        (StatedProtocol(None, 100, 5), DEVIATES, "? + 100 steps, 5 repeats"),
        (StatedProtocol(20, 100), NOT_STATED, "20 + 100 steps"),
        (StatedProtocol(repeats=1), DEVIATES, "1 repeat"),
        (StatedProtocol(), NOT_STATED, ""),
    ],
)
def test_a_stated_number_that_differs_deviates_and_a_missing_one_does_not(stated, outcome, text):
    assert stated.check(PRESCRIBED) == outcome
    assert str(stated) == text


def test_only_numbers_that_both_state_differ():
    first, second = StatedProtocol(20, 100, 7), StatedProtocol(None, 500, 5)
    assert first.differences(second) == {"measured steps": (100, 500), "repeats": (7, 5)}
    assert second.unstated == ("warm-up steps",)
    assert StatedProtocol.from_protocol(PRESCRIBED).differences(first) == {}
