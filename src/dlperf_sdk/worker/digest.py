"""A replica's parameters, checked against the manifest, and their digest: equal digests mean equal weights."""

import hashlib
from itertools import zip_longest
from typing import Any, Iterable, Iterator, Mapping, Sequence, Tuple


def check_places(
    manifest: Sequence[Mapping[str, Any]], parameters: Iterable[Tuple[str, Any]]
) -> Iterator[Tuple[str, Any]]:
    """Yield the given pairs of name and values, each checked against the manifest's entry in the same place.

    Args:
        manifest: `Request.parameters`, of whose entries `name` and `shape` are read.
        parameters: Name and NumPy array of each parameter of a replica, as `Trainer.parameters` yields them.

    Raises:
        ValueError: A parameter has another name or shape than the manifest's entry, is not float32 or not contiguous
            in C order; or there are too few or too many parameters. The message names the parameter.
    """
    for entry, actual in zip_longest(manifest, parameters):
        if entry is None:
            raise ValueError("the trainer has a parameter %s that is not in the model's manifest" % actual[0])
        expected = (entry["name"], tuple(entry["shape"]), "float32")
        if actual is None:
            raise ValueError("the trainer lacks the manifest's parameter %s" % entry["name"])
        name, values = actual
        described = (name, tuple(values.shape), str(values.dtype))
        if described != expected:
            raise ValueError(
                "where the manifest has %s %s %s, the trainer has %s %s %s" % (expected + described)
            )
        if not values.flags.c_contiguous:
            raise ValueError("the trainer's parameter %s is not contiguous in C order" % name)
        yield name, values


def digest_of(manifest: Sequence[Mapping[str, Any]], parameters: Iterable[Tuple[str, Any]]) -> str:
    """Return the SHA-256, in hexadecimal, of the values of all parameters, in the manifest's order.

    Args:
        manifest: `Request.parameters`, of whose entries `name` and `shape` are read.
        parameters: Name and float32 NumPy array in C order of each parameter of a replica, as `Trainer.parameters`
            yields them.

    Raises:
        ValueError: A parameter has another name, shape or type than the manifest's entry in its place, or is not
            contiguous in C order; or there are too few or too many parameters.
    """
    digest = hashlib.sha256()
    for _, values in check_places(manifest, parameters):
        digest.update(values.data)
    return digest.hexdigest()
