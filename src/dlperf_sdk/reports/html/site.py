"""Write a static site on the histories of a store: a first page, a page per case, and reports on runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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
_NOT_TEXTS = ("id", "key", "started_at")
"""Fields of histories and runs in which no name is replaced: pages are found by them."""


@frozen
class Site:
    """Size of a site that was written, and the results that it lacks."""

    cases: int
    """Number of pages of cases."""
    reports: int
    """Number of reports on runs."""
    bytes: int
    """Size of all files in bytes."""
    unreadable: tuple[str, ...]
    """Results of the store that cannot be read, as in `dlperf_sdk.interfaces.database.Answer`."""


@frozen
class Redaction:
    """Functions that remove the names of hosts and users from a site."""

    redact_result: Callable[[Result], Result]
    """Returns a copy of a result without the names; a DlperfError leaves out the run's report."""
    make_redactor: Callable[[Iterable[Result]], Callable[[str], str]]
    """Returns a function that removes the names in all given results from a text."""


def write_site(
    store: Store,
    output: Path,
    reports: int = 3,
    redaction: Redaction | None = None,
) -> Site:
    """Write the site on a store's results to a directory, and return its size.

    The files are `index.html`, `cases/KEY.html` for each case, `runs/RUN.html` for each reported run, the script of
    the plots, and `MARKER` (`.dlperf-site`). A run that cannot be loaded or redacted has no report.

    Args:
        store: The store with the results.
        output: The directory: new, empty, or with an earlier site. Pages of the earlier site that do not belong to the
            new one are removed.
        reports: Number of the newest runs of each case that get a report. The runs on both sides of a change get one,
            too.
        redaction: Functions that remove the names of hosts and users; None: the names stay.

    Raises:
        UsageError: The directory has files that are no site, a folder in it is a symbolic link, or the extra `report`
            is not installed.
        StoreError: There are no results, the store cannot be read, or the directory cannot be written.
        Unavailable: The script of the plots cannot be made, such as for lack of file descriptors.
    """
    render.require()
    histories = load_histories(store)
    if not histories:
        raise StoreError(explain_absence(store.location))
    answer = store.query("SELECT id, error FROM unreadable")
    unreadable = [(str(name), str(reason).replace(f"{store.location}/", "")) for name, reason in answer.rows]
    script = render.plot_script()  # it may fail, and then no part of a site is left
    with explain_os_errors(output, "-o"):
        _prepare(output)
        earlier = {path for folder in ("cases", "runs") for path in (output / folder).glob("*.html")}
        writer = _Writer(output)
        writer.write(_LIBRARY, script)
        runs = [run.id for history in histories for run in history.runs]
        replace = redaction.make_redactor(_load_some(store, runs)) if redaction else lambda text: text
        links = _write_reports(writer, store, histories, reports, redaction, replace)
        if redaction:
            histories = tuple(_replace_texts(history, replace) for history in histories)
            unreadable = [(replace(name), replace(reason)) for name, reason in unreadable]
        for history in histories:
            page = history_page.page(history, links, Cell("All cases", link="../index.html"))
            writer.write(case_address(history), render.document(page, f"../{_LIBRARY}"))
        writer.write("index.html", render.document(index_page(histories, unreadable), _LIBRARY))
        for path in earlier - writer.paths:
            path.unlink()
    return Site(len(histories), len(links), writer.bytes, answer.unreadable)


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
    redaction: Redaction | None,
    replace: Callable[[str], str],
) -> dict[str, str]:
    """Write the reports on selected runs; return their addresses, relative to a case's page, by the runs' names."""
    links: dict[str, str] = {}
    for history in histories:
        for run_id in _select_runs(history, reports):
            try:
                check_id(run_id)
                loaded = store.load(run_id)
                result = redaction.redact_result(loaded) if redaction else loaded
            except DlperfError:
                continue  # the index had it, and now it is gone or changed; or its records cannot be read
            parent = Cell("History of the case", link=f"../{case_address(history)}")
            page = attrs.evolve(measured.page([result]), title=replace(history.name), parent=parent)
            writer.write(f"runs/{run_id}.html", render.document(page, f"../{_LIBRARY}"))
            links[run_id] = f"../runs/{run_id}.html"
    return links


def _load_some(store: Store, runs: Iterable[str]) -> Iterator[Result]:
    """Yield the results of runs, without those that cannot be loaded."""
    for run_id in runs:
        with suppress(DlperfError):
            yield store.load(run_id)


def _replace_texts(value: Any, replace: Callable[[str], str]) -> Any:
    """Return a history, or a part of one, with its texts replaced, apart from the names of runs, keys and times."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, Mapping):
        return {name: _replace_texts(item, replace) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_replace_texts(item, replace) for item in value)
    if not attrs.has(type(value)):
        return value
    fields = [field.name for field in attrs.fields(type(value)) if field.name not in _NOT_TEXTS]
    return attrs.evolve(value, **{name: _replace_texts(getattr(value, name), replace) for name in fields})


def _select_runs(history: History, reports: int) -> Iterable[str]:
    newest = sorted(history.runs, key=lambda run: run.started_at, reverse=True)[:reports]
    beside_changes = [run for change in history.changes for run in (change.before, change.after)]
    return dict.fromkeys(run.id for run in (*newest, *beside_changes))
