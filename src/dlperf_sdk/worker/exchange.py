"""The exchange of gradients between replicas without their computation, for the part `communication`."""

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence

TOLERANCE = 0.05
"""Largest deviation of an exchanged value from the mean, relative to it: far above the rounding of any precision, and
far below the distance of the first and the last replica's values from the mean."""


class Buffer(NamedTuple):
    """One array of gradients that a replica exchanges, in host memory."""

    name: str
    """The name, for messages."""
    values: Any
    """The values: a NumPy array of any shape, in a type that NumPy computes with."""
    bytes: int
    """Number of bytes that are exchanged for it, in the type of the gradients."""


class GradientExchange:
    """The averaging of gradients over the replicas, as a training step does it, without the passes that compute them.

    The buffers have the sizes, the types and the order of those that a training step exchanges. A framework's plugin
    implements `run`, `fill` and `read`.
    """

    def run(self) -> Any:
        """Enqueue the averaging of all buffers over the replicas, in place and as the strategy does it.

        Returns:
            A handle for `Runtime.wait`; None if the runtime's clock is not "lagged".
        """
        raise NotImplementedError("an exchange implements run()")

    def fill(self, values: Sequence[float]) -> None:
        """Set all elements of each replica's buffers to the value of that replica. Called outside the window.

        Args:
            values: One value per replica of this process, in the order of the process's replicas.
        """
        raise NotImplementedError("an exchange implements fill()")

    def read(self, replica: int) -> Iterable[Buffer]:
        """Yield the buffers of one replica, in the order in which they are exchanged. Called outside the window.

        Args:
            replica: Index of the replica within this process, counted from 0.
        """
        raise NotImplementedError("an exchange implements read()")


class ArrayExchange(GradientExchange):
    """The exchange of one NumPy array, for frameworks whose gradients NumPy holds.

    Args:
        average: Function that takes this process's array, waits for the exchange with all other replicas, and returns
            an array with the mean of all replicas' arrays.
        like: An array with the shape and the type of the gradients; it is not changed.
    """

    def __init__(self, average: Callable[[Any], Any], like: Any) -> None:
        self._average, self._like = average, like
        self._gradients: Any = None

    def run(self) -> None:
        """Average the array over the replicas, and return when this has finished. `fill` must be called before."""
        self._gradients = self._average(self._gradients)

    def fill(self, values: Sequence[float]) -> None:
        """Set all elements of the array to `values[0]`, the value of this process's one replica."""
        self._gradients = self._like.copy()
        self._gradients.fill(values[0])

    def read(self, replica: int) -> Iterable[Buffer]:
        """Yield one buffer, the array of this process's one replica; `replica` is not used."""
        yield Buffer("gradients", self._gradients, self._gradients.nbytes)


def value_of(replica: int, replicas: int) -> float:
    """Return the value with which a replica's buffers are filled before the window.

    Args:
        replica: The replica's global index.
        replicas: Number of replicas in the case.

    Returns:
        1 + `replica` / `replicas`.
    """
    return 1 + replica / replicas


def _mean_value(replicas: int) -> float:
    """Return the value of all buffers after an exchange: the mean of `value_of` over `replicas` replicas."""
    return sum(value_of(replica, replicas) for replica in range(replicas)) / replicas


def inspect_buffers(
    exchange: GradientExchange, replicas: int, replicas_of_process: int
) -> List[Dict[str, Any]]:
    """Return an account of the buffers of each replica of this process, as the record has it.

    Args:
        exchange: The exchange, after the window.
        replicas: Number of replicas in the case.
        replicas_of_process: Number of replicas of this process.

    Returns:
        A list with a dict per replica, in the order of the process's replicas: `buffers`, the number of buffers;
        `elements` and `bytes`, the sums over all buffers; and `differing`, the names of the buffers with an element
        that is NaN, or deviates from the mean of `value_of` over all replicas by more than the fraction `TOLERANCE`
        (0.05).
    """
    mean = _mean_value(replicas)
    accounts = []
    for replica in range(replicas_of_process):
        account: Dict[str, Any] = {"buffers": 0, "elements": 0, "bytes": 0, "differing": []}
        for name, values, count in exchange.read(replica):
            account["buffers"] += 1
            account["elements"] += int(values.size)
            account["bytes"] += count
            # Written so that NaN differs.
            if not bool((abs(values - mean) <= TOLERANCE * mean).all()):
                account["differing"].append(name)
        accounts.append(account)
    return accounts
