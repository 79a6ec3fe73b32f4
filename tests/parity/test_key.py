"""What parity evidence is kept under: each part of what it was got with, and nothing else. Nothing is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
import toy_reference
from dlperf_numpy.framework import Linear, NumPy

from dlperf_sdk import Capabilities, Optimizer, RunSpec
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.parity import reference
from dlperf_sdk.parity.evidence import ParityRun, plan_parity_run
from dlperf_sdk.parity.key import key_of, parts
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.planning.secret_variables import list_requested_variables
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent import hardware

HERE = {"cpu": {"model": "a processor"}, "gpus": [{"name": "a GPU"}], "load": [0.5]}


class Able(NumPy):
    """The toy framework, as if it could do more."""

    name = "able"
    capabilities = Capabilities(
        devices={"cpu", "toy"},
        precisions={"fp32", "amp-bf16"},
        compilers={"none", "graph"},
        strategies={"all_reduce", "independent"},
        layouts={"auto", "nhwc"},
        data={"synthetic", "synthetic-host"},
        accumulation=True,
    )

    @attrs.frozen
    class Options:
        lever: bool = False


class Elsewhere(Local):
    """Another launcher."""

    name = "elsewhere"


class Ramped(Linear):
    """The toy model with a warm-up."""

    def optimizer(self, options, global_batch_size):
        numbers = {"learning_rate": 0.1, "warmup_learning_rate": 0.1, "warmup_steps": 3}
        return Optimizer("sgd", numbers, "this test")


@pytest.fixture
def asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ParityRun]:
    """The parity run of a spec with these fields, on a machine that is always the same."""
    toy_reference.write(tmp_path)
    path = tmp_path / "mine.json"
    document = json.loads(path.read_text())
    document["tolerances"]["amp-bf16"] = document["tolerances"]["fp32"]
    document["cases"]["warmup"] = {**document["cases"]["small"], "learning_rate_policy": "warmup"}
    path.write_text(json.dumps(document))
    reference.load.cache_clear()
    trained = {"able": "dlperf_numpy.worker:Linear"}
    fields = {"name": "mine", "trainers": trained, "references": path, "has_images": True}
    plugins = Registry(
        {
            "frameworks": {"able": Able},
            "models": {"mine": type("Mine", (Ramped,), fields)},
            "topologies": {"elsewhere": Elsewhere},
        }
    )
    monkeypatch.setattr(Registry, "measurers", lambda self: ())  # to look for them takes most of the time
    monkeypatch.setattr(hardware, "describe", lambda: HERE)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/lib")

    def plan_run(**changes: Any) -> ParityRun:
        spec = RunSpec(
            **{"framework": "able", "model": "mine", "topology": "1n2d", "device": "cpu"} | changes
        )
        variables = list_requested_variables(spec)
        parity_run = plan_parity_run(make_plan(spec, plugins), PREPARED, variables, plugins, use_cache=False)
        assert isinstance(parity_run, ParityRun), parity_run
        return parity_run

    return plan_run


PREPARED = PreparedEnvironment(
    kind="given",
    framework="able",
    device="cpu",
    python="3.11.7",
    lock="numpy==1.26.4\n",
    command=(sys.executable,),
    key="k",
    path=Path("/nowhere"),
)


class Case:
    """The arguments of a key, to be changed one by one."""

    def __init__(self, actual: ParityRun, patch: pytest.MonkeyPatch) -> None:
        self.plan, self.request, self.prepared = actual.plan, actual.request, PREPARED
        self.reference, self.patch = actual.reference.digest, patch

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.plan, self.request, self.prepared, self.reference

    def asks(self, **changes: Any) -> None:
        self.request = self.request._replace(**changes)

    def prepares(self, **changes: Any) -> None:
        self.prepared = attrs.evolve(self.prepared, **changes)

    def plans(self, **changes: Any) -> None:
        self.plan = attrs.evolve(self.plan, **changes)

    def is_on(self, **changes: Any) -> None:
        self.patch.setattr(hardware, "describe", lambda: {**HERE, **changes})

    def holds_to(self, digest: str) -> None:
        self.reference = digest

    def bundles(self, **changes: bytes) -> None:
        contents = bundle.contents
        self.patch.setattr(bundle, "contents", lambda *given: {**contents(*given), **changes})


ONE_BY_ONE: Mapping[str, Callable[[Case], None]] = {
    "request": lambda case: case.asks(compiler="graph"),
    "code": lambda case: case.bundles(**{"dlperf_numpy/worker.py": b"another = 1"}),
    "lock": lambda case: case.prepares(lock="numpy==2.0.0\n"),
    "python": lambda case: case.prepares(python="3.12.1"),
    "container": lambda case: case.plans(spec=attrs.evolve(case.plan.spec, container="podman:image")),
    "variables": lambda case: case.patch.setenv("LD_LIBRARY_PATH", "/opt/lib"),
    "launcher": lambda case: case.plans(spec=attrs.evolve(case.plan.spec, topology="1n2d@elsewhere")),
    "cpu": lambda case: case.is_on(cpu={"model": "another processor"}),
    "gpus": lambda case: case.is_on(gpus=[{"name": "another GPU"}]),
    "plugin": lambda case: case.plans(plugin="dlperf-able 2.0"),
    "reference": lambda case: case.holds_to("another digest"),
}
"""Part of the key → what changes it, and no other."""


def test_all_parts_of_the_key_are_tried(
    asked_for: Callable[..., ParityRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {*parts(*Case(asked_for(), monkeypatch).arguments)} == {*ONE_BY_ONE}


@pytest.mark.parametrize("part", ONE_BY_ONE)
def test_each_part_changes_the_key(
    asked_for: Callable[..., ParityRun], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    case = Case(asked_for(), monkeypatch)
    before, key = parts(*case.arguments), key_of(*case.arguments)
    ONE_BY_ONE[part](case)
    after = parts(*case.arguments)
    assert [name for name in before if before[name] != after[name]] == [part]
    assert key_of(*case.arguments) != key


@pytest.mark.parametrize(
    "change",
    [
        lambda case: case.asks(
            id="another", first_attempt=3, deadlines={}, memory_limit=2**30, required_programs=["g++"]
        ),
        lambda case: case.is_on(load=[7.0], boot_id="another"),
        lambda case: case.patch.setenv("HOME", "/elsewhere"),
        lambda case: case.patch.setenv("OMP_NUM_THREADS", "1"),  # no worker inherits it
        lambda case: case.prepares(path=Path("/elsewhere"), key="another"),
    ],
    ids=["name", "load", "home", "not inherited", "folder"],
)
def test_circumstances_leave_the_key(
    asked_for: Callable[..., ParityRun], monkeypatch: pytest.MonkeyPatch, change: Callable[[Case], None]
) -> None:
    case = Case(asked_for(), monkeypatch)
    key = key_of(*case.arguments)
    change(case)
    assert key_of(*case.arguments) == key


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
def test_location_of_code_is_in_the_key(
    asked_for: Callable[..., ParityRun], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As the worker gets it: what is asked for stands in place of the shell's."""
    key, requested = asked_for().key, asked_for(env={name: "/opt"}).key
    monkeypatch.setenv(name, "/elsewhere")
    assert asked_for().key != key
    assert asked_for(env={name: "/opt"}).key == requested


