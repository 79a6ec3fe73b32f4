"""The controller half of a framework plugin: capabilities, environments, and the location of the worker half.

Neither this module nor a plugin's module beside it may import the framework itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from attrs import define, evolve, field, frozen

from dlperf_sdk.errors import UnknownName
from dlperf_sdk.interfaces.trace import TraceEvents
from dlperf_sdk.spec.compiler import COMPILERS, NONE, Compiler
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import OF_EVERY_PLUGIN, PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES

T = TypeVar("T")

LAYOUTS = frozenset({"auto", "nchw", "nhwc"})
"""Memory layouts of images; `auto` is the framework's choice."""


@frozen
class SourceBuild:
    """A distribution that is built from source in the new environment, because it has no fitting wheels.

    It is built with the other distributions of the environment installed, such as its build tools and the framework
    that it extends. Its own dependencies are not installed: the requirements name them.
    """

    name: str
    """Name of the distribution. One of the environment's requirements has the name, and the version."""
    variables: Mapping[str, str] = {}
    """Environment variables that configure the build."""
    programs: tuple[str, ...] = ()
    """Programs that the build needs on PATH, such as a C++ compiler."""


@frozen
class EnvironmentSpec:
    """Contents of an environment that runs a framework's workers."""

    python: str
    """Supported versions of Python, as a specifier: `>=3.9,<3.12`."""
    requirements: tuple[str, ...]
    """Packages to install, as requirement specifiers. An existing environment is checked for the same packages."""
    lock: Path | None = None
    """A requirements file of the plugin with the exact, tested version of every package; None if it ships none."""
    uv_options: tuple[str, ...] = ()
    """Extra arguments for `uv pip install` that are tried when the configured indexes do not hold the requirements."""
    source_builds: tuple[SourceBuild, ...] = ()
    """Distributions among the requirements that are built from source, once for each managed environment."""

    def including(self, packages: Iterable[str]) -> EnvironmentSpec:
        """Return a copy of the specification with further packages among its requirements.

        Args:
            packages: Requirement specifiers, such as `mpi4py>=4`. The lock need not have versions of them.
        """
        return evolve(self, requirements=tuple(dict.fromkeys((*self.requirements, *packages))))


# Each converter declares its argument, so that type checkers of plugins see the type.


def _require_several(names: Iterable[T]) -> Iterable[T]:
    """Return `names` unless it is one text, whose letters would be taken for names."""
    if isinstance(names, str):
        raise TypeError(f"{names!r} is one text instead of several names; write {{{names!r}}}")
    return names


def _devices(names: Iterable[str]) -> frozenset[str]:
    return frozenset(_require_several(names))


def _layouts(names: Iterable[str]) -> frozenset[str]:
    for name in _require_several(names):
        if name not in LAYOUTS:
            raise UnknownName("layout", name, LAYOUTS)
    return frozenset(names)


def _compilers(declared: Iterable[str | Compiler]) -> frozenset[str]:
    return frozenset(
        compiler.name if isinstance(compiler, Compiler) else COMPILERS[compiler].name
        for compiler in _require_several(declared)
    )


def _precisions(names: Iterable[str]) -> frozenset[str]:
    return frozenset(PRECISIONS[name].name for name in _require_several(names))


def _strategies(names: Iterable[str]) -> frozenset[str]:
    return frozenset(STRATEGIES[name].name for name in _require_several(names))


def _parts(names: Iterable[str]) -> frozenset[str]:
    return OF_EVERY_PLUGIN.union(PARTS[name].name for name in _require_several(names))


def _sources(names: Iterable[str]) -> frozenset[str]:
    return frozenset(DATA_SOURCES[name].name for name in _require_several(names))


@frozen
class Capabilities:
    """Capabilities of a framework's plugin. A case that needs anything else is refused before it starts.

    Raises:
        UnknownName: The core does not know the name of a precision, strategy, layout, data source or part, or of a
            compiler that is given by its name instead of a `Compiler`.
        TypeError: One text is given instead of several names.
    """

    devices: frozenset[str] = field(converter=_devices, default=frozenset({"cpu"}))
    """Kinds of device. Any name is allowed."""
    precisions: frozenset[str] = field(converter=_precisions, default=frozenset({PRECISIONS.default}))
    """Names of `dlperf_sdk.spec.precision.PRECISIONS`, which say what is computed in which format."""
    compilers: frozenset[str] = field(converter=_compilers, default=frozenset({NONE}))
    """Names of `dlperf_sdk.spec.compiler.COMPILERS`. Declare another compiler as a `Compiler` object. Every
    plugin offers `none`."""
    strategies: frozenset[str] = field(converter=_strategies, default=frozenset({INDEPENDENT}))
    """Names of `dlperf_sdk.spec.strategy.STRATEGIES`."""
    layouts: frozenset[str] = field(converter=_layouts, default=frozenset({"auto"}))
    """Names of `LAYOUTS`."""
    data: frozenset[str] = field(converter=_sources, default=frozenset({DATA_SOURCES.default}))
    """Names of `dlperf_sdk.spec.data_source.DATA_SOURCES`."""
    parts: frozenset[str] = field(converter=_parts, default=frozenset())
    """Names of `dlperf_sdk.spec.part.PARTS`: parts of a step that can be measured alone. Declare `communication` if the
    trainers implement `gradient_exchange`; all other parts are added, since every trainer has them."""
    accumulation: bool = False
    """True if an optimization step may consist of several micro-batches."""
    trace: TraceEvents | None = None
    """What the events of the profiler stand for, if the runtime implements `trace`; None refuses `--trace`."""


