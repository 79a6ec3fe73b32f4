"""Compare the output of `nvidia-smi` about a GPU, while a case runs on it, with what dlperf-sdk reads through NVML.

Both get their numbers from one driver, in different ways: a wrong unit, a wrong device or a wrong window would show.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from dlperf_sdk.measurers import series
from dlperf_sdk.results.records import Repeat, Window

MEBI = 2**20
_INTERVAL = 200
"""Milliseconds between two lines of nvidia-smi."""


class Quantity(NamedTuple):
    """A quantity that both nvidia-smi and the samplers of dlperf-sdk report."""

    name: str
    """As a sampler calls it, and in its unit."""
    query: str
    """Name of the quantity in nvidia-smi's query."""
    scale: float
    """Factor from nvidia-smi's unit to the sampler's unit."""
    relative: float
    """Allowed difference of the two means over a window, as a fraction of nvidia-smi's; `absolute` is added."""
    absolute: float
    """Allowed difference that does not depend on the value, in the sampler's unit."""


QUANTITIES = (
    Quantity("power", "power.draw", 1.0, 0.05, 2.0),
    Quantity("clock", "clocks.sm", 1.0, 0.02, 15.0),
    Quantity("utilization", "utilization.gpu", 1.0, 0.0, 5.0),
    Quantity("memory", "memory.used", MEBI, 0.01, 64 * MEBI),
    Quantity("temperature", "temperature.gpu", 1.0, 0.0, 2.0),
)
"""Both look a few times a second at numbers that the driver renews as often, each at its own moments."""
ENERGY = 0.05
"""The energy counter's growth may differ from nvidia-smi's mean power times the window by this fraction."""


class Line(NamedTuple):
    """The values in one line of nvidia-smi's output, which is about one GPU."""

    time: float
    """Time at which the line was read, on the monotonic clock, in seconds."""
    uuid: str
    values: Mapping[str, float]
    """Name of the quantity → value in the sampler's unit, without quantities that the driver does not support."""


def parsed(time: float, line: str) -> Line | None:
    """Return the values in a line that nvidia-smi prints; None for a line without values, such as an error message.

    Args:
        time: Time at which the line was read, on the monotonic clock, in seconds.
        line: The line, in the format `csv,noheader,nounits`: the GPU's UUID, then the values of `QUANTITIES`.
    """
    uuid, *cells = [cell.strip() for cell in line.split(",")]
    if not uuid.startswith("GPU-") or len(cells) != len(QUANTITIES):
        return None
    values = {}
    for quantity, cell in zip(QUANTITIES, cells, strict=True):
        try:
            values[quantity.name] = float(cell) * quantity.scale
        except ValueError:  # "[N/A]", "[Not Supported]"
            continue
    return Line(time, uuid, values)


@contextmanager
def watching() -> Iterator[list[Line]]:
    """Return a context manager that runs nvidia-smi during its block, and yields a list of its lines.

    The list grows until the end of the block: a few times a second, it gets a line for each GPU.

    Raises:
        OSError: There is no nvidia-smi.
    """
    query = ",".join(["uuid", *(quantity.query for quantity in QUANTITIES)])
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-lms", str(_INTERVAL)]
    lines: list[Line] = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as smi:

        def read() -> None:
            assert smi.stdout is not None
            for text in smi.stdout:
                line = parsed(time.monotonic(), text)
                if line is not None:
                    lines.append(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield lines
        finally:
            smi.terminate()
            reader.join()


class Agreement(NamedTuple):
    """Comparison of one quantity of one device, as mean over one window, by the samplers and by nvidia-smi."""

    name: str
    device: str
    ours: float | None
    """The samplers' mean, in their unit; None if they have no value."""
    theirs: float | None
    """The mean of nvidia-smi, in the samplers' unit; None if it has no value."""
    within: bool | None
    """True if the two means are close enough; None if one has no value."""


def agreements(repeat: Repeat, lines: Iterable[Line]) -> list[Agreement]:
    """Return a comparison of the samplers with nvidia-smi for each device and quantity: the means over the window.

    The order is that of the records, their replicas, and `QUANTITIES`, after which energy follows.

    Args:
        repeat: The repeat, with the series of the samplers.
        lines: Lines of nvidia-smi, as `watching` collects them.
    """
    every = list(lines)
    actual: list[Agreement] = []
    for record in repeat.records:
        for replica in record.replicas:
            during = [
                line
                for line in every
                if line.uuid == replica.device and record.window.start <= line.time <= record.window.end
            ]
            theirs = {
                quantity.name: statistics.fmean(message)
                for quantity in QUANTITIES
                if (
                    message := [line.values[quantity.name] for line in during if quantity.name in line.values]
                )
            }
            actual += _of_device(repeat, record.node, replica.device, record.window, theirs)
    return actual


def _of_device(
    repeat: Repeat, node: int, device: str, window: Window, theirs: Mapping[str, float]
) -> Iterator[Agreement]:
    """Of every quantity, and of the energy, which nvidia-smi does not tell but as power times time."""
    sampled = {
        one_series.name: one_series
        for one_series in repeat.series
        if (one_series.node, one_series.device) == (node, device)
    }
    for quantity in QUANTITIES:
        ours = series.mean(sampled[quantity.name], window) if quantity.name in sampled else None
        message = theirs.get(quantity.name)
        yield _agreement(quantity.name, device, ours, message, quantity.relative, quantity.absolute)
    joules = series.growth(sampled["energy"], window) if "energy" in sampled else None
    product = theirs["power"] * window.seconds if "power" in theirs else None
    yield _agreement("energy", device, joules, product, ENERGY, 0.0)


def _agreement(
    name: str, device: str, ours: float | None, theirs: float | None, relative: float, absolute: float
) -> Agreement:
    within = None
    if ours is not None and theirs is not None:
        within = abs(ours - theirs) <= relative * abs(theirs) + absolute
    return Agreement(name, device, ours, theirs, within)
