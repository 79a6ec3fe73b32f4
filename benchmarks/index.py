"""What the SQLite index of a directory with many results costs: the first query, and later ones.

    .venv/bin/python benchmarks/index.py [--results 100000]

The results are made up and have no records. Six columns of all results are listed by the first query, which builds the
index; again, three times; after one more result was stored; and by `dlperf query`, with the start of its process.
Bound: the shortest of the three takes at most 1 s. 100,000 results take 1.5 GB of the disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from dlperf_sdk.results.index import Index
from dlperf_sdk.results.store import ResultStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from history_samples import fill

CASES, MOST_SECONDS = 50, 1.0
LIST = "select id, started_at, framework, model, throughput, ok from results order by started_at desc"


def main() -> None:
    """Fill a directory, measure, and exit with a message if the bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=int, default=100_000, help="number of results")
    count = parser.parse_args().results
    with tempfile.TemporaryDirectory(prefix="dlperf-bench-") as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        store = fill(Path(folder) / "store", count, CASES)
        index = Index(ResultStore(store))
        show("first query, which builds the index", lambda: index.query(LIST))
        seconds = min(show("list of six columns", lambda: index.query(LIST)) for _ in range(3))
        fill(Path(folder) / "more", 1, 1)
        (added,) = (Path(folder) / "more").glob("*-run-*")
        added.rename(store / f"{added.name}-more")
        show("list after one more result", lambda: index.query(LIST))
        command = [
            sys.executable,
            "-m",
            "dlperf_sdk",
            "query",
            LIST,
            "--store",
            str(store),
            "--format",
            "csv",
        ]
        show("dlperf query, as CSV", lambda: subprocess.run(command, check=True, capture_output=True))
        (row,) = index.query("select count(*), sum(ok) from results").rows
        print(f"{row[0]:,} results, {row[1]:,} of them ok")
    if seconds > MOST_SECONDS:
        raise SystemExit(f"The list takes more than {MOST_SECONDS} s.")


def show(action: str, work: Callable[[], Any]) -> float:
    """Print how many seconds some work takes, and return them."""
    started_at = perf_counter()
    work()
    seconds = perf_counter() - started_at
    print(f"{action:<36} {seconds:>7.2f} s", flush=True)
    return seconds


if __name__ == "__main__":
    main()
