"""Test the controller half: it loads without the framework, and declares what the plugin needs and offers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from dlperf_sdk.environments.plugin_lock import list_requirements
from dlperf_sdk.errors import PluginError, RunFailed, Unavailable, UnknownName, Unsupported
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import VOCABULARY
from dlperf_sdk.registry.options import options_of
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import PAIR, SINGLE
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject, describe

IMPORT_PROBE = Path(__file__).with_name("import_probe.py")


class ControllerHalf(FrameworkSubject):
    """Tests of the half of a framework plugin that the core imports. They need no installed framework."""

    def test_plugin_loads(self) -> None:
        """The plugin loads under its name, has a trainer for an installed model, and declares the plainest values.

        The plainest values are fp32, no compiler, the layout `auto`, and the default data source.
        """
        try:
            plugin, models = self.plugin, self.models_to_test()
        except (PluginError, UnknownName) as error:
            pytest.fail(
                advice(
                    str(error),
                    "`dlperf run` says the same, and runs nothing",
                    "install the plugin (`pip install -e .`), with its entry point in the group "
                    "`dlperf_sdk.frameworks`, whose name is the class's `name`",
                )
            )
        assert models, advice(
            f"{plugin.name} implements no model that is installed: its trainers are for {sorted(plugin.trainers)}.",
            "there is nothing that it could be measured with",
            "map a model's name to its trainer in `trainers`",
        )
        capabilities = plugin.capabilities
        plainest = {
            PRECISIONS.default: capabilities.precisions,
            NONE: capabilities.compilers,
            "auto": capabilities.layouts,
            DATA_SOURCES.default: capabilities.data,
        }
        missing = [name for name, supported in plainest.items() if name not in supported]
        assert not missing, advice(
            f"{plugin.name} does not declare {', '.join(missing)}.",
            "the plainest case is what everything else is compared with",
            "declare them in `capabilities`; `none` is how the framework trains if no compiler is requested, also "
            "one that always compiles",
        )

    def test_controller_half_imports_no_framework(self) -> None:
        """The controller half works in a fresh interpreter that cannot import the modules of the plugin's requirements.

        Nor does the controller half import the worker half.
        """
        cls = type(self.plugin)
        names = list(self._forbidden())
        specs = [spec.to_dict() for spec in self._combine()]
        for spec in specs:
            del spec["schema_version"]  # the others are the fields of a RunSpec
        arguments = {
            "path": sys.path,
            "forbidden": names,
            "plugin": f"{cls.__module__}:{cls.__qualname__}",
            "environments": [case for case, _ in self._environments()],
            "specs": specs,
        }
        ended = subprocess.run(
            [sys.executable, "-I", str(IMPORT_PROBE)],
            input=json.dumps(arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, advice(
            f"The controller half of {cls.name} cannot be used without {', '.join(names)}:\n{ended.stderr[-3000:]}",
            "the core imports it to list and plan, in an interpreter that has no framework; and a worker half that "
            "is imported here is code that no environment has checked",
            "move the import that the traceback shows into the worker half; name the worker half in text only, "
            "as 'module:attribute'",
        )

    def test_requirements_are_valid(self) -> None:
        """Each environment of the plugin is an `EnvironmentSpec` with requirements, and allows a Python from 3.7 on.

        The environment's lock, if any, has each required package in a version that the requirement allows.
        """
        for case, spec in self._environments():
            name = f"environment{case}"
            assert isinstance(spec, EnvironmentSpec), f"{name} gave {spec!r}; it must give an EnvironmentSpec"
            assert spec.requirements, advice(
                f"{name} requires nothing.",
                "an environment without the framework cannot be told from one with it",
                "list the framework's distribution in `requirements`, with the versions that you have tried",
            )
            pins = _pins(spec)
            for text in spec.requirements:
                required = Requirement(text)
                pinned = pins.get(canonicalize_name(required.name))
                assert not pins or (pinned and required.specifier.contains(pinned, prereleases=True)), advice(
                    f"{name}: the lock {spec.lock} has {required.name} {pinned}, which {text!r} does not allow.",
                    "an environment made from the lock would be refused at once",
                    "make the lock anew",
                )
            assert list_minor_versions(spec), advice(
                f"{name} takes Python {spec.python!r}, which is not CPython 3.7 or later.",
                "no interpreter can be found for it",
                "write a range such as '>=3.9,<3.13'",
            )

    def test_declared_names_exist(self) -> None:
        """For each model, the bundle has the modules of the runtime, the trainer and the function `processes`.

        The plugin names these as `module:attribute`; whether the attribute exists is not checked. The case is in fp32
        on one device without a compiler.
        """
        for model in self.models_to_test():
            plan = make_plan(self.spec(model), self.registry)
            request = plan.request("conformance", (sys.executable,), {}, {"source": DATA_SOURCES.default})
            files = bundle.contents(request, plan.packages)
            for reference in (plan.runtime, plan.trainer, plan.processes):
                path = reference.partition(":")[0].replace(".", "/")
                assert {f"{path}.py", f"{path}/__init__.py"} & set(files), advice(
                    f"{reference} is declared, but its file is not among those that are copied to the nodes.",
                    "the worker would end with ModuleNotFoundError",
                    "correct the name; a package beside the plugin's own is named in `packages`",
                )

    @pytest.mark.parametrize("kind", sorted(VOCABULARY))
    def test_undeclared_values_are_refused(self, kind: str) -> None:
        """For each value of `kind` that the core knows and the plugin does not declare, planning raises Unsupported.

        `kind` is a kind of capability, such as `precision`.
        """
        model = self.models_to_test()[0]
        for value in sorted(VOCABULARY[kind] - _declared(self.plugin.capabilities, kind)):
            refused = self.refusal(self.spec(model, **_requested_fields(kind, value)))
            assert isinstance(refused, Unsupported), advice(
                f"{kind} {value!r} is not declared, and is not refused: {refused!r}.",
                "something else would run under its name",
                "leave `make_plan`'s checks alone; `explain_refusal` adds to them",
            )

    @pytest.mark.parametrize("kind", sorted(VOCABULARY))
    def test_declared_values_are_not_always_refused(self, kind: str) -> None:
        """Planning accepts each value that the plugin declares for `kind`, with at least one of its devices and models.

        `kind` is a kind of capability, such as `precision`. A case that is refused only because this machine lacks the
        device counts as accepted. Skipped if a value is refused for all models that the suite tries, and the plugin has
        a trainer for another installed model, which might accept it.
        """
        plugin, names = self.plugin, self.registry.names("models")
        implemented = {name for name in names if self.registry.trainer(plugin, self.registry.model(name))}
        for value in sorted(_declared(plugin.capabilities, kind)):
            refused = self._find_refusal(kind, value)
            if refused and implemented - {*self.models_to_test()}:
                pytest.skip(f"{kind} {value!r} may be for models that are not tried here: {refused}")
            assert not refused, advice(
                f"The {kind} {value!r} is declared, and refused with every device and model, in these words: {refused}",
                "a value that never runs cannot be tested",
                "refuse what cannot run, and nothing else; take out of `capabilities` what never can; if it needs more "
                "samples, raise `batch_size` (`--batch-size`)",
            )

    def test_refused_values_have_a_reason(self) -> None:
        """The plugin's `explain_refusal` returns None, or a string of more than three words.

        It is called for each model with each pair of values that the plugin declares, such as a precision and a
        compiler.
        """
        plugin = self.plugin
        for spec in self._combine():
            reason = plugin.explain_refusal(spec, options_of(plugin, spec))
            assert reason is None or (isinstance(reason, str) and len(reason.split()) > 3), advice(
                f"explain_refusal(…) of {describe(spec)} on {spec.device} gave {reason!r}.",
                "it is all that a user will read",
                "return None, or a sentence that says why not and what to choose instead",
            )

    def _find_refusal(self, kind: str, value: str) -> RunFailed | None:
        """Return the refusal of a value if every device and model refuses it, else None.

        A combination that is only unavailable on this machine counts as accepted.
        """
        refused = None
        for device, model in product(sorted(self.plugin.capabilities.devices), self.models_to_test()):
            refused = self.refusal(self.spec(model, **{"device": device, **_requested_fields(kind, value)}))
            if refused is None or isinstance(refused, Unavailable):
                return None
        return refused

    def _combine(self) -> Iterator[RunSpec]:
        """Yield every model with every pair of declared values, over two devices, which need not exist."""
        capabilities = self.plugin.capabilities
        fields = {
            "device": sorted(capabilities.devices)[0],
            "strategy": sorted(capabilities.strategies)[0],
            "topology": PAIR,
        }
        declared = [(kind, value) for kind in VOCABULARY for value in sorted(_declared(capabilities, kind))]
        for model, pair in product(self.models_to_test(), combinations_with_replacement(declared, 2)):
            yield self.spec(model, **{**fields, **dict(pair)})

    def _environments(self) -> Iterator[tuple[tuple[str, str, str], EnvironmentSpec]]:
        capabilities = self.plugin.capabilities
        for device in sorted(capabilities.devices):
            for strategy in sorted(capabilities.strategies):
                for model in self.models_to_test():
                    yield (device, strategy, model), self.plugin.environment(device, strategy, model)

    def _forbidden(self) -> Iterator[str]:
        """Yield the top-level modules of what the environments require, except those the core itself uses."""
        required = {
            canonicalize_name(Requirement(text).name)
            for _, spec in self._environments()
            for text in spec.requirements
        }
        names = {name.replace("-", "_") for name in required} | {self.framework}
        for module, distributions in packages_distributions().items():
            if required & {canonicalize_name(name) for name in distributions}:
                names.add(module)
        package = self.plugin.runtime.partition(".")[0].partition(":")[0]
        yield from sorted(names - {package, "attr", "attrs", "dlperf_sdk"})


_PLURAL = {
    "device": "devices",
    "precision": "precisions",
    "compiler": "compilers",
    "strategy": "strategies",
    "layout": "layouts",
}


def _declared(capabilities: Capabilities, kind: str) -> frozenset[str]:
    """Return the declared values of one kind of the vocabulary."""
    supported: frozenset[str] = getattr(capabilities, _PLURAL.get(kind, kind))
    return supported


def _requested_fields(kind: str, value: str) -> dict[str, str]:
    """Return the fields of a case that requests a value: a strategy only if two replicas can synchronize."""
    text = f"{value}:/nowhere" if kind == "data" and DATA_SOURCES[value].takes_folder else value
    return {kind: text, "topology": PAIR if kind == "strategy" else SINGLE}


def _pins(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the versions in the lock, by name; empty without a lock."""
    if spec.lock is None:
        return {}
    locked = map(Requirement, list_requirements(spec.lock.read_text(encoding="utf-8")))
    return {
        canonicalize_name(pin.name): specifier.version
        for pin in locked
        for specifier in pin.specifier
        if specifier.operator == "=="
    }


def list_minor_versions(spec: EnvironmentSpec) -> list[int]:
    """Return the minor versions of Python 3, from 7 to 39, that an environment's specifier allows, in ascending order.

    Empty if there are none.

    Args:
        spec: The environment.

    Raises:
        packaging.specifiers.InvalidSpecifier: `python` of the environment is no specifier.
    """
    required = SpecifierSet(spec.python)
    return [
        minor for minor in range(7, 40) if any(required.contains(f"3.{minor}.{patch}") for patch in (0, 40))
    ]
