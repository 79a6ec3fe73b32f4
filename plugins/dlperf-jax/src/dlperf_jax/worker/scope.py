"""The variables of a network in one trace, and the layers that both models have."""

import jax
import jax.numpy as jnp

from dlperf_sdk.worker.base_trainer import ManifestError


class Scope:
    """Weights by the manifest's names, running statistics, and dropout, for one call of a network.

    A network reads weights with `scope[name]`; those that `names` holds in the end are its parameters. It is traced
    once: what it writes to `statistics` are the values that the step returns.
    """

    def __init__(self, weights, statistics, dtype, dropout=0.0, key=None):
        self.dtype = dtype
        """Type in which convolutions and matrix products are computed."""
        self.statistics = dict(statistics)
        self.names = set()
        self._weights, self._dropout, self._key = weights, dropout, key

    def __getitem__(self, name):
        """Return a weight as it is stored.

        Raises:
            ManifestError: the manifest has no such parameter.
        """
        if name not in self._weights:
            raise ManifestError("the manifest lacks the network's parameter %s" % name)
        self.names.add(name)
        return self._weights[name]

    def move_statistic(self, name, initial, value, momentum):
        """Move the running statistic of this name, at first `initial`, by the share `momentum` towards a new value."""
        before = self.statistics.get(name, jnp.full_like(value, initial))
        self.statistics[name] = (1 - momentum) * before + momentum * value

    def dropout(self, x):
        """Set a random part of x to zero, and scale the rest up; return x unchanged if the rate of dropout is 0."""
        if not self._dropout:
            return x
        self._key, key = jax.random.split(self._key)
        keep = 1 - self._dropout
        return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, jnp.zeros_like(x))


def linear(scope, name, x):
    """Return x · Wᵀ + b of the layer of this name.

    W is (out, in) as in the manifest: XLA transposes nothing for it.
    """
    product = jnp.einsum("...i,oi->...o", x, scope[name + ".weight"].astype(x.dtype))
    return product + scope[name + ".bias"].astype(x.dtype)
