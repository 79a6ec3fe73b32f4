"""What a report over many results costs: time and size, at 100, 1,000 and 10,000 results.

    .venv/bin/python benchmarks/report.py

The results are made up but valid, each of seven repeats with their steps. Bounds: the HTML of 10,000 results takes
seconds (at most 30), and stays under 5 MB. Reading is measured apart, on 100 of them: it is the time to parse, check
against the schema and convert one `result.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import paired

from dlperf_sdk.report import html, terminal
from dlperf_sdk.report.several import pages
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

COUNTS = (100, 1_000, 10_000)
MOST_SECONDS, MOST_BYTES = 30.0, 5_000_000
READ = 100


def reading(results: list[Result]) -> float:
    """Seconds to read a result from its directory, in the mean."""
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(folder)
        for result in results:
            store.open_run(result.id).write_result(result)
        store.load(results[0].id)
        began = perf_counter()
        for result in results:
            store.load(result.id)
        return (perf_counter() - began) / len(results)


def row(results: list[Result]) -> dict[str, Any]:
    """What the two forms of the report cost that read every result."""
    began = perf_counter()
    document = html.of_results(results)
    written = perf_counter()
    terminal.text_of(pages(results))
    return {
        "results": len(results),
        "html_seconds": written - began,
        "html_bytes": len(document.encode()),
        "terminal_seconds": perf_counter() - written,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--most", type=int, default=COUNTS[-1], help="leave out larger counts")
    chosen = parser.parse_args()
    from report_samples import many

    before = paired.machine()
    # The first report loads the libraries and makes their script: once per process, whatever the results.
    began = perf_counter()
    html.of_results(list(many(2)))
    first = perf_counter() - began
    rows = [row(list(many(count))) for count in COUNTS if count <= chosen.most]
    last = rows[-1]
    document = {
        "benchmark": "report",
        "machine": before,
        "load_after": paired.load(),
        "first_seconds": first,
        "read_seconds_each": reading(list(many(READ))),
        "rows": rows,
        "claim": {
            "html_seconds": _outcome(last["html_seconds"] <= MOST_SECONDS),
            "html_bytes": _outcome(last["html_bytes"] <= MOST_BYTES),
        },
    }
    if chosen.json:
        print(json.dumps(document))
        return 0
    print(paired.said(before))
    print(
        f"the first report in a process: {first:.1f} s; "
        f"reading: {document['read_seconds_each'] * 1e3:.1f} ms a result\n"
    )
    headings = ("results", "html, s", "html, MB", "terminal, s")
    print(paired.table(headings, [_cells(each) for each in rows]))
    claim = document["claim"]
    print(
        f"\n{last['results']:,} results: at most {MOST_SECONDS:.0f} s: {claim['html_seconds']}; "
        f"at most {MOST_BYTES / 1e6:.0f} MB: {claim['html_bytes']}"
    )
    return 0


def _cells(each: dict[str, Any]) -> list[str]:
    return [
        f"{each['results']:,}",
        f"{each['html_seconds']:.2f}",
        f"{each['html_bytes'] / 1e6:.2f}",
        f"{each['terminal_seconds']:.2f}",
    ]


def _outcome(holds: bool) -> str:
    return "pass" if holds else "fail"


if __name__ == "__main__":
    sys.exit(main())
