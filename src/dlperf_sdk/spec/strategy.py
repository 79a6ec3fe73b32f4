"""Strategies: how replicas synchronize their gradients."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.table import Table


@frozen(kw_only=True)
class Strategy:
    """All that the core knows of one strategy. With one device nothing is synchronized, and any strategy is a label."""

    name: str
    help: str
    syncs_gradients: bool = True
    """True if replicas learn from each other's samples."""
    is_asynchronous: bool = False
    """True if a replica updates the shared parameters without waiting for the others: no one trajectory is right."""

    @property
    def keeps_replicas_equal(self) -> bool:
        """Return True if all replicas have the same parameters after each step."""
        return self.syncs_gradients and not self.is_asynchronous


INDEPENDENT = "independent"
"""No synchronization: the control of what synchronization changes, and what a plugin offers unless it says more."""

NO_STRATEGY = "none"
"""The strategy in the facts of a case with one device, where nothing is synchronized; no spec asks for it."""

STRATEGIES = Table(
    "strategy",
    (
        Strategy(name="all_reduce", help="Replicas average their gradients by a collective operation."),
        Strategy(
            name="parameter_server", help="Servers average the gradients of all replicas, step by step."
        ),
        Strategy(
            name="parameter_server_async",
            help="Servers apply each replica's gradients as they come.",
            is_asynchronous=True,
        ),
        Strategy(name="horovod", help="Horovod averages the gradients."),
        Strategy(
            name=INDEPENDENT,
            help="No synchronization: each replica trains alone, as a control.",
            syncs_gradients=False,
        ),
    ),
)
