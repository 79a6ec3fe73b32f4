"""The result store: one directory per run, written during the run, so that a crash loses no finished repeat.

`results.run_directory` describes the contents of a run's directory.
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DlperfError, StoreError, UnknownName
from dlperf_sdk.results.convert import result_from_dict
from dlperf_sdk.results.files import directory_of, explain_os_errors, make_durable, remove, write_whole
from dlperf_sdk.results.recovery import Recovered, Unreadable, read_repeat, recover
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.run_directory import RunDirectory
from dlperf_sdk.results.run_places import campaign_error, refuse_campaign, refuse_only_campaigns, runs_in
from dlperf_sdk.spec.run_spec import RunSpec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OF_A_CAMPAIGN = re.compile(r"(?:[a-z]+-)?([0-9]{8}T[0-9]{6}Z-[0-9a-f]{6})-.+-[0-9]+n[0-9]+d-[0-9a-f]{12}")
"""A word may precede the stamp, for a run that a case makes beside its attempts. The name of a single run ends in
six digits, that of a campaign's case in twelve."""
_OF_A_RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-.+-[0-9]+n[0-9]+d-[0-9a-f]{6}(?:[0-9a-f]{6})?")
"""Name that dlperf gives to a run, never to a campaign."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""Begin of a URL, of which `Path` keeps one slash."""
_ROOM = 1024 * 1024
"""Bytes that `probe` writes: more than a full disk still takes."""


def new_run_id(spec: RunSpec, now: datetime) -> str:
    """Return a new name that sorts by time and describes the run: `20250131T101502Z-torch-resnet50-1n2d-3f9ac1`.

    The first part is the start in UTC, the last one is random.

    Args:
        spec: The case.
        now: Start of the run. A time without a time zone is local time.
    """
    return run_id(spec, now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"), secrets.token_hex(3))


def run_id(spec: RunSpec, stamp: str, key: str) -> str:
    """Return the name of a run: the stamp, framework, model and topology, and the key.

    For example:

        20250131T101502Z-0b61e2-torch-resnet50-1n2d-3f9ac1d2e4b5

    Args:
        spec: The case. Names of framework and model are cut to 24 characters.
        stamp: First part: the campaign's stamp for a case of a campaign, else the start of the run.
        key: Last part: a text that no other run with this stamp has.
    """
    case_part = (
        f"{spec.framework[:24]}-{spec.model[:24]}-{spec.topology.nodes}n{spec.topology.devices_per_node}d"
    )
    return f"{stamp}-{case_part}-{key}"


def campaign_of(run_id: str) -> str | None:
    """Return the stamp of the campaign that a run belongs to; None for a run outside a campaign.

    The stamp, such as `20250131T101502Z-0b61e2`, distinguishes a campaign from all others: the names of all its runs
    contain it.

    Args:
        run_id: The name of the run, which alone decides; nothing is read.
    """
    match = _OF_A_CAMPAIGN.fullmatch(run_id)
    return None if match is None else match[1]


class ResultStore:
    """Results in a directory, one subdirectory per run.

    The constructor does not access the directory. The first new run creates it. Iteration loads every run.

    Args:
        directory: Path of the directory.

    Raises:
        StoreError: The directory's name is empty, or a URL.
    """

    def __init__(self, directory: str | Path) -> None:
        if not str(directory):
            raise StoreError("The store has an empty name; name a directory, or leave it to the default.")
        refuse_url(str(directory))
        self.directory = Path(directory)

    def probe(self) -> None:
        """Check that results can be written, before hours are spent on measuring them.

        The directory is created if it is missing, and a file of 1 MiB is written and removed.

        Raises:
            StoreError: The directory cannot be created or written, or its disk is full.
        """
        with explain_os_errors(self.directory):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with directory_of(self.directory, ()) as directory:
                name = f".probe-{secrets.token_hex(8)}"
                try:
                    write_whole(directory, name, bytes(_ROOM))
                finally:
                    remove(directory, name)

    def open_run(self, run_id: str) -> RunDirectory:
        """Create the directory of a new run, after a `probe` of the store, and return the object that writes its files.

        `run_id` is the name of the run.

        Raises:
            StoreError: A run of this name exists, the name is invalid, the store cannot be written, or the directory
                cannot be created.
        """
        check_id(run_id)
        self.probe()
        with explain_os_errors(self.directory / run_id), directory_of(self.directory, ()) as directory:
            try:
                os.mkdir(run_id, mode=0o700, dir_fd=directory)
            except FileExistsError:
                raise StoreError(
                    f"There is already a run {run_id} in {self.directory}; choose another name."
                ) from None
            make_durable(directory)
        return RunDirectory(self.directory, run_id)

    def reopen_run(self, run_id: str) -> RunDirectory:
        """Return the object that writes files in the directory of an existing run. Nothing is written yet.

        `run_id` is the name of the run.

        Raises:
            UnknownName: There is no run of this name; the message suggests others.
            StoreError: There is no such run, and the store cannot be read to suggest others.
        """
        self.find_run(run_id)
        return RunDirectory(self.directory, run_id)

    def ids(self) -> tuple[str, ...]:
        """Return the names of all runs, the newest first; empty if the directory does not exist.

        A run without a timestamp in its name is sorted by the last change of its directory. Campaigns are left out.

        Raises:
            StoreError: The directory cannot be read; it is that of a campaign, whose runs are in `runs` below it; or it
                has no runs itself, and there are campaigns one or two levels below it.
        """
        refuse_campaign(self.directory)
        runs: list[tuple[str, str]] = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if _ID.fullmatch(entry.name) and entry.is_dir() and not _is_campaign(entry):
                        with suppress(FileNotFoundError):  # removed meanwhile
                            runs.append((_age(entry), entry.name))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"The results in {self.directory} cannot be read: {error.strerror}.") from error
        if not runs:
            refuse_only_campaigns(self.directory)
        return tuple(name for _, name in sorted(runs, reverse=True))

    def __iter__(self) -> Iterator[Result | Unreadable]:
        """Yield the result of every run, the newest first.

        In place of a result that is missing or cannot be read, yield an `Unreadable`.

        Raises:
            StoreError: As for `ids`.
        """
        for run_id in self.ids():
            path = self.directory / run_id / "result.json"
            try:
                if path.exists():
                    yield self.load(path)
                else:
                    yield Unreadable(path.parent, _missing_result_error(path.parent))
            except DlperfError as error:
                yield Unreadable(path, error)

    def load(self, run: str | Path) -> Result:
        """Load a result. Its records are read when they are first used.

        Args:
            run: Name of a run in the store, or path of a result's file or of a run's directory anywhere.

        Raises:
            UnknownName: The text could name a run, and there is neither such a run in the store nor such a path.
            StoreError: The run has no result, or the store cannot be read to suggest other names.
            DocumentError: The file does not exist or cannot be read, is corrupt, or is of another major version.
        """
        path = Path(run)
        if isinstance(run, str) and _ID.fullmatch(run) and not path.is_file():
            in_store = self.directory / run
            path = self.find_run(run) if in_store.is_dir() or not path.is_dir() else path
        if path.is_dir():
            path /= "result.json"
            if not path.exists():
                raise _missing_result_error(path.parent)
        return result_from_dict(
            load_document(path, LARGEST_RESULT), partial(read_repeat, path.absolute().parent)
        )

    def recover(self, run_id: str) -> Recovered:
        """Return what is stored of a run so far: its spec, and its attempts that have ended.

        Files that cannot be read are listed in `Recovered.unreadable`. `run_id` is the name of the run.

        Raises:
            UnknownName: There is no run of this name.
            StoreError: There is no such run, and the store cannot be read to suggest others; or the run's attempts
                cannot be listed.
        """
        return recover(self.find_run(run_id))

    def find_run(self, run_id: str) -> Path:
        """Return the directory of an existing run. It need not have a result yet.

        `run_id` is the name of the run.

        Raises:
            UnknownName: There is no run of this name; the message suggests others.
            StoreError: There is no such run, and the store cannot be read to suggest others.
        """
        path = self.directory / run_id
        if not _ID.fullmatch(run_id) or not path.is_dir():
            known = self.ids()
            close = difflib.get_close_matches(run_id[:128], known, n=3, cutoff=0.5) or known[:3]
            raise UnknownName("run", run_id[:128], close, f"{self.directory} holds {len(known)} runs.")
        return path


