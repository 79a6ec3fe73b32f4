"""Evidence that a replica's state changed in the window: a checksum of each of its tensors at its start and end."""

import zlib
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from dlperf_sdk.worker.interface import Trainer

Checksums = Mapping[str, Mapping[str, Optional[int]]]
"""Kind of tensor (`parameters`, `moments`, `running-means`) → name → CRC-32 of its values; None for a tensor of
zeros."""


def checksums(trainer: Trainer, replica: int) -> Checksums:
    """Return the checksums of one replica's parameters, optimizer moments and running means, read one tensor at a time.

    Args:
        trainer: The trainer, between two steps.
        replica: Index of the replica within this process, counted from 0.

    Returns:
        A dict of `parameters`, `moments` and `running-means`, each a dict of name → CRC-32 of the tensor's values, None
        for a tensor of zeros. An inner dict is empty if the trainer has no such tensors.
    """
    kinds: Dict[str, Iterable[Tuple[str, Any]]] = {
        "parameters": trainer.parameters(replica),
        "moments": trainer.moments(replica),
        "running-means": trainer.running_means(replica),
    }
    return {
        kind: {name: zlib.crc32(values) if values.any() else None for name, values in kinds[kind]}
        for kind in kinds
    }


def compare(before: Checksums, after: Checksums) -> Dict[str, Any]:
    """Compare a replica's checksums at the start and the end of the window.

    Args:
        before: The replica's checksums at the start, as `checksums` returns them.
        after: The replica's checksums at the end, as `checksums` returns them.

    Returns:
        A dict from each kind of tensor (`parameters`, `moments`, `running-means`) to a dict: `tensors`, the number of
        such tensors; `zeros`, the names of the tensors that are zero both times; and `unchanged`, the names of the
        other tensors whose checksums are equal both times.
    """
    changes = {}
    for kind, tensors in before.items():
        unchanged = [name for name, checksum in tensors.items() if after[kind].get(name, -1) == checksum]
        changes[kind] = {
            "tensors": len(tensors),
            "unchanged": [name for name in unchanged if tensors[name] is not None],
            "zeros": [name for name in unchanged if tensors[name] is None],
        }
    return changes
