"""`validate`: documents that are there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show
from dlperf_sdk.errors import DlperfError, DocumentError
from dlperf_sdk.report.blocks import Paragraph


@command
def validate(
    file: Annotated[
        Path,
        Parameter(
            help="A spec, request, record, result or published figure: .json; a spec also .toml or .yaml."
        ),
    ],
    /,
    *,
    common: Common = AS_USUAL,
) -> int:
    """Check a document against its schema. What kind it is, its content tells."""
    from dlperf_sdk import schema
    from dlperf_sdk.documents import LARGEST_RESULT, load_document

    document = load_document(file, LARGEST_RESULT)
    kind = kind_of(document)
    try:
        _READ[kind](document)
    except DlperfError as error:
        raise DocumentError(f"{file}: {error}") from error
    version = str(document.get("schema_version", schema.version(kind)))
    if common.json:
        emit({"file": str(file), "kind": kind, "schema_version": version, "valid": True})
    else:
        show([Paragraph(f"{file} is a valid {kind.replace('-', ' ')}, version {version}.", "good")])
    return 0


def kind_of(document: Mapping[str, Any]) -> str:
    """Which of our schemas a document is meant for: the one that knows most of its keys.

    Raises:
        DocumentError: none knows as much as half of them.
    """
    from dlperf_sdk import schema

    known = {name: _keys(schema.load(name)) - {"schema_version"} for name in schema.NAMES}
    kind = max(schema.NAMES, key=lambda name: len(known[name] & set(document)))
    keys = set(document) - {"schema_version"}
    if 2 * len(known[kind] & keys) <= len(keys):
        raise DocumentError(f"This is none of our documents: it is neither {', nor '.join(schema.NAMES)}.")
    return kind


def _keys(described: Mapping[str, Any]) -> set[str]:
    """The keys of a schema's documents."""
    return set(described.get("properties") or described["$defs"]["record"]["properties"])


def _read_spec(document: dict[str, Any]) -> None:
    from dlperf_sdk.spec import RunSpec

    RunSpec.from_dict(document)


def _read_request(document: dict[str, Any]) -> None:
    from dlperf_sdk import schema

    schema.check("worker-request", document)


def _read_record(document: dict[str, Any]) -> None:
    from dlperf_sdk import schema
    from dlperf_sdk.results.convert import record_from_dict

    # A failed trainer's record is a valid one, too, but no measurement.
    schema.check("worker-record", document)
    if document.get("status") == "ok":
        record_from_dict(document)


def _read_published(document: dict[str, Any]) -> None:
    from dlperf_sdk.published import PublishedFigure

    PublishedFigure.from_dict(document)


def _read_result(document: dict[str, Any]) -> None:
    from dlperf_sdk.results.convert import result_from_dict

    result_from_dict(document)


_READ: dict[str, Callable[[dict[str, Any]], None]] = {
    "run-spec": _read_spec,
    "worker-request": _read_request,
    "worker-record": _read_record,
    "result": _read_result,
    "published": _read_published,
}
