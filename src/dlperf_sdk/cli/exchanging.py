"""`export` and `import`: results for other programs, and other programs' measurements as results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import LOOKUP_STORE, OUTPUT_FILE, REDACT, RUNS
from dlperf_sdk.cli.flags import option_values, parse_entries
from dlperf_sdk.cli.lookup import find
from dlperf_sdk.cli.output import write_file, write_text
from dlperf_sdk.cli.redacting import redact_matches
from dlperf_sdk.cli.screen import AS_USUAL, PARTIAL, Common, command, emit, say, show, write_bytes
from dlperf_sdk.errors import StoreError, UsageError
from dlperf_sdk.folders import RESULTS


@command
def export(
    *runs: RUNS,
    to: Annotated[
        Literal["csv", "parquet", "markdown", "mllog"],
        Parameter(
            help="csv or parquet (a row per result), markdown (the report), mllog (MLPerf's log lines)."
        ),
    ],
    output: OUTPUT_FILE = None,
    store: LOOKUP_STORE = RESULTS,
    redact: REDACT = False,
    common: Common = AS_USUAL,
) -> int:
    """Export results for other programs.

    The exit code is 5 if a named run has no result or cannot be read.
    """
    from dlperf_sdk.exchange.csv_table import to_csv
    from dlperf_sdk.exchange.mllog import to_mllog
    from dlperf_sdk.exchange.parquet import to_parquet

    selection = runs or (str(store),)
    matches = find(selection, store)
    if redact:
        redact_matches(matches, selection, store)
    results = [result for result, _ in matches.results]
    if not results:
        unfinished = [f"{run_id} has no result yet." for _, run_id in matches.unfinished]
        raise StoreError(" ".join([*matches.errors, *unfinished]))
    for error in matches.errors:
        say(f"Error: {error}", "red")
    for _, run_id in matches.unfinished:
        say(f"{run_id} has no result: it is left out.", "yellow")
    if to == "parquet":
        data = to_parquet(results)
    elif to == "markdown":
        from dlperf_sdk.reports import markdown, results_table

        data = markdown.text_of(results_table.pages(results)).encode()
    else:
        data = (to_csv if to == "csv" else to_mllog)(results).encode()
    _write_output(data, output, common)
    return PARTIAL if matches.errors or matches.unfinished else 0


def _write_output(data: bytes, file: Path | None, common: Common) -> None:
    """Write bytes to a file or to standard output."""
    if file is not None:
        write_file(file, data, common)
        return
    if common.json:
        raise UsageError("--json prints an object, an export is none: name a file with -o.")
    if not data.startswith(b"PAR1"):
        write_text(data.decode())  # CSV's lines end in \r\n already; text mode leaves them on POSIX
        return
    if sys.stdout.isatty():
        raise UsageError("Parquet is a binary format: name a file with -o.")
    write_bytes(data)


@command
def import_(
    importer: Annotated[
        str,
        Parameter(
            help="The program that wrote the logs, such as dllogger; `dlperf list importers` shows all."
        ),
    ],
    /,
    *logs: Annotated[Path, Parameter(help="Logs; those of one case are its repeats.")],
    output: Annotated[
        Path, Parameter(metavar="DIR", help="The directory that the results are written to.")
    ] = RESULTS,
    options: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            metavar="NAME=VALUE",
            negative=(),
            help="A fact that the logs do not state: precision=fp32, topology=1n8d, … May be repeated.",
        ),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """Import logs of other programs as results.

    The results are marked as imported and not verified. They name the estimator of the log's program.
    """
    from dlperf_sdk.exchange.import_logs import import_logs
    from dlperf_sdk.reports import results_table
    from dlperf_sdk.results.store import ResultStore

    results = import_logs(importer, logs, option_values(parse_entries("options", options or ())))
    store = ResultStore(output)
    for result in results:
        directory = store.open_run(result.id)
        directory.write_spec(result.spec)
        directory.write_result(result)
    if common.json:
        emit({"results": [result.to_dict() for result in results]})
    else:
        show(results_table.pages(results))
        say(f"Written to {output}/: {', '.join(result.id for result in results)}")
    return 0
