"""What a PostgreSQL database with many results costs: uploads, and lists of 100,000 results.

    .venv/bin/python benchmarks/database.py [--results 100000]

A server of its own on loopback gets 300 results by `upload`, and copies of them by SQL. Then all are listed: six
columns, all columns, and six columns by `dlperf query` with the start of its process. Bound: the six columns take at
most 1 s.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

from dlperf_sdk.exchange.databases import open_database, upload
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.tables import TABLES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins" / "dlperf-postgresql" / "tests"))
from history_samples import fill
from server import PASSWORD, Server, find_programs

UPLOADED, CASES, MOST_SECONDS = 300, 50, 1.0
LIST = "select id, started_at, framework, model, throughput, ok from results order by started_at desc"


def main() -> None:
    """Start a server, measure, and stop the server; exit with a message if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=int, default=100_000, help="size of the table")
    size = parser.parse_args().results
    programs = find_programs()
    if programs is None:
        raise SystemExit("There is no PostgreSQL server: install the package postgresql.")
    os.environ |= {"PGUSER": "admin", "PGPASSWORD": PASSWORD}
    server = Server(programs)
    try:
        measure(server, size)
    finally:
        server.close()


def measure(server: Server, size: int) -> None:
    """Fill a new database of the server with `size` results, and print how long each stage takes.

    Raises:
        SystemExit: The list of six columns takes longer than the bound.
    """
    url = server.empty_database()
    with (
        tempfile.TemporaryDirectory(prefix="dlperf-bench-") as folder,
        closing(open_database(url)) as database,
    ):
        store = ResultStore(fill(Path(folder) / "store", UPLOADED, CASES))
        started_at = perf_counter()
        upload(store, database)
        print(f"{f'upload of {UPLOADED:,} results':<36} {perf_counter() - started_at:>7.2f} s")
        show("upload that finds nothing new", lambda: upload(store, database))
        for table in TABLES:
            _copy_rows(server, url, table, size // UPLOADED)
        seconds = show("list of six columns", lambda: database.query(LIST))
        show("list of all columns", lambda: database.query("select * from results"))
        command = [sys.executable, "-m", "dlperf_sdk", "query", LIST, "--store", url, "--format", "csv"]
        show(
            "dlperf query, six columns as CSV",
            lambda: subprocess.run(command, check=True, capture_output=True),
        )
        count, width = (
            database.query(f"select count(*) from {source}").rows[0][0]
            for source in (
                "results",
                "pg_attribute where attnum > 0 and attrelid = 'dlperf.results'::regclass",
            )
        )
        print(f"{count:,} results with {width} columns")
    if seconds > MOST_SECONDS:
        raise SystemExit(f"The list takes more than {MOST_SECONDS} s.")


def show(action: str, work: Callable[[], Any]) -> float:
    """Print the shortest duration of some work that is done three times, and return it."""
    seconds = math.inf
    for _ in range(3):
        started_at = perf_counter()
        work()
        seconds = min(seconds, perf_counter() - started_at)
    print(f"{action:<36} {seconds:>7.2f} s", flush=True)
    return seconds


def _copy_rows(server: Server, url: str, table: str, copies: int) -> None:
    """Add copies of all rows of a table, under other ids."""
    columns = server.execute(
        f"SELECT quote_ident(attname) FROM pg_attribute WHERE attnum > 1 AND attrelid = 'dlperf.{table}'::regclass",
        url,
    )
    names = ", ".join(name for (name,) in columns)
    server.execute(
        f"INSERT INTO dlperf.{table} (id, {names}) SELECT id || '-' || copy, {names} FROM dlperf.{table}, "
        f"generate_series(2, {copies}) AS copy; ANALYZE dlperf.{table}",
        url,
    )


if __name__ == "__main__":
    main()
