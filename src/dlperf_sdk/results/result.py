"""The result of one case (schema `result`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from attrs import frozen

from dlperf_sdk.documents.field_types import (
    Count,
    Index,
    NoteText,
    PositiveCount,
    Real,
    RunId,
    Schema,
    Sha256,
    Timestamp,
    WrittenAs,
)
from dlperf_sdk.errors import FAILURES
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.trace_summary import TraceSummary
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from dlperf_sdk.results.frames import Per

RESULT_VERSION = "1.0"

PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE = "pass", "fail", "inconclusive", "not-applicable"
INTEGRITY, QUALITY = "integrity", "quality"

Outcome = Annotated[str, Schema(enum=[PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE])]
Status = Annotated[str, Schema(enum=["ok", *FAILURES])]
ParityLosses = Annotated[tuple[Real, ...], Schema(maxItems=100_000)]


@frozen
class Verdict:
    """A named check and its outcome."""

    name: str
    """Name of the check."""
    kind: Annotated[str, Schema(enum=[INTEGRITY, QUALITY])]
    """`integrity` (a failure makes the number invalid, and sets the exit code) or `quality` (shown)."""
    outcome: Outcome
    """`pass`, `fail`, `inconclusive` or `not-applicable`."""
    detail: str
    """The compared values in a sentence."""


@frozen
class Fact:
    """One property of the case: requested, observed, and its role in comparisons."""

    name: str
    """Name of the property."""
    role: Role
    """`workload` must match for two results to be compared, `factor` is a column, `context` is a footnote."""
    requested: Any
    """The requested value; any JSON value."""
    observed: Any
    """The observed value; any JSON value."""


@frozen(kw_only=True)
class Parity:
    """Agreement of the first steps with the model's float64 reference. The parity run may be an earlier, cached one."""

    outcome: Outcome
    """`pass`, `fail`, `inconclusive` or `not-applicable`."""
    detail: str
    """Compared values, size of the deviation, and its likely cause."""
    case: str
    """The reference's case."""
    losses: Annotated[tuple[ParityLosses, ...], Schema(maxItems=999_999)] = ()
    """Loss of each step, per replica; empty if nothing was run."""
    deviations: ParityLosses = ()
    """Largest relative deviation of a replica's loss from float64, per step."""
    updates: Real | None = None
    """Relative deviation of the parameters' first updates, taken as one vector."""
    differing: tuple[str, ...] = ()
    """Parameters whose first update deviates too far, and such running means, in the order of the model."""
    follows: tuple[str, ...] = ()
    """Known mistakes whose trajectories the run follows, the nearest first."""
    reference: str | None = None
    """SHA-256 of the reference."""
    key: str | None = None
    """SHA-256 over what this is evidence for: code, settings, environment, device, reference."""
    made_at: Timestamp | None = None
    """Time of the run: UTC, ISO 8601."""
    traceback: str | None = None
    """Traceback of a failed run's worker, or the end of its log."""


@frozen
class Stopping:
    """Rule by which the repeats ended, and whether its condition was met."""

    rule: Annotated[str, Schema(enum=["fixed", "adaptive"])]
    """`fixed` or `adaptive`."""
    met: bool
    """True if the rule's condition was met."""
    detail: str
    """The condition that was not met, or the goal that was reached."""


@frozen
class Environment:
    """The environment of the workers."""

    kind: Annotated[str, Schema(enum=["managed", "given", "running", "container"])]
    """`managed`, `given` (the user's own interpreter), `running` (the controller's) or `container`."""
    python: str
    """The version of Python."""
    lock: str
    """Exact versions of everything installed, in requirements format."""
    command: tuple[str, ...]
    """Command that starts its Python."""
    variables: Mapping[str, str]
    """Variables that were set for the workers, in addition to the allow-list."""
    plugin: str
    """The framework plugin's distribution and version."""


