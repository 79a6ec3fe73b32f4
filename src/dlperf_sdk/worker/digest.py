"""A replica's parameters held to the manifest, and their digest: equal digests are equal weights."""

import hashlib
from itertools import zip_longest
from typing import Any, Iterable, Iterator, Mapping, Sequence, Tuple


def check_places(
    manifest: Sequence[Mapping[str, Any]], parameters: Iterable[Tuple[str, Any]]
) -> Iterator[Tuple[str, Any]]:
    """Yield the parameters that `Trainer.parameters` gives, each checked against its place in the manifest.

    Raises ValueError, which names the parameter, where they are not the manifest's: another name, shape, type or
    order of memory in some place, one too few or too many.
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
    """Return the SHA-256 over the parameters as float32 in C order, one after another as the manifest lists them.

    Raises ValueError as `check_places` does.
    """
    digest = hashlib.sha256()
    for _, values in check_places(manifest, parameters):
        digest.update(values.data)
    return digest.hexdigest()