def test_a_variable_that_is_handed_on_is_in_the_key(
    asked_for: Callable[..., ParityRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {asked_for(env={"MINE": None}).key}
    for value in ("1", "2"):
        monkeypatch.setenv("MINE", value)
        keys.add(asked_for(env={"MINE": None}).key)
    assert len(keys) == 3


def test_another_reference_is_another_key(asked_for: Callable[..., ParityRun], tmp_path: Path) -> None:
    key, path = asked_for().key, tmp_path / "mine.json"
    path.write_text(path.read_text().replace("this test", "another source"))
    reference.load.cache_clear()
    assert asked_for().key != key


class TestSpecs:
    """What is asked for, from the spec on."""

    ANOTHER: ClassVar[list[dict[str, Any]]] = [
        {"precision": "amp-bf16"},
        {"compiler": "graph"},
        {"strategy": "independent"},
        {"layout": "nhwc"},
        {"device": "toy"},
        {"topology": "2n1d"},
        {"topology": "1n4d"},
        {"topology": "1n2d@elsewhere"},
        {"accumulation": 2},
        {"learning_rate_policy": "warmup"},
        {"part": "compute"},
        {"options": {"lever": True}},
        {"env": {"OMP_WAIT_POLICY": "ACTIVE"}},
        {"container": "podman:image"},
        {"container_mounts": "/opt"},
        {"container_devices": "/dev/infiniband"},
    ]
    THE_SAME: ClassVar[list[dict[str, Any]]] = [
        {"batch_size": 64},
        {"options": {"features": 3}},
        {"seed": 3},
        {"data": "synthetic-host"},
        {"protocol": "adaptive", "target": 0.05, "max_repeats": 9},
        {"canonical_steps": 7, "warmup": 3, "steps": 7, "repeats": 2},
        {"deadlines": {"step": 30.0}},
        {"on_busy": "wait"},
        {"memory_limit": 2**32},
        {"labels": {"commit": "1f3a9c"}},
    ]
    BY_WHAT_IS_INSTALLED: ClassVar[set[str]] = {"framework", "model", "python"}
    """Fields that reach the key as code, lock and interpreter."""

    @pytest.mark.parametrize("fields", ANOTHER, ids=str)
    def test_this_is_measured_and_followed_alike(
        self, asked_for: Callable[..., ParityRun], fields: dict[str, Any]
    ) -> None:
        assert asked_for(**fields).key != asked_for().key

    @pytest.mark.parametrize("fields", THE_SAME, ids=str)
    def test_irrelevant_fields_do_not_change_the_key(
        self, asked_for: Callable[..., ParityRun], fields: dict[str, Any]
    ) -> None:
        assert asked_for(**fields).key == asked_for().key

    def test_every_field_is_classified(self) -> None:
        tried = {name for fields in (*self.ANOTHER, *self.THE_SAME) for name in fields}
        assert tried | self.BY_WHAT_IS_INSTALLED == {field.name for field in attrs.fields(RunSpec)}
