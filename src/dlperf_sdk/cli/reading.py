"""`validate` and `report`: documents that are there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dlperf_sdk.cli.finding import Found, find
from dlperf_sdk.cli.running import DEFAULT_OUTPUT
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show, write
from dlperf_sdk.errors import DlperfError, DocumentError, StoreError, UsageError
from dlperf_sdk.report.blocks import Block, Cell, Column, Heading, Paragraph, Table

if TYPE_CHECKING:
    from dlperf_sdk.results.store import ResultStore

_PARTIAL = 5


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


# -- report


@command
def report(
    *what: Annotated[
        str,
        Parameter(
            help="Runs' names, directories or result.json files, or directories of runs; all of DIR if none."
        ),
    ],
    output: Annotated[
        Path, Parameter(metavar="DIR", help="The directory of runs that names are looked up in.")
    ] = DEFAULT_OUTPUT,
    published: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Instead of results, figures that others published: dlperf-v1.0, tf-cnn-2017 or tensorpack.",
        ),
    ] = None,
    markdown: Annotated[bool, Parameter(negative=(), show_default=False, help="Print Markdown.")] = False,
    redact: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Leave out the names of hosts and users.")
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """Show results: one in full, several side by side, with a table for each workload."""
    from dlperf_sdk.report import markdown as as_markdown

    if published is not None:
        if what or redact:
            raise UsageError(
                "--published shows figures of its own: leave out the names of runs, and --redact."
            )
        return _published(published, as_json=common.json, as_text=markdown)
    found = find(what or (str(output),), output)
    if not found.results and not found.unfinished:
        raise StoreError(" ".join(found.errors))
    for error in found.errors:
        say(f"Error: {error}", "red")
    if redact:
        from dlperf_sdk.results.redact import redacted

        found.results = [(redacted(result), None) for result, _ in found.results]
    if common.json:
        emit(
            {
                "results": [result.to_dict() for result, _ in found.results],
                "unfinished": [run_id for _, run_id in found.unfinished],
            }
        )
    else:
        blocks = _blocks(found)
        if markdown:
            write(as_markdown.text_of(blocks))
        else:
            show(blocks)
    return _PARTIAL if found.errors or found.unfinished else 0


def _published(name: str, *, as_json: bool, as_text: bool) -> int:
    """A collection of published figures: its tables, regenerated."""
    from dlperf_sdk.published import published
    from dlperf_sdk.report import markdown
    from dlperf_sdk.report.published.disagreements import disagreements
    from dlperf_sdk.report.published.page import page

    figures = published(name)
    if as_json:
        emit(
            {
                "figures": [figure.to_dict() for figure in figures],
                "disagreements": [
                    {
                        "document": each.cell.document,
                        "line": each.cell.line,
                        "printed": each.cell.text,
                        "computed": each.computed,
                        "why": each.why,
                    }
                    for each in disagreements(figures)
                ],
            }
        )
    elif as_text:
        write(markdown.text_of(page(figures)))
    else:
        show(page(figures))
    return 0


def _blocks(found: Found) -> list[Block]:
    from dlperf_sdk.report import several, single

    if len(found.results) == 1:
        blocks = single.page(*found.results[0])
    else:
        blocks = several.pages([result for result, _ in found.results])
    for store, run_id in found.unfinished:
        blocks += _unfinished(store, run_id)
    return blocks


def _unfinished(store: ResultStore, run_id: str) -> list[Block]:
    """What a run without a result has finished."""
    from dlperf_sdk import metrics
    from dlperf_sdk.report.numbers import counted, quantity

    try:
        left = store.recover(run_id)
    except DlperfError as error:
        raise UsageError(
            f"{store.directory / run_id} has no result.json, and its rest cannot be read: {error}"
        ) from error
    done = [attempt for attempt in left.attempts if attempt.status == "ok"]
    text = (
        "There is no result.json: the run is still going on, or it was ended before it could write one. "
        f"{counted(len(done), 'repeat')} had finished"
    )
    blocks: list[Block] = [
        Heading(run_id, Cell("unfinished", "doubt")),
        Paragraph(text + (":" if done else ".")),
    ]
    rows = []
    for attempt in left.attempts:
        ok = attempt.status == "ok"
        rate = quantity(metrics.throughput(attempt.repeat), "samples/s") if ok else ""
        rows.append((str(attempt.attempt), Cell(attempt.status, "good" if ok else "bad"), rate))
    if rows:
        columns = (Column("repeat", right=True), Column("status"), Column("throughput", right=True))
        blocks.append(Table(columns, tuple(rows)))
    blocks += [Paragraph(f"{each.path} cannot be read: {each.error}", "doubt") for each in left.unreadable]
    return blocks
