"""A replica's parameters, checked against the manifest, and their digest: equal digests mean equal weights."""

import hashlib
from itertools import zip_longest
from typing import Any, Iterable, Iterator, Mapping, Sequence, Tuple


def check_places(
    manifest: Sequence[Mapping[str, Any]], parameters: Iterable[Tuple[str, Any]]
) -> Iterator[Tuple[str, Any]]:
    """Yield name and values of each parameter, checked against its place in the manifest.

    Args:
        manifest: `Request.parameters`.
        parameters: What `Trainer.parameters` yields.

    Raises:
        ValueError: A parameter has another name, shape or type than the manifest's in this place, or is not
            contiguous in C order; or there are too few or too many. The message names the parameter.
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
    """Return the SHA-256, in hexadecimal, of all parameters: float32 in C order, in the manifest's order.

    Args:
        manifest: `Request.parameters`.
        parameters: What `Trainer.parameters` yields.

    Raises:
        ValueError: The parameters are not the manifest's, as in `check_places`.
    """
    digest = hashlib.sha256()
    for _, values in check_places(manifest, parameters):
        digest.update(values.data)
    return digest.hexdigest()
