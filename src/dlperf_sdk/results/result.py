"""The result of one case (schema `result`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.errors import FAILURES
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec

RESULT_VERSION = "1.0"

PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE = "pass", "fail", "inconclusive", "not-applicable"
INTEGRITY, QUALITY = "integrity", "quality"


@frozen
class Verdict:
    """A named check and how it came out."""

    name: str
    kind: str
    """`integrity` (a failure makes the number untrue, and sets the exit code) or `quality` (shown)."""
    outcome: str
    """`pass`, `fail`, `inconclusive` or `not-applicable`."""
    detail: str
    """What was compared with what, in a sentence."""


@frozen
class Fact:
    """One property of the case: asked for, seen, and what it means for comparing."""

    name: str
    role: Role
    requested: Any
    observed: Any


@frozen(kw_only=True)
class Parity:
    """Whether the first steps follow the model's float64 reference: from a short run of its own, or a kept one."""

    outcome: str
    """`pass`, `fail`, `inconclusive` or `not-applicable`."""
    detail: str
    """What was held against what, how far it was, and what it looks like."""
    case: str
    """The reference's case."""
    losses: tuple[tuple[float, ...], ...] = ()
    """Per replica the loss of each step; empty where nothing was run."""
    deviations: tuple[float, ...] = ()
    """Per step the largest relative deviation of a replica's loss from float64."""
    updates: float | None = None
    """The relative deviation of the parameters' first updates, taken as one."""
    differing: tuple[str, ...] = ()
    """Parameters whose first update differs, and running means that do; in the order of the model."""
    follows: tuple[str, ...] = ()
    """The known mistakes that lead where the run went, the nearest first."""
    reference: str | None = None
    """SHA-256 of the reference."""
    key: str | None = None
    """SHA-256 over what this is evidence for: code, settings, environment, device, reference."""
    made_at: str | None = None
    """When the run took place: UTC, ISO 8601."""
    traceback: str | None = None
    """Of a run that failed: the failed worker's traceback, or the end of its log."""


@frozen
class Stopping:
    """Why the repeats ended."""

    rule: str
    """`fixed` or `adaptive`."""
    met: bool
    detail: str
    """For an adaptive run that did not get there: the condition that was not met."""


@frozen
class Environment:
    """What the workers ran in."""

    kind: str
    """`managed`, `given` (somebody's own interpreter), `running` (the controller's) or `container`."""
    python: str
    """The version of Python."""
    lock: str
    """Exact versions of everything installed, in requirements format."""
    command: tuple[str, ...]
    """What starts a Python in it."""
    variables: Mapping[str, str]
    """Variables that were set for the workers, over and above the allow-list."""
    plugin: str
    """The framework plugin's distribution and version."""


@frozen
class Workload:
    """What was trained, in numbers."""

    parameters: int
    """Trainable parameters."""
    flops_per_sample: int
    """Per training step; a multiply-accumulate counts as two."""
    global_batch_size: int
    optimizer: Mapping[str, Any]
    """Its kind, its numbers and their source."""
    unit: str
    """How the throughput is written."""


@frozen
class Source:
    """A file that numbers were read from."""

    name: str
    """Without its directory."""
    sha256: str
    lines: int


@frozen
class Imported:
    """Where a result's numbers come from that another program measured."""

    importer: str
    version: str
    """Of the importer: what it takes for what may change."""
    program: str
    """What wrote the logs, as far as they tell."""
    estimator: str
    """How a throughput was made of a log, in a sentence; the fact `estimator` has its name."""
    sources: tuple[Source, ...]
    """The logs, one for each value of the throughput, in that order."""


@frozen(kw_only=True)
class Result:
    """One case: what was asked, what was measured, and whether to believe it."""

    id: str
    status: str
    """`ok`, or the kind of the failure."""
    failure: Failure | None
    spec: RunSpec
    facts: tuple[Fact, ...]
    """Every field of spec and observation, with its role, requested and observed side by side."""
    metrics: tuple[Metric, ...]
    verdicts: tuple[Verdict, ...]
    repeats: Sequence[Repeat]
    """The finished ones. Of a result from the store their records are read when they are asked for, and a
    DocumentError says then that they cannot be."""
    stopping: Stopping | None
    environment: Environment | None
    """None where the case failed before it had one."""
    hardware: tuple[Mapping[str, Any], ...]
    """What each node found of itself."""
    workload: Workload | None
    """None where the case was refused before it had a plan."""
    notes: tuple[str, ...]
    """What the nodes had to say, such as a device that was busy."""
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str
    sdk_version: str
    imported: Imported | None = None
    """None where dlperf-sdk measured it. Of an imported result there are no records, and nothing is verified."""
    parity: Parity | None = None
    """None where the case failed before it could be judged, or another program measured it."""

    @property
    def ok(self) -> bool:
        """Whether the case ran, and every integrity verdict lets the number stand."""
        return self.status == "ok" and not any(
            v.kind == INTEGRITY and v.outcome == FAIL for v in self.verdicts
        )

    @property
    def exit_code(self) -> int:
        """0 ok, 1 a verdict failed, 3 environment, 4 failed, 5 failed after some repeats, 130 interrupted."""
        if self.status == "ok":
            return 0 if self.ok else 1
        error = FAILURES[self.status]
        if self.repeats and error.exit_code != 130:
            return 5
        return error.exit_code

    def metric(self, name: str) -> Metric | None:
        """The metric of that name, or None where nobody could measure it."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def verdict(self, name: str) -> Verdict | None:
        """The verdict of that name, or None."""
        return next((verdict for verdict in self.verdicts if verdict.name == name), None)

    def raise_for_status(self) -> Result:
        """This result, if the case ran.

        Raises:
            RunFailed: the case failed; the subclass says how, and `.result` is this result.
        """
        if self.failure is not None:
            raise FAILURES[self.status](self.failure.message, self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, under the schema `result`."""
        from dlperf_sdk.results.convert import result_to_dict

        return result_to_dict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Result:
        """The inverse of `to_dict`.

        Raises:
            DocumentError: the document breaks the schema, or is of a newer major version.
        """
        from dlperf_sdk.results.convert import result_from_dict

        return result_from_dict(plain)
