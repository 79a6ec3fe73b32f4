"""The controller half of a framework plugin: what it can do, and where its worker half is.

Nothing here, and nothing that a plugin puts beside it, may import the framework itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field, frozen

from dlperf_sdk.errors import UnknownName
from dlperf_sdk.spec.compiler import COMPILERS, NONE, Compiler
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES

LAYOUTS = frozenset({"auto", "nchw", "nhwc"})
"""Memory layouts of images; `auto` is the framework's choice."""


@frozen
class EnvironmentSpec:
    """Contents of one of a framework's environments."""

    python: str
    """The versions of Python it runs on, as a specifier: `>=3.9,<3.12`."""
    requirements: tuple[str, ...]
    """Packages to install, as requirement specifiers; these are also checked in an existing environment."""
    lock: Path | None = None
    """Exact versions of everything, in requirements format, that the plugin ships and has been tested with."""
    uv_options: tuple[str, ...] = ()
    """Extra arguments for `uv pip install` that are tried when the configured indexes do not hold the requirements."""


# Each converter states what it takes, so that type checkers of plugins see it.


def _devices(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


def _layouts(names: Iterable[str]) -> frozenset[str]:
    for name in names:
        if name not in LAYOUTS:
            raise UnknownName("layout", name, LAYOUTS)
    return frozenset(names)


def _compilers(declared: Iterable[str | Compiler]) -> frozenset[str]:
    return frozenset(
        compiler.name if isinstance(compiler, Compiler) else COMPILERS[compiler].name for compiler in declared
    )


def _precisions(names: Iterable[str]) -> frozenset[str]:
    return frozenset(PRECISIONS[name].name for name in names)


def _strategies(names: Iterable[str]) -> frozenset[str]:
    return frozenset(STRATEGIES[name].name for name in names)


def _sources(names: Iterable[str]) -> frozenset[str]:
    return frozenset(DATA_SOURCES[name].name for name in names)


@frozen
class Capabilities:
    """Capabilities of a framework's plugin. What is not listed is refused before anything starts.

    Raises:
        UnknownName: the core has no precision, strategy, layout or data source, or compiler, of a name.
    """

    devices: frozenset[str] = field(converter=_devices, default=frozenset({"cpu"}))
    """Kinds of device; these are open."""
    precisions: frozenset[str] = field(converter=_precisions, default=frozenset({PRECISIONS.default}))
    """Names of `dlperf_sdk.spec.precision.PRECISIONS`, which say what is computed in which format."""
    compilers: frozenset[str] = field(converter=_compilers, default=frozenset({NONE}))
    """Names of `dlperf_sdk.spec.compiler.COMPILERS`, and a `Compiler` object for each that is not among them. Every
    plugin offers `none`."""
    strategies: frozenset[str] = field(converter=_strategies, default=frozenset({INDEPENDENT}))
    """Names of `dlperf_sdk.spec.strategy.STRATEGIES`."""
    layouts: frozenset[str] = field(converter=_layouts, default=frozenset({"auto"}))
    data: frozenset[str] = field(converter=_sources, default=frozenset({DATA_SOURCES.default}))
    """Names of `dlperf_sdk.spec.data_source.DATA_SOURCES`."""
    accumulation: bool = False


@define
class NoOptions:
    """The options of a framework or a model that has none."""


class Framework(ABC):
    """A deep-learning framework behind an adapter. Registered in the group `dlperf_sdk.frameworks`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    runtime: ClassVar[str]
    """The `dlperf_sdk.worker.interface.Runtime`, as ``module:attribute``."""
    trainers: ClassVar[Mapping[str, str]] = {}
    """Model name → its `dlperf_sdk.worker.interface.Trainer`, as ``module:attribute``."""
    processes: ClassVar[str] = "dlperf_sdk.worker.processes:one_per_device"
    """The pure function that lays out the processes of a case, as ``module:attribute``."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Top-level packages that the worker half imports beside its own: the bundle takes them to the nodes."""
    capabilities: ClassVar[Capabilities] = Capabilities()
    unsupported: ClassVar[Mapping[str, str]] = {}
    """A name that `capabilities` lack, such as `amp-bf16` or `nhwc` → why, in a sentence for whoever asks for it."""
    tuning_variables: ClassVar[Collection[str]] = ()
    """Environment variables of this framework that a file may set, for they only tune threads, memory, logging or
    transport. None may name a program, a library or a file."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the plugin's own options, set with `--set NAME=VALUE`."""

    @abstractmethod
    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for this kind of device and, where it matters, this strategy and model."""

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return the reason why a combination of offered capabilities cannot run, in a sentence; None if it can.

        Each capability that `spec` names is offered on its own, and its `device` is resolved: never `auto`. Refuse here
        what only a combination lacks: amp-fp16 without a GPU, or a compiler that does not support one of the models
        (the suite tests it with the others). Never refuse a model in fp32 without a compiler on one device: leave that
        model out of `trainers`.

        `options` is an instance of `Options`. Also refuse an option that was changed but has no effect or no support in
        the case; otherwise two results would differ in a label only.
        """
        return None