def _is_campaign(entry: os.DirEntry[str]) -> bool:
    # A store may have 100,000 runs: those that are known by their name are not looked into.
    return not _OF_A_RUN.fullmatch(entry.name) and runs_in(Path(entry.path)) != Path(entry.path)


def refuse_url(*places: str) -> None:
    """Check that none of the `places`, given as names of directories or runs, is a URL.

    A URL may hold a password, which messages about a directory would show.

    Raises:
        StoreError: One of the texts begins like a URL.
    """
    if any(map(_URL.match, places)):
        raise StoreError(
            "A directory or a run is needed here, and a URL was given. Commands that take databases: `dlperf query`, "
            "`history`, `site` and `upload`, and `run` with --store; --output names the directory of its results."
        )


def check_id(run_id: str) -> None:
    """Check that a text can name a run: ASCII letters, digits, `.`, `-` and `_`, at most 128, a letter or digit first.

    Whether there is such a run is not checked.

    Raises:
        StoreError: The text cannot name a run.
    """
    if not _ID.fullmatch(run_id):
        raise StoreError(
            f"{format_value(run_id)} cannot name a run: use letters, digits, '.', '-' and '_', at most 128."
        )


def _age(entry: os.DirEntry[str]) -> str:
    """Return a key that sorts runs by time: from the name's timestamp or, without one, the last modification."""
    stamp = re.match(r"[0-9]{8}T[0-9]{6}", entry.name)
    timestamp = (
        stamp[0] if stamp else datetime.fromtimestamp(entry.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%S")
    )
    return f"{timestamp} {entry.name}"


def _missing_result_error(path: Path) -> StoreError:
    if runs_in(path) != path:
        return campaign_error(path)
    return StoreError(
        f"{path} has no result.json: the run is still going, or its controller ended before it was done. "
        "What it has finished is in its directory 'attempts'."
    )
