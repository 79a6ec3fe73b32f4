"""The upload of results when their runs have ended, and of those that could not be uploaded then."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager

from dlperf_sdk.errors import DlperfError
from dlperf_sdk.exchange.databases import open_database, upload
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.files import directory_of, explain_os_errors, remove, write_whole
from dlperf_sdk.results.store import ResultStore

QUEUE = ".uploads"
"""Name of the directory in a store that has a directory for each database, with an empty file for each run whose result
is still to be uploaded there."""


class Uploader:
    """An observer that uploads each result of a store to a database when its run has ended.

    A failed upload issues a `RuntimeWarning`, and does not affect the run. The result stays in a queue in the store:
    the next `Uploader` for this store and database sends it, and so does `dlperf_sdk.exchange.databases.upload`.

    Args:
        url: URL of the database.
        store: Store that the runs write to.
        registry: The plugins; None for the installed ones.

    Raises:
        UsageError: The URL is not valid, or no plugin has its scheme.
        PluginError: The plugin does not work.
    """

    def __init__(self, url: str, store: ResultStore, registry: Registry | None = None) -> None:
        self.database = open_database(url, registry)
        self.store = store
        self.sent: list[str] = []
        """Names of the results that were uploaded."""
        self._folder = (QUEUE, hashlib.sha256(self.database.identity.encode()).hexdigest()[:16])

    @hookimpl
    def dlperf_run_started(self, run_id: str) -> None:
        """Add the run `run_id` to the queue of results to upload. If that fails, issue a `RuntimeWarning`."""
        with self._warn():
            self._add_to_queue(run_id)

    @hookimpl
    def dlperf_result(self, run_id: str) -> None:
        """Upload the result of the run `run_id`, and all others that are still in the queue, to the database.

        If an upload fails, issue a `RuntimeWarning`; the result stays in the queue.
        """
        with self._warn():
            self._add_to_queue(run_id)  # a case that was refused did not start
            self._send_queue()

    @contextmanager
    def _warn(self) -> Iterator[None]:
        try:
            yield
        except DlperfError as error:
            warnings.warn(
                f"Not uploaded: {error} The result is in {self.store.directory}: the next run there with the same "
                "--store uploads it, or `dlperf upload`.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _add_to_queue(self, run_id: str) -> None:
        with self._open_queue() as queue:
            write_whole(queue, run_id, b"")

    def _send_queue(self) -> None:
        with self._open_queue() as queue:
            with os.scandir(queue) as entries:
                run_ids = [entry.name for entry in entries if not entry.name.startswith(".")]
            with closing(self.database):
                outcome = upload(self.store, self.database, run_ids)
            self.sent += outcome.sent
            for run_id in run_ids:
                # A run that is still going has no result yet.
                if run_id not in outcome.errors and (self.store.directory / run_id / "result.json").exists():
                    remove(queue, run_id)
        for run_id, error in outcome.errors.items():
            warnings.warn(f"{run_id} cannot be uploaded: {error}", RuntimeWarning, stacklevel=2)

    @contextmanager
    def _open_queue(self) -> Iterator[int]:
        with (
            explain_os_errors(self.store.directory / QUEUE),
            directory_of(self.store.directory, self._folder) as queue,
        ):
            yield queue


def make_uploaders(url: str | None, store: ResultStore) -> tuple[Uploader, ...]:
    """Return a tuple of one observer that uploads the runs' results to a database; an empty tuple without a URL.

    Args:
        url: URL of the database; None for no upload.
        store: Store that the runs write to.

    Raises:
        UsageError: The URL is not valid, or no plugin has its scheme.
        PluginError: The plugin does not work.
    """
    return () if url is None else (Uploader(url, store),)
