"""The controller half: loads without the framework, and says what the plugin needs and offers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from dlperf_sdk import bundle
from dlperf_sdk.capable import VOCABULARY
from dlperf_sdk.errors import PluginError, UnknownName, Unsupported
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.plan import make_plan
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject

WITHOUT = """\
import importlib, importlib.abc, json, sys, traceback
sys.path[:] = json.loads(sys.argv[1])

class Refuse(importlib.abc.MetaPathFinder):
    forbidden = set(json.loads(sys.argv[2]))
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.forbidden:
            raise ImportError("the controller half must not import " + name)

sys.meta_path.insert(0, Refuse())
module, _, attribute = sys.argv[3].partition(":")
plugin = getattr(importlib.import_module(module), attribute)()
for device, strategy, model in json.loads(sys.argv[4]):
    plugin.environment(device, strategy, model)
places, _, function = plugin.processes.partition(":")
getattr(importlib.import_module(places), function)
worker = plugin.runtime.partition(":")[0]
assert worker not in sys.modules, "the controller half imports the worker half, " + worker
"""
"""Import a controller half where its framework cannot be had, and ask it for every environment."""


class ControllerHalf(FrameworkSubject):
    """What the core imports. It runs where no framework is installed."""

    def test_the_plugin_loads(self) -> None:
        """Under its name, as what it says it is, and with at least one model."""
        try:
            plugin, models = self.plugin, self.tried()
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

    def test_it_imports_no_framework(self) -> None:
        """In a fresh interpreter in which what the environment requires cannot be imported."""
        cls = type(self.plugin)
        names = list(self._forbidden())
        environments = [list(case) for case, _ in self._environments()]
        arguments = (json.dumps(sys.path), json.dumps(names), f"{cls.__module__}:{cls.__qualname__}")
        ended = subprocess.run(
            [sys.executable, "-I", "-c", WITHOUT, *arguments, json.dumps(environments)],
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

    def test_its_requirements_can_be_read(self) -> None:
        """Every environment is a range of Pythons and a list of requirements, with a lock that fits, if any."""
        for case, spec in self._environments():
            told = f"environment{case}"
            assert isinstance(spec, EnvironmentSpec), f"{told} gave {spec!r}; it must give an EnvironmentSpec"
            assert spec.requirements, advice(
                f"{told} requires nothing.",
                "an environment without the framework cannot be told from one with it",
                "list the framework's distribution in `requirements`, with the versions that you have tried",
            )
            pins = _pins(spec)
            for text in spec.requirements:
                wanted = Requirement(text)
                pinned = pins.get(canonicalize_name(wanted.name))
                assert not pins or (pinned and wanted.specifier.contains(pinned, prereleases=True)), advice(
                    f"{told}: the lock {spec.lock} has {wanted.name} {pinned}, which {text!r} does not allow.",
                    "an environment made from the lock would be refused at once",
                    "make the lock anew",
                )
            assert _minors(spec), advice(
                f"{told} takes Python {spec.python!r}, which is no CPython 3.7 or later.",
                "no interpreter can be found for it",
                "write a range such as '>=3.9,<3.13'",
            )

    def test_what_it_names_is_in_its_files(self) -> None:
        """A plan of every model names a runtime, a trainer and a layout of processes that are there."""
        for model in self.tried():
            plan = make_plan(self.spec(model), self.registry)
            request = plan.request("conformance", (sys.executable,), {}, {"source": "synthetic"})
            files = bundle.contents(request, plan.packages)
            for reference in (plan.runtime, plan.trainer, plan.processes):
                path = reference.partition(":")[0].replace(".", "/")
                assert {f"{path}.py", f"{path}/__init__.py"} & set(files), advice(
                    f"{reference} is named, and there is no such file among what travels to the nodes.",
                    "the worker would end with ModuleNotFoundError",
                    "correct the name; a package beside the plugin's own is named in `packages`",
                )

    @pytest.mark.parametrize("kind", ["precision", "compiler", "strategy", "layout", "data"])
    def test_what_it_does_not_declare_is_refused(self, kind: str) -> None:
        """With a typed refusal that says what is offered, before anything is started."""
        model = self.tried()[0]
        offered = getattr(self.plugin.capabilities, _PLURAL.get(kind, kind))
        topology = "1n2d" if kind == "strategy" else "1n1d"
        for value in sorted(VOCABULARY[kind] - offered):
            text = f"{value}:/nowhere" if value in ("images", "text") else value
            refused = self.refusal(self.spec(model, topology=topology, **{kind: text}))
            assert isinstance(refused, Unsupported), advice(
                f"{kind} {value!r} is not declared, and is not refused: {refused!r}.",
                "something else would run under its name",
                "leave `make_plan`'s checks alone; `refuses` adds to them",
            )

    def test_what_it_refuses_it_says_in_a_sentence(self) -> None:
        """`refuses` is asked for every pair of what is declared, and answers with None or with advice."""
        can, plugin = self.plugin.capabilities, self.plugin
        for model in self.tried():
            fields = {
                "device": sorted(can.devices)[0],
                "strategy": sorted(can.strategies)[0],
                "topology": "1n2d",
            }
            axes = {kind: getattr(can, _PLURAL.get(kind, kind)) for kind in VOCABULARY}
            asked = [
                {**fields, one: first, other: second}
                for one in axes
                for other in axes
                for first in axes[one]
                for second in axes[other]
            ]
            for chosen in asked:
                reason = plugin.refuses(self.spec(model, **chosen), plugin.Options())
                assert reason is None or (isinstance(reason, str) and len(reason.split()) > 3), advice(
                    f"refuses(…) of {chosen} gave {reason!r}.",
                    "it is all that a user will read",
                    "return None, or a sentence that says why not and what to choose instead",
                )

    def _environments(self) -> Iterator[tuple[tuple[str, str, str], EnvironmentSpec]]:
        can = self.plugin.capabilities
        for device in sorted(can.devices):
            for strategy in sorted(can.strategies):
                for model in self.tried():
                    yield (device, strategy, model), self.plugin.environment(device, strategy, model)

    def _forbidden(self) -> Iterator[str]:
        """The top-level modules of what the environments require, but for what the core itself uses."""
        required = {
            canonicalize_name(Requirement(text).name)
            for _, spec in self._environments()
            for text in spec.requirements
        }
        found = {name.replace("-", "_") for name in required} | {self.framework}
        for module, distributions in packages_distributions().items():
            if required & {canonicalize_name(name) for name in distributions}:
                found.add(module)
        own = {reference.partition(".")[0].partition(":")[0] for reference in (self.plugin.runtime,)}
        yield from sorted(found - own - {"attr", "attrs", "dlperf_sdk"})


_PLURAL = {
    "device": "devices",
    "precision": "precisions",
    "compiler": "compilers",
    "strategy": "strategies",
    "layout": "layouts",
}


def _pins(spec: EnvironmentSpec) -> dict[str, str]:
    """Name → version in the lock; empty where there is none."""
    if spec.lock is None:
        return {}
    lines = [line.partition("#")[0].partition(";")[0].strip() for line in spec.lock.read_text().splitlines()]
    pairs = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(name.strip()): version.strip() for name, version in pairs}


def _minors(spec: EnvironmentSpec) -> list[int]:
    """The minor versions of Python 3 that an environment may have, from 7 on."""
    wanted = SpecifierSet(spec.python)
    return [
        minor for minor in range(7, 40) if any(wanted.contains(f"3.{minor}.{patch}") for patch in (0, 40))
    ]
