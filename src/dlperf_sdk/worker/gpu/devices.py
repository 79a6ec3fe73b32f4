"""Choose the devices of this node for an attempt, and the variables that restrict each worker to its own."""

import time
from typing import Dict, NamedTuple, Sequence, Tuple, Union

from dlperf_sdk.worker.gpu import gpus

_REPEATED = 2.0
"""Seconds between two looks at busy devices."""


class Chosen(NamedTuple):
    """The devices of one node, and notes for the result."""

    devices: Tuple[str, ...]
    """Identifiers: `cpu:0`, …, or UUIDs of GPUs."""
    notes: Tuple[str, ...]
    """Sentences that name the processes on busy GPUs; empty if idle devices sufficed."""


def choose(
    kind: str, count: int, host_index: int, host_count: int, on_busy: str, timeout: float
) -> Union[Chosen, str]:
    """Choose the devices of one node among those of its machine.

    With the kind `cuda`, each node on a machine chooses GPUs for all nodes there, which gives the same list, and takes
    its own slice of the list. With any other kind, the devices are `KIND:0`, `KIND:1`, …, numbered over the nodes on
    the machine, and the hardware is not examined.

    Args:
        kind: The kind of device: `cpu`, `cuda`, ….
        count: Number of devices of this node.
        host_index: Index of this node among those on the machine, from 0.
        host_count: Number of nodes on the machine.
        on_busy: What to do if there are not enough idle GPUs: `note` takes busy ones, `wait` looks again every two
            seconds, and `refuse` takes none.
        timeout: Seconds to wait for busy GPUs, if `on_busy` is `wait`.

    Returns:
        The devices, with notes about busy ones; or, if there are not enough, a text of one or more sentences with the
        reason.
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
    """Return the environment variables that restrict a worker to some devices; empty unless `kind` is `cuda`.

    Args:
        kind: The kind of device, such as `cpu` or `cuda`.
        identifiers: Identifiers of the worker's devices, UUIDs for `cuda`.

    Returns:
        For `cuda`, a dict of two variables: `CUDA_VISIBLE_DEVICES`, the identifiers in the given order, separated by
        commas; and `CUDA_DEVICE_ORDER`, which is `PCI_BUS_ID`.
    """
    if kind != "cuda":
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(identifiers), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
