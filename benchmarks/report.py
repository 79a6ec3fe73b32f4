"""What a report over many results costs: time and size, at 100, 1,000 and 10,000 results.

    .venv/bin/python benchmarks/report.py

The results are made up but valid, each of seven repeats with their steps, and lie in a store as a run leaves them.
Reading is to parse, check against the schema and convert every `result.json`; records are read where a report shows
them. Bounds: reading 10,000 results and writing the HTML take seconds (at most 30 together), and the HTML stays under
5 MB.
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
from store import files_of

from dlperf_sdk.reports import html, terminal
from dlperf_sdk.reports.results_table import pages
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from report_samples import many

COUNTS = (100, 1_000, 10_000)
MOST_SECONDS, MOST_BYTES = 30.0, 5_000_000


def row(count: int) -> dict[str, Any]:
    """Return the costs of the two forms of the report that read every result, for `count` results.

    The keys are `results`, `read_seconds`, `html_seconds`, `html_bytes` and `terminal_seconds`.

    Raises:
        SystemExit: A result cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="dlperf-bench-") as folder:
        for result in many(count):
            for path, text in files_of(result).items():
                target = Path(folder) / result.id / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        started_at = perf_counter()
        results = [result for result in ResultStore(folder) if isinstance(result, Result)]
        read = perf_counter()
        document = html.report_on_results(results)
        written = perf_counter()
        terminal.text_of(pages(results))
        ended = perf_counter()
    if len(results) < count:
        raise SystemExit(f"{count - len(results)} of {count} results cannot be read.")
    return {
        "results": count,
        "read_seconds": read - started_at,
        "html_seconds": written - read,
        "html_bytes": len(document.encode()),
        "terminal_seconds": ended - written,
    }


def main() -> int:
    """Measure each count, print a table or JSON, and return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--most", type=int, default=COUNTS[-1], help="leave out larger counts")
    chosen = parser.parse_args()
    before = paired.machine()
    # The first report loads the libraries and makes their script: once per process, whatever the results.
    started_at = perf_counter()
    html.report_on_results(list(many(2)))
    first = perf_counter() - started_at
    rows = [row(count) for count in COUNTS if count <= chosen.most]
    last = rows[-1]
    document = {
        "benchmark": "report",
        "machine": before,
        "load_after": paired.load(),
        "first_seconds": first,
        "rows": rows,
        "claim": {
            "seconds": _outcome(last["read_seconds"] + last["html_seconds"] <= MOST_SECONDS),
            "html_bytes": _outcome(last["html_bytes"] <= MOST_BYTES),
        },
    }
    if chosen.json:
        print(json.dumps(document))
        return 0
    print(paired.said(before))
    print(f"the first report in a process: {first:.1f} s\n")
    headings = ("results", "reading, s", "html, s", "html, MB", "terminal, s")
    print(paired.table(headings, [_cells(row) for row in rows]))
    claim = document["claim"]
    print(
        f"\n{last['results']:,} results: at most {MOST_SECONDS:.0f} s: {claim['seconds']}; "
        f"at most {MOST_BYTES / 1e6:.0f} MB: {claim['html_bytes']}"
    )
    return 0


def _cells(item: dict[str, Any]) -> list[str]:
    return [
        f"{item['results']:,}",
        f"{item['read_seconds']:.2f}",
        f"{item['html_seconds']:.2f}",
        f"{item['html_bytes'] / 1e6:.2f}",
        f"{item['terminal_seconds']:.2f}",
    ]


def _outcome(holds: bool) -> str:
    return "pass" if holds else "fail"


if __name__ == "__main__":
    sys.exit(main())