def explain_unused_collective(spec: RunSpec, option: str, default: str) -> str | None:
    """Return a sentence that says why an option for collective communication has no effect in a case.

    The result is None if a collective averages the case's gradients, so that the option has an effect.

    Args:
        spec: The case.
        option: The option's name.
        default: The option's default, as the user types it; the sentence advises to leave the option at it.
    """
    if spec.syncs_gradients and STRATEGIES[spec.strategy].is_collective:
        return None
    return (
        f"No gradients are averaged by a collective in this case, so {option} changes nothing; leave it at {default}, "
        f"or choose several devices and the strategy {STRATEGIES.default}."
    )


def explain_unused_nccl(spec: RunSpec, nccl: bool) -> str | None:
    """Return a sentence that says why the option `nccl`, which is true by default, has no effect in a case.

    Args:
        spec: The case. Its `device` is resolved, never `auto`.
        nccl: The option's value.

    Returns:
        The sentence, or None. On the device `cuda`, it is None if the option is true, or if a collective averages the
        case's gradients. On other devices, it is None if the option is true and `spec.options` does not name it.
    """
    if spec.device != "cuda":
        is_named = not nccl or "nccl" in spec.options
        return f"There is no NCCL on {spec.device}; leave the option nccl out." if is_named else None
    return None if nccl else explain_unused_collective(spec, "nccl", "true")


@define
class NoOptions:
    """Options of a plugin that has none."""


class Framework(ABC):
    """A deep-learning framework behind a plugin. Registered in the group `dlperf_sdk.frameworks`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    runtime: ClassVar[str]
    """The `dlperf_sdk.worker.interface.Runtime`, as ``module:attribute``."""
    trainers: ClassVar[Mapping[str, str]] = {}
    """Model name → location of its `dlperf_sdk.worker.interface.Trainer`, as ``module:attribute``."""
    processes: ClassVar[str] = "dlperf_sdk.worker.processes:one_per_device"
    """The pure function that lists the processes of a case, as ``module:attribute``."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Further top-level packages that the worker half imports, besides its own. The bundle carries them to the
    nodes."""
    capabilities: ClassVar[Capabilities] = Capabilities()
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Name missing in `capabilities`, such as `amp-bf16`, `nhwc`, `communication` or `trace`, or option missing in
    `Options` that other frameworks have, such as `nccl` → reason, as a sentence for the error message."""
    tuning_variables: ClassVar[Collection[str]] = ()
    """Environment variables of this framework that a spec or campaign file may set. They tune threads, memory,
    logging or transport only. None of them may name a program, a library or a file."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the plugin's own options, set with `--set NAME=VALUE`."""

    @abstractmethod
    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the specification of the environment in which a case's workers run.

        Args:
            device: A kind of device that the class attribute `capabilities` contains, such as `cpu`.
            strategy: Name of the gradient synchronization strategy.
            model: Name of the model.
        """

    def required_programs(self, spec: RunSpec) -> Collection[str]:
        """Return the programs that a case needs on every node, in addition to its environment, such as a C++ compiler.

        A name is looked up on the workers' PATH. If a node lacks one, the case fails before any worker starts. The base
        class returns an empty collection.

        Args:
            spec: The case. Its `device` is resolved, never `auto`.
        """
        return ()

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin cannot run a case; None if it can.

        The core has already checked each capability on its own. Refuse here a combination of capabilities that the
        plugin does not support, such as amp-fp16 without a GPU, or a compiler with one of the models. (The conformance
        suite tests such a compiler with the other models.) Also refuse an option that has another value than the
        default but no effect in the case: otherwise two results would differ in a label only. Never refuse a model in
        fp32 without a compiler on one device: leave that model out of `trainers`.

        The base class refuses nothing.

        Args:
            spec: The case. Its `device` is resolved, never `auto`.
            options: The plugin's options, an instance of its class attribute `Options`.
        """
        return None
