"""`report`: results and published figures, in every format."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from attrs import frozen
from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import LOOKUP_STORE, OUTPUT_FILE, REDACT, RUNS
from dlperf_sdk.cli.lookup import Matches, find
from dlperf_sdk.cli.output import write_file, write_text
from dlperf_sdk.cli.redacting import redact_matches
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show
from dlperf_sdk.cli.unfinished_runs import read_unfinished
from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports.blocks import Block


@frozen
class _Report:
    """Functions that return the content of a report in each form. Only the requested form is made."""

    blocks: Callable[[], list[Block]]
    markdown: Callable[[], list[Block]]
    html: Callable[[], str]
    csv: Callable[[], str]
    documents: Callable[[], Any]
    """For the format json."""
    summary: Callable[[], Any]
    """For --json."""


@command
def report(
    *runs: RUNS,
    format: Annotated[
        str | None,
        Parameter(
            show_default=False,
            help="terminal, markdown, html (one file that needs no network), csv (a row per result or figure), or json "
            "(the documents of results, or the figures and disagreements). Default: by the suffix of FILE, else "
            "terminal.",
        ),
    ] = None,
    output: OUTPUT_FILE = None,
    store: LOOKUP_STORE = RESULTS,
    published: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Report on an installed collection of published figures, such as dlperf-v1.0, instead of results.",
        ),
    ] = None,
    compare_published: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Compare with published figures of the same cases, and state what is not comparable; in the formats "
            "terminal, markdown and html. `dlperf list collections` shows the names.",
        ),
    ] = None,
    redact: REDACT = False,
    common: Common = AS_USUAL,
) -> int:
    """Show one result in full, or several in a table per workload.

    The exit code is 5 if a named run has no result or cannot be read.
    """
    if format is None:
        format = _FORMAT_OF.get("" if output is None else output.suffix.lower(), "terminal")
    if format not in _FORMATS:
        raise UnknownName("format of reports", format, _FORMATS)
    if common.json and format != "terminal" and output is None:
        raise UsageError(
            f"--json prints an object, and {format} is another: leave one out, or name a file with -o."
        )
    if format == "html" and output is None and sys.stdout.isatty():
        raise UsageError(
            "HTML is for a browser, not for a terminal: name a file with -o, or pipe it somewhere."
        )
    if compare_published is not None and (common.json or format not in ("terminal", "markdown", "html")):
        raise UsageError(
            "--compare-published adds a table: it goes with --format terminal, markdown or html."
        )
    if published is not None:
        if runs or redact or compare_published is not None:
            raise UsageError(
                "--published shows no results: leave out the names of runs, --compare-published and --redact."
            )
        _write_output(_report_on_collection(Registry().collection(published)), format, output, common)
        return 0
    collection = None if compare_published is None else Registry().collection(compare_published)
    selection = runs or (str(store),)
    matches = find(selection, store)
    redact_text = redact_matches(matches, selection, store) if redact else str
    if not matches.results and not matches.unfinished:
        raise StoreError(" ".join(matches.errors))
    for error in matches.errors:
        say(f"Error: {error}", "red")
    _write_output(_report_on_results(matches, collection, redact_text), format, output, common)
    return PARTIAL if matches.errors or matches.unfinished else 0


_FORMATS = ("terminal", "markdown", "html", "csv", "json")
_FORMAT_OF = {".md": "markdown", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}


def _write_output(report: _Report, format: str, file: Path | None, common: Common) -> None:
    """Write the report in its format to standard output or to a file."""
    if file is None and common.json:
        emit(report.summary())
    elif file is None and format == "terminal":
        show(report.blocks())
    elif file is None:
        write_text(_text(report, format))
    else:
        write_file(file, _text(report, format).encode("utf-8", "backslashreplace"), common)


def _text(report: _Report, format: str) -> str:
    from dlperf_sdk.reports import markdown, terminal

    if format == "html":
        return report.html()
    if format == "csv":
        return report.csv()
    if format == "json":
        return json.dumps(report.documents(), indent=1, allow_nan=False) + "\n"
    if format == "markdown":
        return markdown.text_of(report.markdown())
    return terminal.text_of(report.blocks())


def _report_on_results(
    matches: Matches, collection: Collection | None, redact_text: Callable[[str], str]
) -> _Report:
    from dlperf_sdk.analysis.attribution import attribute
    from dlperf_sdk.cli.predicting import published_series
    from dlperf_sdk.reports import html, result_page, results_table
    from dlperf_sdk.reports.published_comparison import compare_with_published
    from dlperf_sdk.results.convert import to_plain

    results = [result for result, _ in matches.results]

    def blocks() -> list[Block]:
        blocks = result_page.page(*matches.results[0]) if len(results) == 1 else results_table.pages(results)
        for store, run_id in matches.unfinished:
            blocks += read_unfinished(store, run_id, redact_text)
        return blocks if collection is None else [*blocks, *compare_with_published(results, collection)]

    def markdown_blocks() -> list[Block]:
        if not results:
            return blocks()
        content = html.blocks_of_results(results, matches.errors, collection, published_series())
        for store, run_id in matches.unfinished:
            content += read_unfinished(store, run_id, redact_text)
        return content

    def as_csv() -> str:
        from dlperf_sdk.exchange.csv_table import to_csv

        return to_csv(results)

    open_ends = [
        f"{run_id} has no result yet: it is still going on, or was ended." for _, run_id in matches.unfinished
    ]
    return _Report(
        blocks=blocks,
        markdown=markdown_blocks,
        html=lambda: html.report_on_results(
            results, [*matches.errors, *open_ends], collection, published_series()
        ),
        csv=as_csv,
        documents=lambda: [result.to_dict() for result in results],
        summary=lambda: {
            "results": [result.to_dict() for result in results],
            "unfinished": [run_id for _, run_id in matches.unfinished],
            "attributions": [to_plain(attribution) for attribution in attribute(results)],
        },
    )


def _report_on_collection(collection: Collection) -> _Report:
    from dlperf_sdk.reports import collection_page, html

    return _Report(
        blocks=lambda: collection_page.page(collection),
        markdown=lambda: html.blocks_of_collection(collection),
        html=lambda: html.report_on_collection(collection),
        csv=lambda: collection_page.to_csv(collection),
        documents=lambda: collection_page.to_dict(collection),
        summary=lambda: collection_page.to_dict(collection),
    )
