"""`validate`: checks of existing documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show
from dlperf_sdk.errors import DlperfError, DocumentError, StoreError
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table

_CONTRADICTED = 1


@command
def validate(
    path: Annotated[
        Path,
        Parameter(
            help="A spec, request, record, result or published figure: .json; a spec also .toml or .yaml. Or the "
            "directory of a run, of runs, or of a campaign."
        ),
    ],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Check a document against its schema, and a result against its own records.

    The kind of a document is derived from its content. For the directory of a run, all metrics and verdicts are
    computed again from the records, and every difference is reported.

    Exit codes: 1 a result contradicts its records; 2 a document is invalid, or a run cannot be read.
    """
    from dlperf_sdk.documents import schema
    from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document

    if path.is_dir():
        return _directory(path, common)
    document = load_document(path, LARGEST_RESULT)
    kind = kind_of(document)
    version = str(document.get("schema_version", schema.version(kind)))
    if kind in ("run-spec", "campaign"):
        _check_written(path, kind, document)
    try:
        if kind == "result":
            document = {}  # it is read again with its records, and both would be in memory
            problems = _read_result(path)
        else:
            problems = _READ.get(kind, partial(_check_schema, kind))(document)
    except DlperfError as error:
        raise DocumentError(f"{path}: {error}") from error
    if common.json:
        plain = {"file": str(path), "kind": kind, "schema_version": version, "valid": not problems}
        emit({**plain, "contradictions": list(problems)} if problems else plain)
    elif problems:
        show([Paragraph(f"{path} is a {kind} that contradicts itself: {' '.join(problems)}", "bad")])
    else:
        show([Paragraph(f"{path} is a valid {kind.replace('-', ' ')}, version {version}.", "good")])
    return _CONTRADICTED if problems else 0


def _check_written(path: Path, kind: str, document: Mapping[str, Any]) -> None:
    """Check a run spec or campaign that was written by hand, and report all errors at once, each with its line.

    Raises:
        DocumentError: A run spec has errors.
        CampaignError: A campaign's file, or one that it extends, has errors.
    """
    from dlperf_sdk.documents import diagnostics, schema, source_positions

    if kind == "campaign":
        from dlperf_sdk.campaigns.campaign import expand_cases
        from dlperf_sdk.campaigns.file import load_campaign

        campaign = load_campaign(path)
        if campaign.size:  # a file without cases may be for others to extend
            for _ in expand_cases(campaign, "validate"):
                pass
        return
    places = source_positions.lines_of(path.read_text(encoding="utf-8-sig"), path.suffix.lower())
    problems = diagnostics.list_file_errors(
        path, kind, {"schema_version": schema.version(kind), **document}, places
    )
    if problems:
        raise DocumentError(diagnostics.join_errors(problems))


def _directory(path: Path, common: Common) -> int:
    """Validate the run, or all runs, in a directory."""
    from dlperf_sdk.cli.lookup import is_run
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.consistency import check_directory
    from dlperf_sdk.results.run_places import explain_absence, runs_in
    from dlperf_sdk.results.store import ResultStore

    measurers = Registry().measurers()
    folder = runs_in(path)
    runs = [folder / name for name in ResultStore(folder).ids() if is_run(folder / name)]
    runs = [path] if is_run(path) else runs
    if not runs:
        raise StoreError(explain_absence(path))
    # Run → contradictions, and the reason if it could not be checked.
    findings: dict[str, tuple[tuple[str, ...], str | None]] = {}
    for run in runs:
        try:
            findings[run.name] = check_directory(run, measurers), None
        except DlperfError as error:
            findings[run.name] = (), str(error)
    if common.json:
        plain = [
            {
                "run": run_id,
                "valid": not (problems or error),
                "contradictions": list(problems),
                "error": error,
            }
            for run_id, (problems, error) in findings.items()
        ]
        emit({"directory": str(path), "runs": plain})
    else:
        rows = [(run_id, _format_finding(*finding)) for run_id, finding in findings.items()]
        show([Table((Column("run"), Column("result")), tuple(rows))])
    if any(error is not None for _, error in findings.values()):
        return DocumentError.exit_code
    return _CONTRADICTED if any(problems for problems, _ in findings.values()) else 0


def _format_finding(problems: tuple[str, ...], error: str | None) -> Cell:
    if error is not None:
        return Cell(f"? {error}", "doubt")
    if problems:
        return Cell(f"✗ {' '.join(problems)}", "bad")
    return Cell("✓ nothing contradicts it", "good")


def kind_of(document: Mapping[str, Any]) -> str:
    """Return the name of the schema that a document seems to follow: the one that knows most of its keys.

    Args:
        document: The document as JSON values.

    Raises:
        DocumentError: No schema knows more than half of the keys.
    """
    from dlperf_sdk.documents import schema

    known = {name: _keys(schema.load(name)) - {"schema_version"} for name in schema.NAMES}
    kind = max(schema.NAMES, key=lambda name: len(known[name] & set(document)))
    keys = set(document) - {"schema_version"}
    if 2 * len(known[kind] & keys) <= len(keys):
        raise DocumentError(
            f"This is not a document of dlperf-sdk: it is neither {', nor '.join(schema.NAMES)}."
        )
    return kind


def _keys(described: Mapping[str, Any]) -> set[str]:
    """Return the keys of a schema's documents."""
    return set(described.get("properties") or described["$defs"]["record"]["properties"])


def _read_spec(document: dict[str, Any]) -> tuple[str, ...]:
    from dlperf_sdk.spec.run_spec import RunSpec

    RunSpec.from_dict(document)
    return ()


def _check_schema(kind: str, document: dict[str, Any]) -> tuple[str, ...]:
    from dlperf_sdk.documents import schema

    schema.check(kind, document)
    return ()


def _read_record(document: dict[str, Any]) -> tuple[str, ...]:
    from dlperf_sdk.documents import schema
    from dlperf_sdk.results.convert import record_from_dict

    # The record of a failed trainer is valid, too, but it is no measurement.
    schema.check("worker-record", document)
    if document.get("status") == "ok":
        record_from_dict(document)
    return ()


def _read_published(document: dict[str, Any]) -> tuple[str, ...]:
    from dlperf_sdk.interfaces.figure import PublishedFigure

    PublishedFigure.from_dict(document)
    return ()


def _read_result(path: Path) -> tuple[str, ...]:
    """Check a result together with the records in its directory."""
    from dlperf_sdk.results.consistency import list_contradictions
    from dlperf_sdk.results.store import ResultStore

    return list_contradictions(ResultStore(path.parent).load(path))


_READ: dict[str, Callable[[dict[str, Any]], tuple[str, ...]]] = {
    "run-spec": _read_spec,
    "worker-record": _read_record,
    "published": _read_published,
}
"""Kind of document → function that checks more than the schema, and returns contradictions."""
