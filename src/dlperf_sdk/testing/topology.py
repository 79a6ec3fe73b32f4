"""Test a launcher: it starts an agent on every node, returns agent 0's stream, and cancels orphaned jobs."""

from __future__ import annotations

import time
import uuid
import zipfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import attrs
import pytest

from dlperf_sdk.api import run
from dlperf_sdk.errors import LostNode, Unavailable
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.stream_events import parse_event
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.fields import EFFECTS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar
from dlperf_sdk.testing.conformance import Conformance, advice

_CANCEL_TIMEOUT = 60.0
"""Seconds in which a job that is being cancelled has to be gone."""


class TopologyConformance(Conformance):
    """The conformance suite of a launcher plugin. Subclass it, and name the launcher and a case that it can place.

        class TestMyLauncher(TopologyConformance):
            topology = "my"
            framework, model = "numpy", "linear"

    For each number of nodes the case is run once, and all tests share the result.
    """

    topology: ClassVar[str]
    """The name of the launcher in the group `dlperf_sdk.topologies`, as users type it after the `@`."""
    framework: ClassVar[str]
    """The framework of the case."""
    model: ClassVar[str]
    """The model of the case."""
    nodes: ClassVar[int] = 2
    """The number of nodes that the launcher can place on this machine; with 1, `test_several_nodes` is skipped."""
    options: ClassVar[Mapping[str, Scalar]] = {}
    """Options that the launcher needs here, by name, such as its hosts or a partition; as with `--set NAME=VALUE`."""
    registry: ClassVar[Registry] = Registry()
    """The registry of plugins; by default, the installed ones."""

    _results: ClassVar[dict[int, Result]]

    def __init_subclass__(cls) -> None:
        cls._results = {}

    @property
    def plugin(self) -> Topology:
        """The launcher, loaded.

        Raises:
            DlperfError: No such launcher is installed, or it cannot be loaded.
        """
        return self.registry.topology(self.topology)

    def test_options_are_described(self) -> None:
        """Each option of the launcher has a help text, which `dlperf describe topology` shows."""
        without_help = [
            option.name for option in attrs.fields(self.plugin.Options) if not option.metadata.get("help")
        ]
        assert not without_help, advice(
            f"The options {', '.join(without_help)} have no help text.",
            "`dlperf describe topology` shows it, and there is no other documentation of an option",
            'declare each as attrs.field(default=…, metadata={"help": "…"})',
        )

    def test_effects_of_options_are_spelt_right(self) -> None:
        """No key in the metadata of an option of the launcher is nearly `executes` or `reads`.

        With such a key, a spec file from somebody else could name the program that the launcher starts.
        """
        misspelt = {
            f"{option.name}: {key}"
            for option in attrs.fields(self.plugin.Options)
            for key in map(str, option.metadata)
            if key not in EFFECTS and get_close_matches(key.lower(), EFFECTS, n=1, cutoff=0.7)
        }
        assert not misspelt, advice(
            f"Metadata of options that have no effect: {', '.join(sorted(misspelt))}.",
            "a spec or campaign file could name the program or the file",
            f"write {' or '.join(map(repr, EFFECTS))}",
        )

    def test_commands_are_pure(self) -> None:
        """Two calls of the launcher's `commands` return equal, non-empty sequences of commands.

        Each command is a sequence of words, which are strings. At least one word contains the job's ID or the name of
        its bundle. The test does not check that `commands` starts nothing.
        """
        job = self._job("conformance", Path("/nowhere/case.pyz"), self.nodes)
        commands = self.plugin.commands(job)
        assert commands == self.plugin.commands(job) and commands, "commands() differs from call to call"
        assert all(isinstance(argument, str) for command in commands for argument in command), commands
        assert any(
            name in argument for command in commands for argument in command for name in (job.id, "case.pyz")
        ), advice(
            f"None of the commands names the case, or its bundle: {commands}",
            "`dlperf plan` shows them to users who must know what will be started",
            "return the commands that `launch` runs for this job",
        )

    def test_refusals_are_sentences(self) -> None:
        """For 999,999 nodes, the launcher's `unavailable_reason` is None or a string of more than three words."""
        reason = self.plugin.unavailable_reason(999_999, 8, "cpu")
        assert reason is None or len(reason.split()) > 3, reason

    def test_one_node(self) -> None:
        """A run of the suite's case on one node succeeds."""
        self._run(1)

    def test_several_nodes(self) -> None:
        """A run of the suite's case on `nodes` nodes succeeds, and each rank has a record. Skipped if `nodes` is 1."""
        if self.nodes < 2:
            pytest.skip("the suite is limited to one node here")
        result = self._run(self.nodes)
        ranks = sorted(record.rank for record in result.repeats[0].records)
        assert ranks == list(range(self.nodes)), advice(
            f"{self.nodes} nodes were requested, and ranks {ranks} wrote a record.",
            "a node that is missing was paid for, and not measured",
            "start one agent per node, each with its own --node",
        )

    def test_failed_start_is_reported(self) -> None:
        """With a bundle that cannot start, the launcher reports no success.

        Either its `launch` or the reading of its event stream raises Unavailable or LostNode, or each event `ended` in
        the stream, if there is one, has a failure.
        """
        with TemporaryDirectory() as folder:
            broken = Path(folder) / "broken.pyz"
            with zipfile.ZipFile(broken, "w") as archive:
                archive.writestr("__main__.py", "raise SystemExit('this bundle is broken')\n")
            job = self._job(f"conformance-{uuid.uuid4().hex[:8]}", broken, 1)
            try:
                with self.plugin.launch(job) as stream:
                    lines = list(stream)
            except (Unavailable, LostNode):
                return
        ended = [
            event for event in map(parse_event, lines) if event is not None and event["event"] == "ended"
        ]
        assert all(event["failure"] is not None for event in ended), ended

    def test_attaching_to_an_unknown_job_fails(self) -> None:
        """The launcher's `attach` raises Unavailable for a job that does not exist."""
        with pytest.raises(Unavailable):
            self.plugin.attach(f"conformance-{uuid.uuid4().hex[:8]}")

    def test_orphaned_job_is_canceled(self) -> None:
        """The launcher's `cancel_orphaned_jobs` cancels a job with a given ID within 60 s, and none with another ID.

        A campaign calls this method when it is resumed after its controller was killed. Skipped if the launcher has no
        queue on this machine.
        """
        if not self.plugin.has_queue():
            pytest.skip("the launcher has no queue here: its agents end with their controller")
        with TemporaryDirectory() as folder:
            bundle = Path(folder) / "lasting.pyz"
            with zipfile.ZipFile(bundle, "w") as archive:
                archive.writestr("__main__.py", "import time\ntime.sleep(600)\n")
            job = self._job(f"conformance-{uuid.uuid4().hex[:8]}", bundle, 1)
            with self.plugin.launch(job):
                canceled = self.plugin.cancel_orphaned_jobs({f"{job.id}0"}, job.options)
                first = remaining = self.plugin.cancel_orphaned_jobs({job.id}, job.options)
                deadline = time.monotonic() + _CANCEL_TIMEOUT
                while remaining and time.monotonic() < deadline:
                    time.sleep(0.5)
                    remaining = self.plugin.cancel_orphaned_jobs({job.id}, job.options)
        assert not canceled, (
            f"cancel_orphaned_jobs() was called for {job.id}0, which does not exist, and returned {canceled}."
        )
        assert first, advice(
            f"The job {job.id} was in the queue, and cancel_orphaned_jobs() returned nothing.",
            "a campaign that is resumed would submit the same repeat beside the one that a killed controller left",
            "put `Job.id` into the job's name, and look for that name among the user's own jobs",
        )
        assert not remaining, advice(
            f"After {_CANCEL_TIMEOUT:.0f} s, cancel_orphaned_jobs() still returns {remaining}.",
            "a campaign waits until nothing is left, and gives up after a while",
            "cancel the jobs that are found, and leave out those that are over",
        )

    def _job(self, name: str, bundle: Path, nodes: int) -> Job:
        return Job(name, bundle, nodes, 1, "cpu", self.plugin.Options(**self.options))

    def _run(self, nodes: int) -> Result:
        if nodes not in self._results:
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
            self._results[nodes] = run(spec, store=None, registry=self.registry)
        result = self._results[nodes]
        assert result.failure is None, advice(
            f"{result.spec.topology} ended with {result.status}: {result.failure and result.failure.message}",
            "a launcher's only job: deliver the bundle, run one command per node, return agent 0's stream",
            "see `dlperf_sdk/launchers/ssh.py` for an example",
        )
        return result
