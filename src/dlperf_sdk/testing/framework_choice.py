"""The framework under test: the attributes that the author of a plugin sets, and the cases that are tried with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest

from dlperf_sdk.api import dry_run
from dlperf_sdk.environments.source_builds import check_programs
from dlperf_sdk.errors import DlperfError, EnvironmentFailed, RunFailed
from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar
from dlperf_sdk.testing import cells
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import Conformance


class FrameworkChoice(Conformance):
    """A framework plugin under test: its attributes, the values that it declares, and short cases of it."""

    framework: ClassVar[str]
    """The name of the framework in the group `dlperf_sdk.frameworks`, as users type it."""
    models: ClassVar[tuple[str, ...] | None] = None
    """The names of the models to test, the cheapest first. None: all installed models that the plugin implements, by
    name.

    Compilers, precisions and strategies are tried with the first model for which the plugin does not refuse them.
    """
    model_options: ClassVar[Mapping[str, Mapping[str, Scalar]]] = {}
    """Model → the options that make it small. A model that is missing here has those of `SMALL`, or else its
    defaults."""
    options: ClassVar[Mapping[str, Scalar]] = {}
    """Options of the framework's plugin, by name, for every case."""
    batch_size: ClassVar[int] = 4
    """Samples per device. On a GPU, choose a number for which a step takes the device longer than the host."""
    device: ClassVar[str] = "auto"
    """The kind of device to test, such as `cpu` or `cuda`; `auto` takes a GPU if the framework can use one here."""
    python: ClassVar[str | None] = None
    """Path of the interpreter of an existing environment; None for the plugin's managed environment."""
    registry: ClassVar[Registry] = Registry()
    """The registry of plugins and models; by default, the installed ones."""

    @property
    def plugin(self) -> Framework:
        """The framework plugin's controller half, loaded.

        Raises:
            DlperfError: No such plugin is installed, or it cannot be loaded.
        """
        return self.registry.framework(self.framework)

    def models_to_test(self) -> tuple[str, ...]:
        """Return the names of the models to test.

        They are `models` if that is set, else all installed models with a trainer for the framework, in alphabetical
        order; empty if there are none.

        Raises:
            DlperfError: The framework plugin, or an installed model, cannot be loaded.
        """
        if self.models is not None:
            return self.models
        plugin, installed = self.plugin, self.registry.names("models")
        known = {name for name in installed if name in plugin.trainers}
        known |= {name for name in installed if self.framework in self.registry.model(name).trainers}
        return tuple(sorted(known))

    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Return a dict from the name of a parameter of the tests to the values to try for it.

        The parameters are `model`, `compiler` (without `none`), `layout` (without `auto`) and `source` (data sources
        without the default), whose values are names that the plugin declares; and `cell` (one replica), `pair` (two
        replicas) and `any_cell` (one and two), whose values are cells, which are combinations of settings. No parameter
        has a value if the plugin cannot be loaded.
        """
        names = ("model", "compiler", "layout", "source", "cell", "pair", "any_cell")
        try:
            capabilities, models = self.plugin.capabilities, self.models_to_test()
        except DlperfError:
            return dict.fromkeys(names, ())  # `test_plugin_loads` says why
        return {
            "model": models,
            "compiler": sorted(capabilities.compilers - {NONE}),
            "layout": sorted(capabilities.layouts - {"auto"}),
            "source": sorted(
                capabilities.data - {DATA_SOURCES.default}
            ),  # which every other test is fed with
            "cell": cells.list_single_replica_cells(models, capabilities),
            "pair": cells.list_pair_cells(models, capabilities),
            "any_cell": (
                *cells.list_single_replica_cells(models, capabilities),
                *cells.list_pair_cells(models, capabilities),
            ),
        }

    def combinations(self) -> frozenset[Cell]:
        """Return the cells without a new setting: each of their settings occurs in an earlier cell as well.

        Empty if the plugin cannot be loaded.
        """
        all_cells = frozenset(self.axes()["any_cell"])
        return all_cells - cells.select_covering(self.axes()["any_cell"])

    def values_with_source_builds(self) -> frozenset[Cell]:
        """Return the cells whose strategy needs an environment with parts built from source.

        Empty if the plugin cannot be loaded.
        """
        pairs = self.axes()["pair"]
        devices = self.plugin.capabilities.devices if pairs else ()
        return frozenset(
            cell
            for cell in pairs
            if any(self.plugin.environment(d, cell.strategy, cell.models[0]).source_builds for d in devices)
        )

    def spec(self, model: str, **fields: Any) -> RunSpec:
        """Return a short case of a model: 1 warm-up step, 3 measured steps, 1 repeat.

        Framework, options, batch size, device and interpreter are those of the suite's attributes. Each worker has one
        thread, unless the plugin's processes set the number themselves.

        Args:
            model: The model's name.
            fields: Fields of `RunSpec` that replace these values; `options` are added to those of the suite, and
                replace those of the same name.

        Raises:
            SpecError: A field has an impossible value.
            UnknownName: A field has a value that is none of its fixed names.
            TypeError: There is no field of a given name.
        """
        options = {**(self.model_options.get(model) or SMALL.get(model, {})), **self.options}
        short = {"warmup": 1, "steps": 3, "repeats": 1, "on_busy": "note"}
        settings = {"batch_size": self.batch_size, "device": self.device, "python": self.python}
        fields = {**short, **settings, **fields, "options": {**options, **fields.get("options", {})}}
        spec = RunSpec(framework=self.framework, model=model, **fields)
        return attrs.evolve(spec, env={**self._one_thread(spec), **spec.env})

    def _one_thread(self, spec: RunSpec) -> Mapping[str, str]:
        """Return the variables that give workers one thread; empty if the plugin's processes set their own number.

        Compilers generate different code for another number of threads, and one compilation serves all programs.
        """
        try:
            processes = make_plan(spec, self.registry).placeholder_processes()
        except DlperfError:  # whoever asks for the case will say why
            processes = []
        single_thread = {"OMP_NUM_THREADS": "1"}
        return (
            {}
            if any(single_thread.keys() & process.variables.keys() for process in processes)
            else single_thread
        )

    def refusal(self, spec: RunSpec) -> RunFailed | None:
        """Return the error with which planning refuses a case on this machine; None if the case can be planned.

        Args:
            spec: The case.

        Raises:
            UsageError: The case is invalid.
            PluginError: A plugin cannot be loaded.
        """
        try:
            dry_run(spec, registry=self.registry)
        except RunFailed as error:
            return error
        return None

    def select_accepted_spec(self, models: Sequence[str] | None = None, **fields: Any) -> RunSpec:
        """Return the short case of the first model for which planning accepts it on this machine.

        The test is skipped if planning accepts the case for no model, or if this machine lacks a program that builds a
        part of the environment from source.

        Args:
            models: The names of the models to try, in order; None or empty for those of `models_to_test`.
            fields: Fields of `RunSpec`, as `spec` takes them.

        Raises:
            UsageError: The case is invalid.
            PluginError: A plugin cannot be loaded.
        """
        refused = None
        for model in models or self.models_to_test():
            spec = self.spec(model, **fields)
            refused = self.refusal(spec) or self._missing_program(spec)
            if refused is None:
                return spec
        pytest.skip(f"refused: {refused}" if refused else "there is no model to try")

    def _missing_program(self, spec: RunSpec) -> EnvironmentFailed | None:
        """Return the error that names the missing programs of a case's builds from source; None if none is missing."""
        if spec.python is None:
            try:
                check_programs(make_plan(spec, self.registry).environment.source_builds)
            except EnvironmentFailed as error:
                return error
        return None