@frozen
class Workload:
    """The size of what was trained."""

    parameters: Count
    """Trainable parameters."""
    flops_per_sample: Count
    """Floating-point operations per training step and sample; a multiply-accumulate counts as two. 0 if the part
    of a step does not train, or the model does not count them."""
    global_batch_size: PositiveCount
    """Samples per optimization step over all devices."""
    optimizer: Mapping[str, Any]
    """The optimizer's kind and numbers, and the source of the numbers."""
    unit: str
    """Unit of the throughput."""


@frozen
class Source:
    """A file that numbers were read from."""

    name: str
    """Name of the file, without its directory."""
    sha256: Sha256
    """SHA-256 of its bytes."""
    lines: Count
    """Number of lines."""


@frozen
class Imported:
    """Origin of numbers that another program measured."""

    importer: str
    """The importer that read the logs."""
    version: str
    """Version of the importer, which changes with what it reads from a log."""
    program: str
    """The program that wrote the logs, if they name it."""
    estimator: str
    """Method by which a throughput was computed from a log, in a sentence; the fact `estimator` has its name."""
    sources: tuple[Source, ...]
    """The logs, one for each value of the throughput, in that order."""

    @property
    def origin(self) -> str:
        """The importer, its version and the program that wrote the logs: `by NAME, version 1, from logs of PROGRAM`."""
        return f"by {self.importer}, version {self.version}, from logs of {self.program}"


