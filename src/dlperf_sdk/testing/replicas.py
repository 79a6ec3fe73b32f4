"""Test two replicas: equal if their gradients are synchronized, different if they are not."""

from __future__ import annotations

import math

import attrs
import pytest

from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject, describe


class Replicas(FrameworkSubject):
    """Tests of two replicas on one node, each of which trains on its own canonical shard.

    Each test is skipped where its case cannot run: see `FrameworkSubject`.
    """

    def test_replicas_are_equal(self, pair: Cell) -> None:
        """With the settings of `pair`, a run of two replicas is valid, and both end with equal parameters.

        If the strategy of `pair` is asynchronous, the replicas may differ: the run must only be valid. `pair` is a
        combination of model, strategy, precision and compiler for two replicas.
        """
        spec = self.spec_of(pair)
        result = self.require_valid_result(spec)
        if STRATEGIES[spec.strategy].is_asynchronous:
            return  # nobody waits for the others: it trains, and no more is promised
        first, second = _digests(result)
        assert first == second, advice(
            f"{describe(spec)}: the replicas end with different parameters ({first[:12]} and {second[:12]}).",
            "replicas that drift apart do less work than they should: they do not train one model",
            "average the gradients of all replicas before every update, and keep the update itself deterministic",
        )

    def test_asynchronous_replicas_exchange_updates(self, pair: Cell) -> None:
        """If the strategy of `pair` is asynchronous, replica 0 of two has other losses than a replica alone.

        With asynchronous updates no single trajectory is correct, but that of a replica alone is wrong. Skipped with
        other strategies, and in narrow precisions, whose rounding may hide the other replica's updates. `pair` is a
        combination of model, strategy, precision and compiler for two replicas.
        """
        spec = self.spec_of(pair)
        if not STRATEGIES[spec.strategy].is_asynchronous:
            pytest.skip("its replicas wait for each other: `test_replicas_are_equal` holds them")
        if PRECISIONS[spec.precision].is_narrow:
            pytest.skip("its rounding may hide what one replica changes for the other: fp32 shows it")
        single = _losses(self.require_valid_result(attrs.evolve(spec, topology=TopologySpec(1, 1))))[0]
        paired = _losses(self.require_valid_result(spec))[0]
        is_equal = all(
            math.isclose(alone_loss, paired_loss, rel_tol=PRECISIONS[spec.precision].loss_tolerance)
            for alone_loss, paired_loss in zip(single, paired, strict=True)
        )
        assert not is_equal, advice(
            f"{describe(spec)}: replica 0 has the losses of a replica that trains alone ({list(paired)}).",
            "replicas that exchange nothing are faster than any that do",
            "let every replica update the variables that all of them read",
        )

    def test_replicas_see_different_samples(self, pair: Cell) -> None:
        """With the settings of `pair`, the two replicas have different losses in the first step.

        Each of the two trains on its own canonical shard. `pair` is a combination of model, strategy, precision and
        compiler for two replicas.
        """
        spec = self.spec_of(pair)
        first, second = _losses(self.require_valid_result(spec))
        assert first[0] != second[0], advice(
            f"{describe(spec)}: both replicas have the loss {first[0]} on their first batch.",
            "replicas that train on the same samples need no synchronization to be equal, and do half the work",
            "take `canonical.batch_of(request, replica)` of the global index in `process.replicas`",
        )

    def test_independent_replicas_exchange_nothing(self) -> None:
        """With the strategy `independent`, the two replicas of a run end with different parameters.

        This test is the control: without it, equal replicas would prove nothing. Skipped if the plugin does not declare
        the strategy.
        """
        if INDEPENDENT not in self.plugin.capabilities.strategies:
            pytest.skip(f"the plugin does not declare the strategy {INDEPENDENT!r}")
        spec = self.select_accepted_spec(topology="1n2d", strategy=INDEPENDENT)
        first, second = _digests(self.require_valid_result(spec))
        assert first != second, advice(
            f"{describe(spec)}: the replicas end equal, although their gradients should not be synchronized.",
            "either they are synchronized, or both replicas train on the same samples, which hides the difference",
            f"with the strategy {INDEPENDENT!r}, synchronize nothing; and train each replica on its own shard, "
            "`canonical.batch_of`",
        )


def _digests(result: Result) -> list[str]:
    return [replica.digest or "" for record in result.repeats[0].records for replica in record.replicas]


def _losses(result: Result) -> list[tuple[float, ...]]:
    return [
        tuple(replica.canonical_losses) for record in result.repeats[0].records for replica in record.replicas
    ]
