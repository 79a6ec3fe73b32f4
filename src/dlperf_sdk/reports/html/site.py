"""Write a static site on the histories of a store: a first page, a page per case, and reports on runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs
from attrs import frozen

from dlperf_sdk.analysis.history import History, load_histories
from dlperf_sdk.errors import DlperfError, StoreError, UsageError
from dlperf_sdk.interfaces.database import Store
from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.html import history as history_page
from dlperf_sdk.reports.html import measured, render
from dlperf_sdk.reports.html.site_index import case_address, index_page
from dlperf_sdk.results.files import explain_os_errors
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.run_places import explain_absence
from dlperf_sdk.results.store import check_id

MARKER = ".dlperf-site"
"""File in the directory of a site, which tells that its pages may be replaced."""
_LIBRARY = "plots.js"


@frozen
class Site:
    """Size of a site that was written."""

    cases: int
    """Number of pages of cases."""
    reports: int
    """Number of reports on runs."""
    bytes: int
    """Size of all files in bytes."""


def write_site(
    store: Store,
    output: Path,
    reports: int = 3,
    redact: Callable[[Result], Result] | None = None,
) -> Site:
    """Write the site on a store's results to a directory, and return its size.

    The files are `index.html`, `cases/KEY.html` for each case, `runs/RUN.html` for each reported run, the script of
    the plots, and `MARKER`. A run that cannot be loaded or redacted has no report.

    Args:
        store: The store with the results.
        output: The directory: new, empty, or with an earlier site. Pages of the earlier site that do not belong to the
            new one are removed.
        reports: Number of the newest runs of each case that get a report. The runs on both sides of a change get one,
            too.
        redact: Function that replaces what must not be published in a result; None leaves results as they are.

    Raises:
        UsageError: The directory has files that are no site, a folder in it is a symbolic link, or the extra `report`
            is not installed.
        StoreError: There are no results, the store cannot be read, or the directory cannot be written.
    """
    render.require()
    histories = load_histories(store)
    if not histories:
        raise StoreError(explain_absence(store.location))
    unreadable = [
        (str(name), str(reason).replace(f"{store.location}/", ""))
        for name, reason in store.query("SELECT id, error FROM unreadable").rows
    ]
    with explain_os_errors(output, "-o"):
        _prepare(output)
        earlier = {path for folder in ("cases", "runs") for path in (output / folder).glob("*.html")}
        writer = _Writer(output)
        writer.write(_LIBRARY, render.plot_script())
        links = _write_reports(writer, store, histories, reports, redact)
        for history in histories:
            page = history_page.page(history, links, Cell("All cases", link="../index.html"))
            writer.write(case_address(history), render.document(page, f"../{_LIBRARY}"))
        writer.write("index.html", render.document(index_page(histories, unreadable), _LIBRARY))
        for path in earlier - writer.paths:
            path.unlink()
    return Site(len(histories), len(links), writer.bytes)


class _Writer:
    """Files below a directory, and their size."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: set[Path] = set()
        self.bytes = 0

    def write(self, name: str, text: str) -> None:
        """Write one file; a symbolic link in its place is replaced."""
        path, data = self.directory / name, text.encode("utf-8", "backslashreplace")
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        self.paths.add(path)
        self.bytes += len(data)


def _prepare(output: Path) -> None:
    marker = output / MARKER
    # A link is no marker: its time of change is that of its target.
    if output.is_dir() and any(output.iterdir()) and (marker.is_symlink() or not marker.is_file()):
        raise UsageError(
            f"{output} has files, and is no site of dlperf's: name a new or an empty directory with -o, so that "
            "nothing else is overwritten."
        )
    for folder in (output, output / "cases", output / "runs"):
        if folder.is_symlink() and folder != output:
            raise UsageError(
                f"{folder} is a symbolic link, and a site is not written through links: remove it."
            )
        folder.mkdir(parents=True, exist_ok=True)
    marker.touch()


def _write_reports(
    writer: _Writer,
    store: Store,
    histories: Sequence[History],
    reports: int,
    redact: Callable[[Result], Result] | None,
) -> dict[str, str]:
    """Write the reports on selected runs; return their addresses, relative to a case's page, by the runs' names."""
    links: dict[str, str] = {}
    for history in histories:
        for run_id in _select_runs(history, reports):
            try:
                check_id(run_id)
                loaded = store.load(run_id)
                result = redact(loaded) if redact else loaded
            except DlperfError:
                continue  # the index had it, and now it is gone or changed; or its records cannot be read
            parent = Cell("History of the case", link=f"../{case_address(history)}")
            page = attrs.evolve(measured.page([result]), title=history.name, parent=parent)
            writer.write(f"runs/{run_id}.html", render.document(page, f"../{_LIBRARY}"))
            links[run_id] = f"../runs/{run_id}.html"
    return links


def _select_runs(history: History, reports: int) -> Iterable[str]:
    newest = sorted(history.runs, key=lambda run: run.started_at, reverse=True)[:reports]
    beside_changes = [run for change in history.changes for run in (change.before, change.after)]
    return dict.fromkeys(run.id for run in (*newest, *beside_changes))
