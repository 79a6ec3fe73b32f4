"""The controller half of a framework plugin: what it can do, and where its worker half is.

Nothing here, and nothing that a plugin puts beside it, may import the framework itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field, frozen

from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class EnvironmentSpec:
    """What one of a framework's environments consists of."""

    python: str
    """The versions of Python it runs on, as a specifier: `>=3.9,<3.12`."""
    requirements: tuple[str, ...]
    """What must be installed, as requirement specifiers; these are also checked in an existing environment."""
    lock: Path | None = None
    """Exact versions of everything, in requirements format, that the plugin ships and has been tested with."""
    uv_options: tuple[str, ...] = ()
    """Extra arguments for `uv pip install` that are tried when the configured indexes do not hold the requirements."""


def _names(given: Iterable[str]) -> frozenset[str]:
    """A function of ours, so that type checkers of plugins see what it takes."""
    return frozenset(given)


@frozen
class Capabilities:
    """What a framework's plugin offers. What is not listed is refused before anything starts."""

    devices: frozenset[str] = field(converter=_names, default=frozenset({"cpu"}))
    precisions: frozenset[str] = field(converter=_names, default=frozenset({"fp32"}))
    """`fp32`: float32 in everything. `tf32`: matrix products and convolutions round what they read to TF32.
    `amp-bf16` and `amp-fp16`: these products, forwards and backwards, read and give out that type. The parameters that
    the optimizer updates, what it is handed and keeps, the norms' statistics and the loss stay float32; what stands
    between two products (activation functions, softmax, residual sums) may be in either type, as the framework does it.
    """
    compilers: frozenset[str] = field(converter=_names, default=frozenset({"none"}))
    """`none` is how the framework trains where nobody asks for a compiler, and every plugin offers it: a framework that
    always compiles compiles under `none` as well, and says `none` in `observed`. The other names are for what has to be
    asked for, whatever the framework calls it: `inductor`, `xla`, `graph` (its own static graph), `cinn`."""
    strategies: frozenset[str] = field(converter=_names, default=frozenset({"independent"}))
    layouts: frozenset[str] = field(converter=_names, default=frozenset({"auto"}))
    data: frozenset[str] = field(converter=_names, default=frozenset({"synthetic"}))
    accumulation: bool = False


@define
class NoOptions:
    """The options of a framework or a model that has none."""


class Framework(ABC):
    """A deep-learning framework behind an adapter. Registered in the group `dlperf_sdk.frameworks`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    runtime: ClassVar[str]
    """`module:attribute` of the `dlperf_sdk.worker.interface.Runtime`."""
    trainers: ClassVar[Mapping[str, str]] = {}
    """Model name → `module:attribute` of the `dlperf_sdk.worker.interface.Trainer`."""
    processes: ClassVar[str] = "dlperf_sdk.worker.processes:one_per_device"
    """`module:attribute` of the pure function that lays out a case's processes."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Top-level packages that the worker half imports beside its own: the bundle takes them to the nodes."""
    capabilities: ClassVar[Capabilities] = Capabilities()
    lacks: ClassVar[Mapping[str, str]] = {}
    """A name that `capabilities` lack, such as `amp-bf16` or `nhwc` → why, in a sentence for whoever asks for it."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the plugin's own options, set with `--set NAME=VALUE`."""

    @abstractmethod
    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """The environment for this kind of device and, where it matters, this strategy and model."""

    def refuses(self, spec: RunSpec, options: Any) -> str | None:
        """Why a combination of offered capabilities cannot run, in a sentence; None if it can.

        All that `spec` names is offered on its own, and its `device` is decided: never `auto`. This is the place for
        "amp-fp16 needs a GPU", and for a compiler that cannot take one of the models: the suite tries it with the
        others. A model in fp32 without a compiler on one device is nothing that may be refused: leave that model out
        of `trainers`.

        `options` is an instance of `Options`: one that was changed and means nothing to the case, or cannot be had in
        it, is refused here as well, or two results would differ in a label only.
        """
        return None
