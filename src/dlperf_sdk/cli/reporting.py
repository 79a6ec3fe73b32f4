"""`report`: results and published figures, in whatever form they are to be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from attrs import frozen
from cyclopts import Parameter

from dlperf_sdk.cli.lookup import Found, find
from dlperf_sdk.cli.output import put_file, put_text
from dlperf_sdk.cli.redacting import hand_on
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show
from dlperf_sdk.cli.unfinished_runs import unfinished
from dlperf_sdk.errors import StoreError, UnknownName, UsageError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.reports.blocks import Block


@frozen
class _Report:
    """What there is to say, in every form; only the one that is asked for is made."""

    blocks: Callable[[], list[Block]]
    html: Callable[[], str]
    csv: Callable[[], str]
    documents: Callable[[], Any]
    """For the format json."""
    summary: Callable[[], Any]
    """For --json."""


@command
def report(
    *what: Annotated[
        str,
        Parameter(
            help="Runs' names, directories or result.json files, or directories of runs or campaigns; all of DIR if "
            "none."
        ),
    ],
    format: Annotated[
        str,
        Parameter(
            help="terminal, markdown, html (one file that needs no network), csv (a row per result), or json (the "
            "results' documents in an array)."
        ),
    ] = "terminal",
    file: Annotated[
        Path | None,
        Parameter(
            name=["--file", "-o"],
            metavar="FILE",
            show_default=False,
            help="Where to write it, instead of standard output; readable for whom your umask says.",
        ),
    ] = None,
    output: Annotated[
        Path, Parameter(metavar="DIR", help="The directory of runs that names are looked up in.")
    ] = RESULTS,
    published: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Instead of results, figures that others published: dlperf-v1.0, tf-cnn-2017 or tensorpack.",
        ),
    ] = None,
    beside: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Below the results, published figures of the same cases, and what is not comparable; in the formats "
            "terminal, markdown and html.",
        ),
    ] = None,
    redact: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Leave out the names of hosts and users.")
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """Show results: one in full, several side by side, with a table for each workload."""
    if format not in _FORMATS:
        raise UnknownName("format of reports", format, _FORMATS)
    if common.json and format != "terminal" and file is None:
        raise UsageError(
            f"--json prints an object, and {format} is another: leave one out, or name a file with -o."
        )
    if format == "html" and file is None and sys.stdout.isatty():
        raise UsageError(
            "HTML is for a browser, not for a terminal: name a file with -o, or pipe it somewhere."
        )
    if beside is not None and (common.json or format not in ("terminal", "markdown", "html")):
        raise UsageError(
            "--beside adds a table for people: it goes with --format terminal, markdown or html."
        )
    if published is not None:
        if what or redact or beside is not None:
            raise UsageError(
                "--published shows figures of its own: leave out the names of runs, --beside and --redact."
            )
        _put(_of_published(published), format, file, common)
        return 0
    named = what or (str(output),)
    found = find(named, output)
    told = hand_on(found, named, output) if redact else str
    if not found.results and not found.unfinished:
        raise StoreError(" ".join(found.errors))
    for error in found.errors:
        say(f"Error: {error}", "red")
    _put(_of_results(found, beside, told), format, file, common)
    return PARTIAL if found.errors or found.unfinished else 0


_FORMATS = ("terminal", "markdown", "html", "csv", "json")


def _put(report: _Report, format: str, file: Path | None, common: Common) -> None:
    """The report in its format, on standard output or in a file."""
    if file is None and common.json:
        emit(report.summary())
    elif file is None and format == "terminal":
        show(report.blocks())
    elif file is None:
        put_text(_text(report, format))
    else:
        put_file(file, _text(report, format).encode("utf-8", "backslashreplace"), common)


def _text(report: _Report, format: str) -> str:
    from dlperf_sdk.reports import markdown, terminal

    if format == "html":
        return report.html()
    if format == "csv":
        return report.csv()
    if format == "json":
        return json.dumps(report.documents(), indent=1, allow_nan=False) + "\n"
    if format == "markdown":
        return markdown.text_of(report.blocks())
    return terminal.text_of(report.blocks())


def _of_results(found: Found, beside: str | None, told: Callable[[str], str]) -> _Report:
    from dlperf_sdk.published import published
    from dlperf_sdk.reports import html, result_page, results_table
    from dlperf_sdk.reports.published_comparison import beside as stand_beside

    results = [result for result, _ in found.results]

    def blocks() -> list[Block]:
        shown = result_page.page(*found.results[0]) if len(results) == 1 else results_table.pages(results)
        for store, run_id in found.unfinished:
            shown += unfinished(store, run_id, told)
        return shown if beside is None else [*shown, *stand_beside(results, published(beside))]

    def as_csv() -> str:
        from dlperf_sdk.exchange.table import to_csv

        return to_csv(results)

    open_ends = [
        f"{run_id} has no result yet: it is still going on, or was ended." for _, run_id in found.unfinished
    ]
    return _Report(
        blocks=blocks,
        html=lambda: html.of_results(
            results, [*found.errors, *open_ends], None if beside is None else published(beside)
        ),
        csv=as_csv,
        documents=lambda: [result.to_dict() for result in results],
        summary=lambda: {
            "results": [result.to_dict() for result in results],
            "unfinished": [run_id for _, run_id in found.unfinished],
        },
    )


def _of_published(name: str) -> _Report:
    from dlperf_sdk.published import published
    from dlperf_sdk.reports import html
    from dlperf_sdk.reports.published.disagreements import disagreements
    from dlperf_sdk.reports.published.page import page

    figures = published(name)

    def documents() -> Any:
        return {
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

    def no_csv() -> str:
        raise UsageError("The table for csv is one of results: `--format json` holds every published figure.")

    return _Report(
        blocks=lambda: page(figures),
        html=lambda: html.of_published(figures),
        csv=no_csv,
        documents=documents,
        summary=documents,
    )