@frozen(kw_only=True, repr=False)
class Result:
    """One case: its spec, its metrics, and the verdicts on their validity."""

    id: RunId
    """Name of the run."""
    status: Status
    """`ok`, or the kind of the failure."""
    failure: Failure | None
    """Failure of the case; null exactly if the status is `ok`."""
    spec: RunSpec
    """The requested case."""
    facts: tuple[Fact, ...]
    """Every property of the case, requested and observed, with its role."""
    metrics: Annotated[tuple[Metric, ...], Schema(maxItems=2000)]
    """The metrics."""
    verdicts: Annotated[tuple[Verdict, ...], Schema(maxItems=2000)]
    """The checks."""
    repeats: Annotated[Sequence[Repeat], WrittenAs(tuple[Repeat, ...] | tuple[Index, ...])]
    """The finished repeats with their records, or only their attempt numbers. In the latter case, the records are
    in attempts/NUMBER/ beside this document, and are read when they are first used."""
    stopping: Stopping | None
    """Reason why the repeats ended; null if the case failed before."""
    environment: Environment | None
    """The environment of the workers; null if the case failed before it had one."""
    hardware: tuple[Mapping[str, Any], ...]
    """Each node's description of itself."""
    workload: Workload | None
    """The size of what was trained; null if the case was refused before it had a plan."""
    notes: Annotated[tuple[NoteText, ...], Schema(maxItems=2000)]
    """Remarks of the nodes, such as a busy device."""
    started_at: Timestamp
    """Start of the run: UTC, ISO 8601."""
    finished_at: Timestamp
    """End of the run: UTC, ISO 8601."""
    sdk_version: str
    """Version of dlperf-sdk that wrote it."""
    imported: Imported | None = None
    """Origin of the numbers if another program measured them: there are no records, and nothing is verified. Null or
    absent if dlperf-sdk did."""
    parity: Parity | None = None
    """Agreement of the first steps with the model's reference; null or absent if that is unknown."""
    traces: tuple[TraceSummary, ...] = ()
    """Summaries of the profiler's traces, one per trainer, by rank; empty or absent if none were taken."""

    def __repr__(self) -> str:
        from dlperf_sdk.results.summary import to_text

        return to_text(self)

    def _repr_markdown_(self) -> str:
        from dlperf_sdk.results.summary import to_markdown

        return to_markdown(self)

    def _repr_html_(self) -> str:
        from dlperf_sdk.results.summary import to_html

        return to_html(self)

    @property
    def ok(self) -> bool:
        """True if the case finished and no integrity verdict failed."""
        return self.status == "ok" and not any(
            v.kind == INTEGRITY and v.outcome == FAIL for v in self.verdicts
        )

    @property
    def exit_code(self) -> int:
        """Exit code of `dlperf run`.

        - 0: the case finished, and no integrity verdict failed.
        - 1: the case finished, and an integrity verdict failed.
        - 3: the environment could not be made or used, and no repeat finished.
        - 4: the case failed for another reason, and no repeat finished.
        - 5: the case failed after at least one finished repeat.
        - 130: the run was interrupted.
        """
        if self.status == "ok":
            return 0 if self.ok else 1
        error = FAILURES[self.status]
        if self.repeats and error.exit_code != 130:
            return 5
        return error.exit_code

    def metric(self, name: str) -> Metric | None:
        """Return the metric named `name`, such as `throughput`; None if it was not measured."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def verdict(self, name: str) -> Verdict | None:
        """Return the verdict of the check named `name`, such as `spread`; None if there is none."""
        return next((verdict for verdict in self.verdicts if verdict.name == name), None)

    def raise_for_status(self) -> Result:
        """Raise the failure of the case as an exception; return this result if the case finished.

        A finished case is returned even if verdicts failed.

        Raises:
            RunFailed: The case failed. The subclass tells the kind of failure, and `.result` is this result.
        """
        if self.failure is not None:
            raise FAILURES[self.status](self.failure.message, self)
        return self

    def to_arrow(self, per: Per = "result") -> Any:
        """Return a `pyarrow.Table` of this result, in which a missing value is null.

        Args:
            per: What a row stands for: the `result` (case, status, and median, interval and unit of each metric), a
                `repeat` (case, number of the repeat, and value and unit of each metric) or a `step` (case, repeat,
                rank, step, duration, data wait and loss; one row per step and trainer).

        Raises:
            UnknownName: `per` is none of the three.
            UsageError: Pyarrow cannot be imported, or a whole number does not fit into 64 bits.
            DocumentError: Rows per step are requested, and records in the store cannot be read.
        """
        from dlperf_sdk.results.frames import to_arrow

        return to_arrow([self], per)

    def to_pandas(self, per: Per = "result") -> Any:
        """Return a `pandas.DataFrame` of this result, in which a missing value is NaN or NA.

        Args:
            per: What a row stands for: the `result` (case, status, and median, interval and unit of each metric), a
                `repeat` (case, number of the repeat, and value and unit of each metric) or a `step` (case, repeat,
                rank, step, duration, data wait and loss; one row per step and trainer).

        Raises:
            UnknownName: `per` is none of the three.
            UsageError: Pandas cannot be imported, or a whole number does not fit into 64 bits.
            DocumentError: Rows per step are requested, and records in the store cannot be read.
        """
        from dlperf_sdk.results.frames import to_pandas

        return to_pandas([self], per)

    def to_polars(self, per: Per = "result") -> Any:
        """Return a `polars.DataFrame` of this result, in which a missing value is null.

        Args:
            per: What a row stands for: the `result` (case, status, and median, interval and unit of each metric), a
                `repeat` (case, number of the repeat, and value and unit of each metric) or a `step` (case, repeat,
                rank, step, duration, data wait and loss; one row per step and trainer).

        Raises:
            UnknownName: `per` is none of the three.
            UsageError: Polars cannot be imported, or a whole number does not fit into 64 bits.
            DocumentError: Rows per step are requested, and records in the store cannot be read.
        """
        from dlperf_sdk.results.frames import to_polars

        return to_polars([self], per)

    def to_dict(self) -> dict[str, Any]:
        """Return the result, with all records, as JSON values of the schema `result`.

        The dict shares nothing mutable with the result.

        Raises:
            DocumentError: The result is in the store, and its records cannot be read; or a plugin put a value into the
                result that JSON cannot represent.
        """
        from dlperf_sdk.results.convert import result_to_dict

        return result_to_dict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Result:
        """Return the result of a JSON document: the inverse of `to_dict`.

        A document may have attempt numbers in place of repeats. In that case, access to a repeat of the returned
        result raises a `DocumentError`.

        Raises:
            DocumentError: The document is not plain JSON data, breaks the schema, contradicts itself, has a spec with
                an impossible value, or is of another major version.
        """
        from dlperf_sdk.documents.json_values import check_plain
        from dlperf_sdk.results.convert import result_from_dict

        check_plain(plain, "The result")
        return result_from_dict(plain)
