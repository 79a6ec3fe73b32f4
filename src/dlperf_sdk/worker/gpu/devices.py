"""Choose the devices of this node that an attempt takes, and the variables that show each worker its own."""

import time
from typing import Dict, NamedTuple, Sequence, Tuple, Union

from dlperf_sdk.worker.gpu import gpus

_REPEATED = 2.0
"""Seconds between two looks at busy devices."""


class Chosen(NamedTuple):
    """The devices of one node, by identifier, and what there is to say about them."""

    devices: Tuple[str, ...]
    notes: Tuple[str, ...]


def choose(
    kind: str, count: int, host_index: int, host_count: int, on_busy: str, timeout: float
) -> Union[Chosen, str]:
    """Return the `count` devices of a kind for node `host_index` of the `host_count` that share this machine.

    The nodes of one machine compute the same choice, so each takes its own slice of it.

    Args:
        kind: The kind of device.
        count: Devices of this node.
        host_index: This node among those on the machine, from 0.
        host_count: Nodes on the machine.
        on_busy: What to do about busy GPUs; with `wait` they are looked at again.
        timeout: Seconds to wait for busy GPUs.

    Returns:
        The devices; a sentence with the reason if there are not enough.
    """
    if kind != "cuda":
        return Chosen(tuple("%s:%d" % (kind, host_index * count + i) for i in range(count)), ())
    end = time.monotonic() + timeout
    while True:
        choice = gpus.survey(count * host_count, on_busy)
        if choice.uuids:
            own_uuids = choice.uuids[host_index * count : (host_index + 1) * count]
            return Chosen(own_uuids, (choice.message,) if choice.message else ())
        if not (choice.busy and on_busy == "wait" and time.monotonic() < end):
            advice = (
                " Free them, or choose what to do about it: on_busy wait, note or refuse."
                if choice.busy
                else ""
            )
            return choice.message + advice
        time.sleep(_REPEATED)


def visible(kind: str, identifiers: Sequence[str]) -> Dict[str, str]:
    """Return the environment variables that show a worker only the devices with these identifiers; none for `cpu`."""
    if kind != "cuda":
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(identifiers), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
