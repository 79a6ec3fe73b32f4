"""The canonical weights and batches: the same numbers for every framework, in every NumPy from 1.17 on.

Each array is a function of the seed and its own name alone (a batch also of its shard), not of earlier draws: the
order of a manifest does not matter, and one parameter can be made without the others. The draws come from
`numpy.random.RandomState`, whose streams are frozen, seeded with the SHA-256 of the key. They are made in float64,
multiplied once, and rounded once to float32. So where another C library or processor rounds a logarithm differently,
only one value in some hundred million changes, by its last bit.

Kinds of `init`, for weights:

    normal             std           mean 0, this standard deviation
    truncated-normal   std, bound    the same without the draws beyond `bound` standard deviations
    constant           value

Kinds of `fill`, for batches:

    normal                           mean 0, standard deviation 1
    integers           low, high     each from [low, high)
    distinct           low, high     along the last axis distinct and ascending, each from [low, high)
    segments                         along the last axis zeros, at least one, then ones, at least one
    constant           value

Sample i of a batch is the i-th that its streams give: a smaller batch is the beginning of a larger one.

The *fingerprint* of an update, or of any other array, serves to compare the array with another one: its 2-norm and
its products with eight canonical vectors of ±1. For two arrays a and b of one name, the root mean square of the
differences of those products estimates ‖a - b‖, without either array being kept: E⟨a - b, u⟩² = ‖a - b‖² for
independent signs u (W. B. Johnson and J. Lindenstrauss, 1984; with signs: D. Achlioptas, JCSS 66, 2003).
"""

import hashlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy

if TYPE_CHECKING:
    from dlperf_sdk.worker.request import Request

PARITY_SHARDS = 2
"""Number of shards that the replicas of a parity run train on."""

_CHUNK = 1 << 18  # Draws at a time: 2 MiB of float64 stay in a core's cache. No value depends on it.

PROJECTIONS = 8
"""Number of products in a fingerprint, as many as a byte has bits. They estimate a norm to about 25 %."""


_SIGNS = 2.0 * numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1) - 1.0
"""The signs that the bits of each byte stand for: (256, 8)."""


def batch_of(request: "Request", replica: int) -> Dict[str, numpy.ndarray]:
    """Return the canonical batch of one replica: input name → C-contiguous (batch size, …) array of the input's dtype.

    Every replica has its own shard, so that replicas which are not synchronized get different weights. In the
    parity program, replica r has shard r mod `PARITY_SHARDS` (2): with two shards, one reference trajectory is valid
    for every even number of replicas.

    Args:
        request: The case; its inputs, batch size, seed and program are used.
        replica: The replica's global index.

    Raises:
        ValueError: An input has an unknown kind of `fill`.
    """
    shard = replica % PARITY_SHARDS if request.program == "parity" else replica
    return batch(request.inputs, request.batch_size, shard, request.seed)


def weights(parameters: Iterable[Mapping[str, Any]], seed: int) -> Iterator[Tuple[str, numpy.ndarray]]:
    """Yield name and canonical values of each parameter of a manifest, in the order of the manifest.

    The values are C-contiguous float32 arrays, made one after another.

    Args:
        parameters: The manifest, `Request.parameters`, of whose entries `name`, `shape` and `init` are read.
        seed: `Request.seed`.

    Raises:
        ValueError: An entry has an unknown kind of `init`.
    """
    for parameter in parameters:
        name, shape, init = parameter["name"], tuple(parameter["shape"]), parameter["init"]
        kind = init["kind"]
        if kind == "normal":
            array = _normal(_stream(seed, "weights", name), shape, init["std"])
        elif kind == "truncated-normal":
            array = _normal(_stream(seed, "weights", name), shape, init["std"], init["bound"])
        elif kind == "constant":
            array = numpy.full(shape, init["value"], numpy.float32)
        else:
            raise ValueError("the parameter %s asks for an unknown kind of init: %r" % (name, kind))
        yield name, array


