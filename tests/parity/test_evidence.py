"""Evidence through the front door: a toy model with a reference of its own, real processes, a real cache."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy
import pytest
import toy_reference
from processes import processes_with
from toy_reference import RATE, registry

from dlperf_sdk import RunSpec, environments, hookimpl, run, verify
from dlperf_sdk.errors import (
    DocumentError,
    LostNode,
    OutOfMemory,
    RunFailed,
    SpecError,
    Unavailable,
    UnknownName,
    UsageError,
)
from dlperf_sdk.execution import packing, replay
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.verification import exit_code
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.parity import cache, reference
from dlperf_sdk.parity.evidence import describe_parity_run, follow_parity_run, plan_parity_run
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

QUICK = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1, "store": None}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a reference beside it."""
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    reference.load.cache_clear()
    toy_reference.write(tmp_path)
    return tmp_path


class Stages:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        self.told.append((stage, detail))


@pytest.mark.parametrize(
    "topology",
    ["1n1d", *(pytest.param(topology, marks=pytest.mark.long) for topology in ("2n1d", "1n4d"))],
)
def test_a_run_carries_its_evidence_and_the_next_one_finds_it(place: Path, topology: str) -> None:
    stages = Stages()
    result = run("numpy", "mine", topology=topology, registry=registry(place), observers=[stages], **QUICK)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert result.exit_code == 0
    assert result.parity.case == "small"
    assert len(result.parity.losses) == result.spec.topology.devices
    assert max(result.parity.deviations) < 1e-5
    assert type(result).from_dict(result.to_dict()) == result
    assert [detail for stage, detail in stages.told if stage == "parity"]
    again = run("numpy", "mine", topology=topology, registry=registry(place), observers=[stages], **QUICK)
    assert "from the cache" in [detail for stage, detail in stages.told if stage == "parity"][-1]
    assert again.parity == result.parity


def test_evidence_in_the_cache_that_fails_is_measured_again(place: Path) -> None:
    """A valid entry with its checksum, but wrong: it must not fail every run until it is deleted."""
    assert run("numpy", "mine", registry=registry(place), **QUICK).exit_code == 0
    (path,) = (place / "cache" / "parity").glob("*.json")
    entry = json.loads(path.read_text())
    for replica in entry["records"][0]["replicas"]:
        replica["losses"] = [2 * loss for loss in replica["losses"]]
    cache.store(entry["key"], entry["records"], entry["made_at"])
    assert cache.fetch(entry["key"]) is not None
    stages = Stages()
    result = run("numpy", "mine", registry=registry(place), observers=[stages], **QUICK)
    assert result.verdict("parity").outcome == "pass"
    assert any("in the cache fails; measuring again" in detail for _, detail in stages.told)
    stored = cache.fetch(entry["key"])
    assert stored is not None
    assert stored.records[0].replicas[0].losses == result.parity.losses[0]


