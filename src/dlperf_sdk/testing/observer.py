"""Test an observer: its hooks exist, and a run with it gives the same result as a run without it."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from dlperf_sdk.api import run
from dlperf_sdk.hookspecs import implemented_hooks
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing.conformance import Conformance, advice


class ObserverConformance(Conformance):
    """The conformance suite of an installed observer.

    Subclass it, and name the observer and a case that it observes.

        class TestMyObserver(ObserverConformance):
            observer = "my"
            framework, model = "numpy", "linear"
    """

    observer: ClassVar[str]
    """The name of the observer in the group `dlperf_sdk.observers`."""
    framework: ClassVar[str]
    """The framework of the case."""
    model: ClassVar[str]
    """The model of the case."""
    registry: ClassVar[Registry] = Registry()
    """The registry of plugins; by default, the installed ones."""

    @property
    def plugin(self) -> Any:
        """The observer, loaded.

        Raises:
            DlperfError: No such observer is installed, or it cannot be loaded.
        """
        return self.registry.load("observers", self.observer)

    def test_it_implements_hooks(self) -> None:
        """The observer implements at least one hook, and only hooks that exist, with arguments that these have."""
        assert implemented_hooks(self.plugin, self.observer), advice(
            f"{self.observer} implements no hook.",
            "an observer without hooks is never called",
            "decorate a method named after a hook with `dlperf_sdk.hookimpl`",
        )

    def test_it_follows_a_run(self) -> None:
        """Two runs of the suite's case with the observer succeed, and none of its hooks raises an exception."""
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = run(
                    self.framework,
                    self.model,
                    batch_size=4,
                    warmup=1,
                    steps=5,
                    repeats=2,
                    store=None,
                    registry=self.registry,
                    observers=[self.plugin],
                )
            assert result.failure is None, result.failure
            messages = [str(warning.message) for warning in caught if "observer" in str(warning.message)]
            assert not messages, advice(
                " ".join(messages),
                "an observer that raises is left out for the rest of the run",
                "catch what the tracker or the network may raise",
            )
