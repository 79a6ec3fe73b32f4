"""The variables of a network in one trace, and the linear layer that both models use."""

import jax
import jax.numpy as jnp

from dlperf_sdk.worker.base_trainer import ManifestError


class Scope:
    """Weights by the manifest's names, running statistics, and dropout, for one call of a network.

    A network reads weights with `scope[name]`. After the call, `names` is the set of the names that were read, and
    `statistics` holds the new running statistics.

    Args:
        weights: Dict: a parameter's name → its array.
        statistics: Dict: a running statistic's name → its array; may be empty at first.
        dtype: Type in which convolutions and matrix products are computed.
        dropout: Rate of dropout, from 0 to 1.
        key: JAX's random key; may be None if `dropout` is 0.
    """

    def __init__(self, weights, statistics, dtype, dropout=0.0, key=None):
        self.dtype = dtype
        """Type in which convolutions and matrix products are computed."""
        self.statistics = dict(statistics)
        self.names = set()
        self._weights, self._dropout, self._key = weights, dropout, key

    def __getitem__(self, name):
        """Return a weight as it is stored, and add its name to `names`.

        Raises:
            ManifestError: The manifest has no such parameter.
        """
        if name not in self._weights:
            raise ManifestError("the manifest lacks the network's parameter %s" % name)
        self.names.add(name)
        return self._weights[name]

    def move_statistic(self, name, initial, value, momentum):
        """Set a running statistic to (1 - momentum) · its old value + momentum · `value`.

        Args:
            name: The statistic's name, such as `bn1.running_mean`.
            initial: Number: the old value of every element if the statistic does not exist yet.
            value: The statistic of this micro-batch, an array (channels,).
            momentum: Weight of `value`, from 0 to 1.
        """
        before = self.statistics.get(name, jnp.full_like(value, initial))
        self.statistics[name] = (1 - momentum) * before + momentum * value

    def dropout(self, x):
        """Return x after dropout with the rate that the scope was created with.

        Each element is set to 0 with the probability of this rate; the others are divided by 1 - rate. If the rate is
        0, x itself is returned. Each call draws with a new random key.
        """
        if not self._dropout:
            return x
        self._key, key = jax.random.split(self._key)
        keep = 1 - self._dropout
        return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, jnp.zeros_like(x))


def linear(scope, name, x):
    """Return the output of a linear layer, x · Wᵀ + b over the last axis of x, in the type of x.

    `name` is the layer's name in the manifest. `scope`, a `Scope`, holds W, (out, in), under NAME.weight, and b,
    (out,), under NAME.bias.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    product = jnp.einsum("...i,oi->...o", x, scope[name + ".weight"].astype(x.dtype))
    return product + scope[name + ".bias"].astype(x.dtype)
