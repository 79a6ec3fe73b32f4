"""What a launcher is held to: it places agents, brings back the first one's stream, and leaves none behind."""

from __future__ import annotations

import time
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from dlperf_sdk.api import run
from dlperf_sdk.errors import LostNode, Unavailable
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.events import event_on
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar
from dlperf_sdk.testing.conformance import Conformance, advice

_GONE = 60.0
"""Seconds in which a job that is being ended has to be gone."""


class TopologyConformance(Conformance):
    """Subclass it, name the launcher, and a case that it can place.

    class TestMyEngine(TopologyConformance):
        topology = "my"
        framework, model = "numpy", "linear"
    """

    topology: ClassVar[str]
    """The name that users type behind the '@'."""
    framework: ClassVar[str]
    model: ClassVar[str]
    nodes: ClassVar[int] = 2
    """How many nodes it can place here."""
    options: ClassVar[Mapping[str, Scalar]] = {}
    """What the launcher has to be told here, as `--set NAME=VALUE` does: its hosts, a partition."""
    registry: ClassVar[Registry] = Registry()

    _kept: ClassVar[dict[int, Result]]

    def __init_subclass__(cls) -> None:
        cls._kept = {}

    @property
    def plugin(self) -> Topology:
        """The launcher; raises PluginError."""
        return self.registry.topology(self.topology)

    def test_it_says_what_it_will_run(self) -> None:
        """`commands` is pure: one per node, each with the bundle in it, and the same when asked again."""
        job = self._job("conformance", Path("/nowhere/case.pyz"), self.nodes)
        commands = self.plugin.commands(job)
        assert commands == self.plugin.commands(job) and commands, "commands() differs from call to call"
        assert all(isinstance(word, str) for command in commands for word in command), commands
        assert any(
            named in word for command in commands for word in command for named in (job.id, "case.pyz")
        ), advice(
            f"None of the commands names the case, or its bundle: {commands}",
            "`dlperf plan` shows them to people who must know what will be started",
            "give the commands that `launch` runs for this job",
        )

    def test_it_refuses_in_a_sentence(self) -> None:
        """A million nodes are refused, or left to the scheduler."""
        reason = self.plugin.refuses(999_999, 8, "cpu")
        assert reason is None or len(reason.split()) > 3, reason

    def test_one_node(self) -> None:
        """A case of one node ends well."""
        self._ok(1)

    def test_several_nodes_meet(self) -> None:
        """Every node's worker writes its record."""
        if self.nodes < 2:
            pytest.skip("the suite was told that it can place one node here")
        result = self._ok(self.nodes)
        ranks = sorted(record.rank for record in result.repeats[0].records)
        assert ranks == list(range(self.nodes)), advice(
            f"{self.nodes} nodes were asked for, and ranks {ranks} wrote a record.",
            "a node that is missing was paid for, and not measured",
            "start one agent per node, each with its own --node",
        )

    def test_a_bundle_that_does_not_start_is_told(self) -> None:
        """`launch` raises, or its stream ends; it does not wait for ever, and leaves nothing."""
        with TemporaryDirectory() as folder:
            broken = Path(folder) / "broken.pyz"
            with zipfile.ZipFile(broken, "w") as archive:
                archive.writestr("__main__.py", "raise SystemExit('this bundle is broken')\n")
            job = self._job(f"conformance-{uuid.uuid4().hex[:8]}", broken, 1)
            try:
                with self.plugin.launch(job) as stream:
                    said = list(stream)
            except (Unavailable, LostNode) as error:
                said = [str(error).encode()]
        ended = [event for event in map(event_on, said) if event is not None and event["event"] == "ended"]
        assert all(event["failure"] is not None for event in ended), ended

    def test_what_is_left_in_its_queue_is_found_by_its_id_and_ended(self) -> None:
        """As a campaign does that is resumed: its controller was killed, and the job waits or runs on."""
        if not self.plugin.queues():
            pytest.skip("it has no queue here: what it starts ends with its controller")
        with TemporaryDirectory() as folder:
            lasting = Path(folder) / "lasting.pyz"
            with zipfile.ZipFile(lasting, "w") as archive:
                archive.writestr("__main__.py", "import time\ntime.sleep(600)\n")
            job = self._job(f"conformance-{uuid.uuid4().hex[:8]}", lasting, 1)
            with self.plugin.launch(job):
                others = self.plugin.end_left({f"{job.id}0"}, job.options)
                found = left = self.plugin.end_left({job.id}, job.options)
                end = time.monotonic() + _GONE
                while left and time.monotonic() < end:
                    time.sleep(0.5)
                    left = self.plugin.end_left({job.id}, job.options)
        assert not others, f"end_left() was asked for {job.id}0, which there is not, and told of {others}."
        assert found, advice(
            f"The job {job.id} was in the queue, and end_left() told of nothing.",
            "a campaign that is resumed would submit the same repeat beside the one that a killed controller left",
            "have the job's name hold `Job.id`, and look for that name among the user's own jobs",
        )
        assert not left, advice(
            f"After {_GONE:.0f} s, end_left() still tells of {left}.",
            "a campaign waits until nothing is left, and gives up after a while",
            "ask for the end of what is found, and leave out what is over",
        )

    def _job(self, name: str, bundle: Path, nodes: int) -> Job:
        return Job(name, bundle, nodes, 1, "cpu", self.plugin.Options(**self.options))

    def _ok(self, nodes: int) -> Result:
        if nodes not in self._kept:
            spec = RunSpec(
                framework=self.framework,
                model=self.model,
                topology=f"{nodes}n1d@{self.topology}",  # type: ignore[arg-type]
                batch_size=4,
                warmup=1,
                steps=3,
                repeats=1,
                options=dict(self.options),
            )
            self._kept[nodes] = run(spec, store=None, registry=self.registry)
        result = self._kept[nodes]
        assert result.failure is None, advice(
            f"{result.spec.topology} ended with {result.status}: {result.failure and result.failure.message}",
            "a launcher has one job: deliver the bundle, run one command per node, bring back agent 0's stream",
            "see `topologies/local.py`, which is the example",
        )
        return result
