"""What a site on many results costs: time and size, at 100, 1,000 and 10,000 results of 50 cases.

    .venv/bin/python benchmarks/site.py

The results are made up but valid, without records. The index is what the first query of a store costs; the site is
written from it. Bounds: 10,000 results take at most 60 s together, and their site at most 30 MB. Where playwright and
Chromium are installed, the first page, a search in it and the page of a case are also shown in a browser, from files.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from dlperf_sdk.analysis.history import load_histories
from dlperf_sdk.reports.html.site import write_site
from dlperf_sdk.results.index import Index
from dlperf_sdk.results.store import ResultStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from history_samples import fill

COUNTS, CASES = (100, 1_000, 10_000), 50
MOST_SECONDS, MOST_BYTES = 60.0, 30_000_000


def main() -> None:
    """Measure each count, and print a line for each.

    Raises:
        SystemExit: A bound is exceeded.
    """
    print(
        f"{'results':>8} {'index s':>8} {'site s':>8} {'pages':>6} {'MB':>6}   browser: first page, search, case (s)"
    )
    for count in COUNTS:
        with tempfile.TemporaryDirectory(prefix="dlperf-bench-") as folder:
            store = Index(ResultStore(fill(Path(folder) / "store", count, CASES)))
            started_at = perf_counter()
            load_histories(store)
            indexed = perf_counter()
            site = write_site(store, Path(folder) / "site")
            written = perf_counter()
            pages = site.cases + site.reports + 1
            shown = ", ".join(f"{seconds:.2f}" for seconds in _browse(Path(folder) / "site" / "index.html"))
        print(
            f"{count:>8,} {indexed - started_at:>8.2f} {written - indexed:>8.2f} {pages:>6} {site.bytes / 1e6:>6.1f}   "
            f"{shown or 'not installed'}"
        )
    if written - started_at > MOST_SECONDS or site.bytes > MOST_BYTES:
        raise SystemExit("That is more than the bound.")


def _browse(index: Path) -> list[float]:
    """Return the seconds until the first page, the answer of a search and the plot of a case are there."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if find_spec("playwright") is None or path is None:
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path)
        page = browser.new_page()
        times = [perf_counter()]
        page.goto(index.as_uri())
        page.wait_for_selector("html[data-plots]", state="attached")
        times.append(perf_counter())
        page.get_by_role("searchbox").first.fill("1n1d b32")
        page.get_by_text(f"1 found of {CASES}").wait_for()
        times.append(perf_counter())
        page.locator(".sortable tbody a").first.click()
        page.wait_for_selector("html[data-plots=drawn]", state="attached")
        times.append(perf_counter())
        browser.close()
    return [end - start for start, end in itertools.pairwise(times)]


if __name__ == "__main__":
    main()
