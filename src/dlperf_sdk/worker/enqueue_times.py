"""Interpret the times of some steps: how long the host enqueued them, waited for them, and read the losses.

The functions take these times as a mapping: `enqueue`, `synchronize` and `read`, in seconds; `device`, the steps'
seconds on the device's own clock, None without such a clock; and `steps`, the number of steps.
"""

from typing import Any, Mapping

Times = Mapping[str, Any]

LEFT = 1.0
"""Fewest steps, in time, that the device must have left when `step` returns, if steps are asynchronous."""
DONE = 0.4
"""Largest share of a step that may be left when `step` has returned, if the clock is 'blocking'. A step that waits
for its loss alone leaves its backward pass and its update, two thirds of it."""
READ = 0.2
"""Largest share of the steps' total time that reading the losses may take, once `synchronize` has returned."""
EARLY = 0.05
"""Largest share of the device's time, by its events, that may not have passed when `synchronize` returns."""


def total_seconds(times: Times) -> float:
    """Return the seconds from the first step's call until the last loss was read: enqueue, synchronize and read."""
    return float(times["enqueue"] + times["synchronize"] + times["read"])


def remaining_seconds(times: Times) -> float:
    """Return the seconds of work that the device had left when the last `step` returned.

    They are the device's time minus the enqueueing time; without a device's clock, the time that `synchronize` took.
    """
    waited = times["synchronize"] if times["device"] is None else times["device"] - times["enqueue"]
    return float(waited)


def unfinished_share(times: Times) -> float:
    """Return by how much the host's time falls short of the device's: (device - host) / device.

    The device's time lies between its events. The host's time is that of all `step` calls and of `synchronize`. The
    result is positive if `synchronize` returned before the device was done, negative if the host took longer than the
    device, and 0.0 if the device has no clock.
    """
    if not times["device"]:
        return 0.0
    return 1.0 - float((times["enqueue"] + times["synchronize"]) / times["device"])


def is_asynchronous(times: Times) -> bool:
    """Return True if the device had work for at least `LEFT` steps left when the last `step` returned."""
    return remaining_seconds(times) * int(times["steps"]) >= LEFT * total_seconds(times)


def was_waited_for(times: Times) -> bool:
    """Return True if the steps had finished when `synchronize` returned.

    Reading the losses may take the share `READ` of the total time, and the device's events may end later by the
    share `EARLY` of the device's time.
    """
    return bool(times["read"] <= READ * total_seconds(times)) and unfinished_share(times) <= EARLY


def was_done_at_once(times: Times) -> bool:
    """Return True if at most the share `DONE` of a step's time was left when the last `step` returned."""
    return (total_seconds(times) - float(times["enqueue"])) * int(times["steps"]) <= DONE * total_seconds(
        times
    )


def is_plausible(clock: str, times: Times) -> bool:
    """Return True if the times confirm the runtime's declared clock.

    Args:
        clock: `Runtime.clock`: "blocking", "lagged" or "event".
        times: The times of some steps.
    """
    if clock == "blocking":
        return was_done_at_once(times)
    return is_asynchronous(times) and was_waited_for(times)
