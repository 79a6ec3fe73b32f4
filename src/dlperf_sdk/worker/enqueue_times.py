"""Interpret the times of some steps: how long the host enqueued them, waited for them, and read the losses.

The functions take these times as a mapping, `Times`.
"""

from typing import Any, Mapping

Times = Mapping[str, Any]
"""Times of some steps: `enqueue`, `synchronize` and `read`, in seconds; `device`, the steps' seconds on the device's
own clock, None without such a clock; and `steps`, the number of steps."""

LEFT = 1.0
"""Minimum work, in times of a step, that the device must have left when `step` returns, if steps are asynchronous."""
DONE = 0.4
"""Largest fraction of a step's time that the device may still need when `step` has returned, if the clock is
'blocking'. A step that waits only for its loss leaves the backward pass and the update, two thirds of its time."""
READ = 0.2
"""Largest share of the steps' total time that reading the losses may take, once `synchronize` has returned."""
EARLY = 0.05
"""Largest fraction of the device's time that may remain when `synchronize` returns (`unfinished_share`)."""


def total_seconds(times: Times) -> float:
    """Return the seconds from the first step's call until the last loss was read.

    Args:
        times: Seconds in which the host enqueued some steps (`enqueue`), waited for them (`synchronize`) and read their
            losses (`read`). The three are added up.
    """
    return float(times["enqueue"] + times["synchronize"] + times["read"])


def remaining_seconds(times: Times) -> float:
    """Return the seconds of work that the device had left when the last `step` returned.

    With a device's clock, this is `device` - `enqueue`, which is negative if the host took longer than the device;
    without one, it is `synchronize`.

    Args:
        times: Seconds in which the host enqueued some steps (`enqueue`) and waited for them (`synchronize`), and the
            steps' seconds on the device's own clock (`device`), None without such a clock.
    """
    waited = times["synchronize"] if times["device"] is None else times["device"] - times["enqueue"]
    return float(waited)


def unfinished_share(times: Times) -> float:
    """Return the fraction of the device's time that remained when `synchronize` returned: (device - host) / device.

    Here, host is `enqueue` + `synchronize`. The result is positive if `synchronize` returned before the device had
    finished, negative if the host took longer than the device, and 0.0 without a device's clock.

    Args:
        times: Seconds in which the host enqueued some steps (`enqueue`) and waited for them (`synchronize`), and the
            steps' seconds on the device's own clock (`device`), None without such a clock.
    """
    if not times["device"]:
        return 0.0
    return 1.0 - float((times["enqueue"] + times["synchronize"]) / times["device"])


def is_asynchronous(times: Times) -> bool:
    """Return True if the device had work for at least `LEFT` (1) steps left when the last `step` returned.

    A step's time is `total_seconds` divided by `steps`.

    Args:
        times: The times of some steps: `enqueue`, `synchronize` and `read` in seconds; `device` in seconds, None
            without a device's clock; and `steps`, the number of steps.
    """
    return remaining_seconds(times) * int(times["steps"]) >= LEFT * total_seconds(times)


def was_waited_for(times: Times) -> bool:
    """Return True if the steps had finished when `synchronize` returned.

    Two conditions must hold: reading the losses took at most the fraction `READ` (0.2) of the total time
    (`total_seconds`), and at most the fraction `EARLY` (0.05) of the device's time remained (`unfinished_share`).
    Without a device's clock, only the first matters.

    Args:
        times: The times of some steps: `enqueue`, `synchronize` and `read` in seconds; and `device` in seconds, None
            without a device's clock.
    """
    return bool(times["read"] <= READ * total_seconds(times)) and unfinished_share(times) <= EARLY


def was_done_at_once(times: Times) -> bool:
    """Return True if synchronizing and reading the losses took at most the fraction `DONE` (0.4) of a step's time.

    A step's time is `total_seconds` divided by `steps`.

    Args:
        times: The times of some steps: `enqueue`, `synchronize` and `read` in seconds; and `steps`, the number of
            steps.
    """
    return (total_seconds(times) - float(times["enqueue"])) * int(times["steps"]) <= DONE * total_seconds(
        times
    )


def is_plausible(clock: str, times: Times) -> bool:
    """Return True if the times confirm the clock that the runtime declares.

    "blocking" requires that the steps had almost finished when `step` returned (`was_done_at_once`). The other clocks
    require that the device still had work then (`is_asynchronous`), and none after `synchronize` (`was_waited_for`).

    Args:
        clock: `Runtime.clock`: "blocking", "lagged" or "event".
        times: The times of some steps: `enqueue`, `synchronize` and `read` in seconds; `device` in seconds, None
            without a device's clock; and `steps`, the number of steps.
    """
    if clock == "blocking":
        return was_done_at_once(times)
    return is_asynchronous(times) and was_waited_for(times)