def batch(
    inputs: Iterable[Mapping[str, Any]], batch_size: int, shard: int, seed: int
) -> Dict[str, numpy.ndarray]:
    """Return a canonical batch: input name → C-contiguous array (batch_size, …) of the input's dtype.

    Args:
        inputs: `Request.inputs`, of whose entries `name`, `shape` (of one sample), `dtype` and `fill` are read.
        batch_size: Number of samples.
        shard: Number of the batch; different numbers give different batches.
        seed: `Request.seed`.

    Raises:
        ValueError: An input has an unknown kind of `fill`.
    """
    arrays = {}
    for item in inputs:
        name, shape = item["name"], (batch_size,) + tuple(item["shape"])
        array = _fill(item["fill"], shape, _stream(seed, "batch", shard, name))
        arrays[name] = numpy.ascontiguousarray(array, item["dtype"])
    return arrays


def fingerprint(name: str, after: numpy.ndarray, before: Optional[numpy.ndarray] = None) -> List[float]:
    """Return the fingerprint of the array `after - before`: its 2-norm, then `PROJECTIONS` (8) projections.

    Projection k is the dot product of the array, flattened in C order, with a vector of signs. Element i of the vector
    is bit k of byte i of the name's random stream: +1 for a set bit, else -1. Bit 0 is the most significant. The
    computation is in float64.

    Args:
        name: The array's name, which determines the signs.
        after: An array of any shape, such as a parameter after a step.
        before: An array of the same shape, such as the parameter before the step; None for zeros.

    Returns:
        A list of nine numbers, NaN or infinite if an element is not finite.
    """
    stream = _stream("signs", name)
    new, old = after.reshape(-1), None if before is None else before.reshape(-1)
    squares, products = 0.0, numpy.zeros(PROJECTIONS)
    for start in range(0, new.size, _CHUNK):
        piece = new[start : start + _CHUNK].astype(numpy.float64)
        if old is not None:
            piece -= old[start : start + _CHUNK]
        signs = numpy.frombuffer(stream.bytes(piece.size), numpy.uint8)
        squares += float(piece @ piece)
        # Elements with the same byte of signs are added up first; then 256 sums are multiplied by their signs.
        products += numpy.bincount(signs, piece, 256) @ _SIGNS
    return [squares**0.5] + products.tolist()


def _stream(*key: Any) -> numpy.random.RandomState:
    """Return a separate random stream for a key."""
    digest = hashlib.sha256("/".join(str(part) for part in key).encode("utf-8")).digest()
    return numpy.random.RandomState(numpy.frombuffer(digest, "<u4").astype(numpy.uint32))


def _normal(
    stream: numpy.random.RandomState, shape: Tuple[int, ...], std: float = 1.0, bound: Optional[float] = None
) -> numpy.ndarray:
    """Return the stream's first normal draws, or the first that lie within ± bound, times std."""
    flat = numpy.empty(int(numpy.prod(shape, dtype=numpy.int64)), numpy.float32)
    filled = 0
    while filled < flat.size:
        draws = stream.standard_normal(min(_CHUNK, flat.size - filled))
        if bound is not None:
            draws = draws[numpy.abs(draws) <= bound]
        flat[filled : filled + draws.size] = draws * std
        filled += draws.size
    return flat.reshape(shape)


def _fill(fill: Mapping[str, Any], shape: Tuple[int, ...], stream: numpy.random.RandomState) -> numpy.ndarray:
    """Return a batch's values, before they take the input's dtype."""
    kind = fill["kind"]
    if kind == "normal":
        return _normal(stream, shape)
    if kind == "integers":
        return stream.randint(fill["low"], fill["high"], shape, dtype=numpy.int64)
    if kind == "distinct":
        # The ranking of uniform draws is a random permutation; its beginning is a draw without replacement.
        draws = stream.random_sample(shape[:-1] + (fill["high"] - fill["low"],))
        chosen = numpy.argsort(draws, axis=-1, kind="stable")[..., : shape[-1]]
        ranked: numpy.ndarray = fill["low"] + numpy.sort(chosen, axis=-1)
        return ranked
    if kind == "segments":
        first = stream.randint(1, shape[-1], shape[:-1] + (1,), dtype=numpy.int64)
        return numpy.arange(shape[-1]) >= first
    if kind == "constant":
        return numpy.full(shape, fill["value"])
    raise ValueError("an input asks for an unknown kind of fill: %r" % (kind,))
