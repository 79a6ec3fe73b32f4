"""Stores by their directory or URL, and the upload of results from a directory to a database."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from dlperf_sdk.documents.credentials import is_url
from dlperf_sdk.errors import DlperfError, DocumentError, UsageError
from dlperf_sdk.results.index import Index, list_files
from dlperf_sdk.results.run_places import runs_in
from dlperf_sdk.results.store import ResultStore

if TYPE_CHECKING:
    from dlperf_sdk.interfaces.database import ResultDatabase, Store
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.result import Result


@define
class Uploaded:
    """Outcome of an upload."""

    sent: list[str] = field(factory=list)
    """Names of the results that were sent."""
    errors: dict[str, str] = field(factory=dict)
    """Name of each result that cannot be uploaded → reason."""


def open_store(place: str | Path, registry: Registry | None = None) -> Store:
    """Return the store in a directory, which may be a campaign's, or the database at a URL.

    Nothing is read or connected to yet, and the directory need not exist.

    Args:
        place: The directory, or the URL, such as `postgresql://HOST/DATABASE`.
        registry: The plugins; None for the installed ones.

    Raises:
        UsageError: The URL is not valid.
        UnknownName: No plugin has the scheme of the URL.
        PluginError: The plugin does not work.
    """
    return (
        open_database(str(place), registry)
        if is_url(str(place))
        else Index(ResultStore(runs_in(Path(place))))
    )


def open_database(url: str, registry: Registry | None = None) -> ResultDatabase:
    """Return the database at a URL, which comes from the person who starts the command, never from a file.

    It connects when it is first used.

    Args:
        url: The URL, such as `postgresql://HOST/DATABASE`.
        registry: The plugins; None for the installed ones.

    Raises:
        UsageError: The text is not a valid URL.
        UnknownName: No plugin has the scheme of the URL.
        PluginError: The plugin does not work.
    """
    from dlperf_sdk.registry.plugins import Registry

    if not is_url(url):
        raise UsageError(
            "Results are uploaded to a database: name its URL with --store, such as postgresql://HOST/DATABASE. "
            "--output names their directory."
        )
    return (registry or Registry()).database(url.partition("://")[0]).open(url)


def upload(store: ResultStore, database: ResultDatabase, run_ids: Iterable[str] | None = None) -> Uploaded:
    """Upload the results that a database lacks, or has in an earlier version.

    Args:
        store: The store whose results are uploaded.
        database: The database.
        run_ids: Names of the runs to upload; None for all. Runs without a result are left out.

    Returns:
        In `sent`, the names of the results that were sent; in `errors`, the name of each result that cannot be uploaded
        → the reason. Results that the database already has are in neither.

    Raises:
        StoreError: The directory or the database cannot be used. What was sent before is in the database.
    """
    outcome = Uploaded()
    files = list_files(store.directory, run_ids)
    known = database.versions(list(files))
    for run_id, version in files.items():
        if run_id in known and known[run_id].modified >= version.modified:
            continue
        try:
            result = _load(store, run_id)
        except DlperfError as error:
            outcome.errors[run_id] = str(error)
            continue
        try:
            database.upload(result, version)
        except DocumentError as error:
            outcome.errors[run_id] = str(error)
        else:
            outcome.sent.append(run_id)
    return outcome


def _load(store: ResultStore, run_id: str) -> Result:
    result = store.load(store.directory / run_id)
    if result.id != run_id:
        raise DocumentError(f"The directory {run_id} has the result of another run, {result.id}.")
    return result
