"""Interpret the times of some steps: how long the host enqueued them, waited for them, and read the losses.

Times are seconds, by name; `device` is None where no clock of the device's own keeps time.
"""

from typing import Any, Mapping

Times = Mapping[str, Any]

LEFT = 1.0
"""Fewest steps left for `synchronize` where `step` does not wait."""
DONE = 0.4
"""Largest share of a step that is left when `step` has returned, where the clock is 'blocking'. A step that waits for
its loss alone leaves its backward pass and its update, two thirds of it."""
READ = 0.2
"""The most of the steps' time that may be left for reading the losses, once `synchronize` has returned."""
EARLY = 0.05
"""The most by which the device's own events may say that the steps took longer than the host waited."""


def total_seconds(times: Times) -> float:
    """Return the seconds from the first step's call until the last loss was read: enqueue, synchronize and read."""
    return float(times["enqueue"] + times["synchronize"] + times["read"])


def remaining_seconds(times: Times) -> float:
    """Return the seconds of work that the device had left when the last `step` returned.

    They come from the device's events, or else from how long the host waited in `synchronize`.
    """
    waited = times["synchronize"] if times["device"] is None else times["device"] - times["enqueue"]
    return float(waited)


def unfinished_share(times: Times) -> float:
    """Return the part of the device's time, by its events, that had not passed when `synchronize` returned."""
    if not times["device"]:
        return 0.0
    return 1.0 - float((times["enqueue"] + times["synchronize"]) / times["device"])


def is_asynchronous(times: Times) -> bool:
    """Return True if the device had the work of at least `LEFT` steps left when the last `step` returned."""
    return remaining_seconds(times) * int(times["steps"]) >= LEFT * total_seconds(times)


def was_waited_for(times: Times) -> bool:
    """Return True if the steps were done when `synchronize` returned, within `READ` and `EARLY`."""
    return bool(times["read"] <= READ * total_seconds(times)) and unfinished_share(times) <= EARLY


def was_done_at_once(times: Times) -> bool:
    """Return True if at most `DONE` of a step's time was left when the last `step` returned."""
    return (total_seconds(times) - float(times["enqueue"])) * int(times["steps"]) <= DONE * total_seconds(
        times
    )


def is_plausible(clock: str, times: Times) -> bool:
    """Return True if the times confirm the declared clock, so that no further try is needed."""
    if clock == "blocking":
        return was_done_at_once(times)
    return is_asynchronous(times) and was_waited_for(times)
