"""Strategies: methods of gradient synchronization between replicas."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Strategy:
    """Everything that the core knows about a strategy. On a single device any strategy is only a label."""

    name: str
    """Name by which a spec selects the strategy."""
    help: str
    """Description for users, in a sentence."""
    syncs_gradients: bool = True
    """True if each replica learns from the samples of the others."""
    is_collective: bool = False
    """True if the replicas average their gradients among themselves, without servers."""
    is_asynchronous: bool = False
    """True if a replica updates the shared parameters without waiting for the others. There is then no single
    correct trajectory."""

    @property
    def keeps_replicas_equal(self) -> bool:
        """True if all replicas have equal parameters after each step."""
        return self.syncs_gradients and not self.is_asynchronous


INDEPENDENT = "independent"
"""No synchronization: a control for the effect of synchronization, and what a plugin offers by default."""

NO_STRATEGY = "none"
"""Strategy in the facts of a case with one device, where nothing is synchronized. No spec requests it."""

STRATEGIES = Table(
    "strategy",
    (
        Strategy(
            name="all_reduce",
            help="Replicas average their gradients by a collective operation.",
            is_collective=True,
        ),
        Strategy(
            name="parameter_server", help="Servers average the gradients of all replicas, step by step."
        ),
        Strategy(
            name="distributed_replicated",
            help="Servers apply the mean gradients to the parameters, step by step; each replica trains on a copy.",
        ),
        Strategy(
            name="parameter_server_async",
            help="Servers apply each replica's gradients as they come.",
            is_asynchronous=True,
        ),
        Strategy(name="horovod", help="Horovod averages the gradients.", is_collective=True),
        Strategy(
            name=INDEPENDENT,
            help="No synchronization: each replica trains alone, as a control.",
            syncs_gradients=False,
        ),
    ),
)