@pytest.mark.parametrize("topology", ["1n1d", "1n1d@queue"])
def test_the_evidence_is_got_with_the_variables_that_are_measured(
    place: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> None:
    """Those of this shell, wherever the agents are: what they are told does not leave it to their own."""
    messages: list[dict[str, Any]] = []
    launch = Local.launch

    def reading(self: Local, job: Any) -> Any:
        with zipfile.ZipFile(job.bundle) as packed:
            files = {"request.json", "parity.json"} & {*packed.namelist()}
            messages.extend(json.loads(packed.read(name)) for name in files)
        return launch(self, job)

    monkeypatch.setattr(Local, "launch", reading)
    monkeypatch.setenv("HANDED_ON", "from this shell")
    plugins, env = registry(place, topologies={"queue": Queueing}), {"HANDED_ON": None, "NOT_HERE": None}
    result = run("numpy", "mine", topology=topology, env=env, registry=plugins, **QUICK)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert sorted(request["program"] for request in messages) == ["measure", "parity"]
    assert [request["variables"] for request in messages] == [{"HANDED_ON": "from this shell"}] * 2


def test_independent_replicas_must_follow_their_own_shards(place: Path) -> None:
    result = run("numpy", "mine", topology="1n2d", strategy="independent", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")


def test_an_odd_number_of_replicas_is_inconclusive(place: Path) -> None:
    result = run("numpy", "mine", topology="1n3d", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert result.exit_code == 0


def test_a_warm_up_is_compared_with_a_case_of_its_own() -> None:
    plugins = Registry()
    spec = RunSpec(framework="torch", model="resnet50", learning_rate_policy="warmup")
    assert "case warmup, 4 steps" in describe_parity_run(make_plan(spec, plugins), plugins)
    with pytest.raises(SpecError, match="The optimizer of linear has no warm-up"):
        make_plan(RunSpec(framework="numpy", model="linear", learning_rate_policy="warmup"), plugins)


def test_missing_reference_of_a_model_is_reported(place: Path) -> None:
    result = run("numpy", "mine", registry=registry(place, references=None), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert "Model.references" in result.parity.detail
    assert result.ok


def test_faulty_model_fails_parity_by_name_and_is_still_measured(place: Path) -> None:
    """The reference's case asks for one rate, the reference itself was made with half of it."""
    path = place / "mine.json"
    path.write_text(path.read_text().replace(f'"learning_rate": {RATE}', f'"learning_rate": {2 * RATE}'))
    reference.load.cache_clear()
    for topology in ("1n1d", "1n2d"):
        result = run("numpy", "mine", topology=topology, registry=registry(place), **QUICK)
        assert (result.status, result.exit_code) == ("ok", 1)
        assert result.parity.follows == ("twice the rate",)
        assert result.parity.differing == ("weight",)
        assert result.metric("throughput").value > 0
    assert not list((place / "cache" / "parity").glob("*.json")), "what failed is not kept"


def test_a_reference_that_cannot_be_read_is_inconclusive(place: Path) -> None:
    (place / "mine.json").write_text("{}")
    result = run("numpy", "mine", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert "mine" in result.parity.detail
    with pytest.raises(DocumentError):
        reference.load(place / "mine.json")


# -- where launches wait for their turn, and where the run is somewhere else


class Queueing(Local):
    """This machine, as if each launch had to wait."""

    name = "queue"

    launches: ClassVar[list[Any]] = []

    def has_queue(self) -> bool:
        return True

    def launch(self, job: Any) -> Any:
        self.launches.append(job)
        return super().launch(job)


@pytest.fixture
def queue(place: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(Queueing, "launches", [])
    return registry(place, topologies={"queue": Queueing})


def test_one_launch_brings_the_evidence_and_the_measurement(queue: Registry) -> None:
    result = run("numpy", "mine", topology="2n1d@queue", registry=queue, **{**QUICK, "repeats": 2})
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert [repeat.attempt for repeat in result.repeats] == [1, 2]
    assert len(Queueing.launches) == 1
    again = run("numpy", "mine", topology="2n1d@queue", registry=queue, **QUICK)
    assert again.parity == result.parity, "what was run in the first launch serves the next"


def test_faulty_model_in_one_launch_is_still_measured(place: Path, queue: Registry) -> None:
    path = place / "mine.json"
    path.write_text(path.read_text().replace(f'"learning_rate": {RATE}', f'"learning_rate": {2 * RATE}'))
    reference.load.cache_clear()
    result = run("numpy", "mine", topology="1n1d@queue", registry=queue, **QUICK)
    assert (result.status, result.exit_code) == ("ok", 1)
    assert result.parity.follows == ("twice the rate",)


@pytest.mark.parametrize("kind", ["crashed", "out-of-memory"])
def test_a_parity_run_that_fails_in_one_launch(
    queue: Registry, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A crash is its verdict, and the rest is measured; what would end the case ends it."""
    error = "MemoryError()" if kind == "out-of-memory" else "RuntimeError('planted')"
    contents = bundle.contents

    def spoilt(*arguments: Any) -> dict[str, bytes]:
        files = contents(*arguments)
        files["dlperf_sdk/worker/parity.py"] = f"def follow(*_):\n    raise {error}\n".encode()
        return files

    monkeypatch.setattr(bundle, "contents", spoilt)
    result = run("numpy", "mine", topology="1n1d@queue", registry=queue, **QUICK)
    if kind == "crashed":
        assert (result.status, result.verdict("parity").outcome) == ("ok", "fail")
        assert "planted" in result.parity.detail
    else:
        assert (result.status, len(result.repeats)) == (kind, 0)


def test_a_bundle_brings_its_evidence_back(place: Path) -> None:
    """Run with an interpreter and nothing else; what it has written is turned into a result with its verdict."""
    plugins, path, out = registry(place), place / "case.pyz", place / "out"
    spec = RunSpec(framework="numpy", model="mine", batch_size=4, warmup=1, steps=5, repeats=1)
    packing.pack(spec, path, plugins)
    command = [sys.executable, "-I", str(path), "run", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Parity run: ok" in done.stdout
    with (out / "events.jsonl").open("rb") as lines:
        result = replay.replay(lines, place / "store", registry=plugins)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert len(result.parity.losses) == 1
    assert not list((place / "cache" / "parity").glob("*.json")), (
        "another machine's evidence serves nobody here"
    )


def test_stream_without_a_parity_run_is_reported(place: Path) -> None:
    plugins, out = registry(place), place / "out"
    spec = RunSpec(framework="numpy", model="mine", batch_size=4, warmup=1, steps=5, repeats=1)
    packing.pack(spec, place / "case.pyz", plugins)
    subprocess.run([sys.executable, "-I", str(place / "case.pyz"), "run", "-o", str(out)], check=True)
    lines = [line for line in (out / "events.jsonl").read_bytes().splitlines() if b"parity-ended" not in line]
    result = replay.replay(lines, place / "store", registry=plugins)
    assert result.verdict("parity").outcome == "inconclusive"
    assert "contains no parity run" in result.parity.detail


def test_unverifiable_case_is_known_when_the_bundle_is_built(place: Path) -> None:
    plugins, out = registry(place, references=None), place / "out"
    spec = RunSpec(framework="numpy", model="mine", batch_size=4, warmup=1, steps=5, repeats=1)
    packed, _ = packing.pack(spec, place / "case.pyz", plugins)
    assert "parity.json" not in packed.files
    subprocess.run([sys.executable, "-I", str(place / "case.pyz"), "run", "-o", str(out)], check=True)
    with (out / "events.jsonl").open("rb") as lines:
        result = replay.replay(lines, place / "store", registry=plugins)
    assert "Model.references" in result.verdict("parity").detail


# -- what a parity run may come to, event by event


def followed(place: Path, start: Any, **fields: Any) -> Any:
    plugins = registry(place)
    plan = make_plan(RunSpec(framework="numpy", model="mine", protocol="quick", **fields), plugins)
    prepared = environments.prepare("numpy", plan.environment, "cpu")
    run = plan_parity_run(plan, prepared, {}, plugins)
    return follow_parity_run(run, start(run.plan, run.request))


def failing(kind: str) -> Any:
    failure = {"kind": kind, "message": f"It was {kind}.", "phase": "warmup", "node": 0, "rank": 0}

    def start(plan: Any, request: Any) -> Any:
        yield {"event": "attempt-ended", "failure": failure, "records": []}
        yield {"event": "ended", "failure": failure}

    return start


@pytest.mark.parametrize("kind", ["crashed", "timeout", "invalid-record"])
def test_a_parity_run_that_fails_is_a_verdict_in_its_own_words(place: Path, kind: str) -> None:
    actual = followed(place, failing(kind))
    assert actual.outcome == "fail"
    assert f"It was {kind}." in actual.detail
    assert f"({kind}, node 0, rank 0, phase warmup)" in actual.detail


@pytest.mark.parametrize(
    ("kind", "error"), [("out-of-memory", OutOfMemory), ("unavailable", Unavailable), ("lost-node", LostNode)]
)
def test_fatal_failure_of_parity_ends_the_case(place: Path, kind: str, error: type[RunFailed]) -> None:
    with pytest.raises(error, match=f"In the parity run: It was {kind}") as raised:
        followed(place, failing(kind))
    failure = raised.value.failure
    assert (failure.kind, failure.node, failure.rank, failure.phase) == (kind, 0, 0, "warmup")


def test_of_the_logs_only_the_end_of_the_failed_ranks_is_kept(place: Path) -> None:
    failure = {"kind": "crashed", "message": "It crashed.", "phase": "warmup", "node": 0, "rank": 1}

    def start(plan: Any, request: Any) -> Any:
        yield {"event": "attempt-ended", "failure": failure, "records": []}
        for number in range(1000):  # 1 GB
            yield {"event": "log", "name": f"rank-{number % 3}", "text": str(number) * 2**18}
        yield {"event": "log", "name": "rank-1", "text": "the end"}
        yield {"event": "ended", "failure": failure}

    tracemalloc.start()
    try:
        actual = followed(place, start)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert actual.traceback.endswith("997997the end")


def test_a_node_lost_in_the_parity_run_costs_no_second_launch(place: Path) -> None:
    launches = []

    class Losing(Local):
        name = "losing"

        @contextmanager
        def launch(self, job: Any) -> Any:
            launches.append(job.id)
            lost = {"kind": "lost-node", "message": "It is lost.", "phase": "start", "node": 1, "rank": None}
            yield iter([json.dumps({"event": "ended", "status": "lost-node", "failure": lost}).encode()])

    plugins = registry(place, topologies={"losing": Losing})
    result = run("numpy", "mine", topology="2n1d@losing", registry=plugins, **QUICK)
    assert len(launches) == 1
    assert (result.status, result.failure.node, result.failure.phase) == ("lost-node", 1, "start")


@pytest.mark.parametrize(
    "records",
    [[], [{}], ["record"], [{"status": "ok"}]],
)
def test_records_that_break_the_protocol_fail(place: Path, records: list[Any]) -> None:
    def start(plan: Any, request: Any) -> Any:
        yield {"event": "attempt-ended", "failure": None, "records": records}
        yield {"event": "ended", "failure": None}

    actual = followed(place, start)
    assert actual.outcome == "fail"
    assert "protocol" in actual.detail


def test_interruption_leaves_nothing(place: Path) -> None:
    ids = []

    def start(plan: Any, request: Any) -> Any:
        ids.append(request.id)
        for event in launch(plan, request, registry(place)):
            if event["event"] == "worker-started":
                raise KeyboardInterrupt
            yield event

    with pytest.raises(KeyboardInterrupt):
        followed(place, start, topology="1n2d")
    assert ids
    assert not processes_with(ids[0])


# -- verify


def test_frameworks_side_by_side(place: Path) -> None:
    output: list[str] = []
    actual = verify(
        ["numpy", "torch"], "mine", registry=registry(place), topology="1n2d", on_progress=output.append
    )
    assert [row.outcome for row in actual[0].rows] == ["pass", "not-run"]
    assert "torch has no implementation of mine" in actual[0].rows[1].reason
    assert exit_code(actual) == 5
    assert len(actual[0].losses) == 2
    assert json.loads(json.dumps(actual[0].to_dict()))["rows"][0]["outcome"] == "pass"
    assert output


def test_nothing_that_could_be_followed(place: Path) -> None:
    assert exit_code(verify(["torch"], "mine", registry=registry(place))) == 3


def test_invalid_arguments_are_raised(place: Path) -> None:
    plugins = registry(place)
    with pytest.raises(UnknownName, match="Did you mean 'mine'"):
        verify(["numpy"], "min", registry=plugins)
    with pytest.raises(UnknownName, match="no framework named 'nothing'"):
        verify(["numpy", "nothing"], "mine", registry=plugins)
    with pytest.raises(UnknownName, match="no case of mine's reference named 'full'"):
        verify(["numpy"], "mine", registry=plugins, case="full")
    with pytest.raises(UsageError, match="framework is missing"):
        verify([], "mine", registry=plugins)
    with pytest.raises(UsageError, match="options"):
        verify(["numpy"], "mine", registry=plugins, options={"features": 3})


def test_failing_framework_is_reported_with_node_and_rank(place: Path) -> None:
    from dlperf_sdk.reports import terminal, verification

    path = place / "mine.json"
    path.write_text(path.read_text().replace(f'"learning_rate": {RATE}', f'"learning_rate": {2 * RATE}'))
    reference.load.cache_clear()
    actual = verify(["numpy"], "mine", registry=registry(place))
    assert exit_code(actual) == 1
    text = terminal.text_of(verification.page(actual), width=120)
    assert "twice the rate" in text
    assert "weight" in text.splitlines()[-1]
    assert numpy.isfinite(actual[0].rows[0].parity.updates)
    assert attrs.has(type(actual[0]))


def test_without_a_model_all_that_one_of_them_implements(place: Path) -> None:
    actual = verify(["numpy"], registry=registry(place))
    names = {one.model for one in actual}
    assert {"mine", "linear", "softmax"} <= names
    assert "resnet50" not in names
    assert exit_code(actual) == 0
