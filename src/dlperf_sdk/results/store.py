"""The result store: one directory per run, written as it goes, so that a crash loses no finished repeat.

::

    DIRECTORY/RUN-ID/
        spec.json  plan.json  environment.json  lock.txt     before anything is measured
        attempts/1/rank-0.json  rank-0.log  service-0.log    at the end of each attempt,
        attempts/1/attempt.json                              this one last: with it, the attempt is complete
        traces/rank-0.json.gz                                where --trace asks for it
        result.json  report.md                               at the end of the run

`result.json` is what a result says: its metrics, verdicts, environment, hardware. Its repeats are numbers of attempts,
where their records lie; they are read when somebody asks for them.

Every file appears whole or not at all. A run's directory is its owner's alone (0700, files 0600), because
logs and variables may hold secrets; what others shall see is handed out on purpose, `redacted` where that
matters. Below the store's own directory nothing is written through a symbolic link.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.documents import LARGEST_RESULT, load_document, shown
from dlperf_sdk.errors import DlperfError, DocumentError, StoreError, UnknownName
from dlperf_sdk.records import Repeat
from dlperf_sdk.results.convert import (
    Attempt,
    attempt_from_dict,
    result_from_dict,
    result_to_dict,
    result_to_dict_beside,
    to_plain,
)
from dlperf_sdk.results.files import directory_of, explained, remove, write_whole
from dlperf_sdk.results.repeats import attempts_of
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.spec import RunSpec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LOG = re.compile(r"(rank|service)-[0-9]{1,12}(-[0-9]{1,12})?")
_ROOM = 1024 * 1024
"""Bytes that a probe writes: more than the little that a full disk still takes."""


@frozen
class Unreadable:
    """A run in the store that has no result, or one that cannot be read."""

    path: Path
    error: DlperfError


@frozen
class Recovered:
    """What is left of a run whose controller ended before it could write a result."""

    id: str
    spec: RunSpec | None
    attempts: tuple[Attempt, ...]
    """Those that were complete, in order, finished or failed."""
    unreadable: tuple[Unreadable, ...]


def new_run_id(spec: RunSpec, now: datetime, token: str | None = None) -> str:
    """A name that sorts by time and says what the run is: `20250131T101502Z-torch-resnet50-1n2d-3f9ac1`."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    what = f"{spec.framework[:24]}-{spec.model[:24]}-{spec.topology.nodes}n{spec.topology.devices_per_node}d"
    return f"{stamp}-{what}-{token or secrets.token_hex(3)}"


class RunDirectory:
    """One run's directory. Each method writes one document, and returns when it is on the disk.

    Raises (all methods):
        StoreError: it cannot be written.
    """

    def __init__(self, store: Path, run_id: str) -> None:
        self.id = run_id
        self.path = store / run_id

    def write_spec(self, spec: RunSpec) -> None:
        """`spec.json`: what was asked for."""
        self._write_json((), "spec.json", spec.to_dict())

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """`plan.json`: what follows from it."""
        self._write_json((), "plan.json", plan)

    def write_environment(self, environment: Environment) -> None:
        """`environment.json`, and its lock once more as `lock.txt`, which installers read."""
        self._write_json((), "environment.json", to_plain(environment))
        self._write((), "lock.txt", environment.lock)

    def write_attempt(self, event: Mapping[str, Any]) -> None:
        """`attempts/K/`: an attempt's records and logs, then itself, from the event `attempt-ended`.

        What the workers wrote is kept as it is, right or wrong: `attempt_from_dict` judges it.

        Raises:
            DocumentError: the attempt has no number, or a log a name of its own making.
        """
        number = event.get("attempt")
        if not isinstance(number, int) or not 0 <= number <= 10**12:
            raise DocumentError(f"An attempt's number is {shown(number)}.")
        folder = ("attempts", str(number))
        files: dict[str, list[str]] = {"records": [], "logs": []}
        for i, record in enumerate(event.get("records", ())):
            rank = record.get("rank") if isinstance(record, Mapping) else None
            name = f"rank-{rank}.json" if isinstance(rank, int) and 0 <= rank < 10**12 else f"record-{i}.json"
            self._write_json(folder, _free(name, files["records"]), record)
        for log in event.get("logs", ()):
            if not _LOG.fullmatch(str(log["name"])):
                raise DocumentError(f"A log of attempt {number} is named {shown(log['name'])}.")
            self._write(folder, _free(f"{log['name']}.log", files["logs"]), str(log["text"]))
        rest = {key: value for key, value in event.items() if key not in files}
        self._write_json(folder, "attempt.json", {**rest, **files})

    def write_result(self, result: Result) -> None:
        """`result.json`, and before it the attempts of its repeats where they are not there yet.

        Repeats that share a number, which no run has, are written into it.
        """
        numbers = attempts_of(result.repeats)
        if len(set(numbers)) < len(numbers):
            self._write_json((), "result.json", result_to_dict(result))
            return
        document = result_to_dict_beside(result)
        for i, number in enumerate(numbers):
            if not (self.path / "attempts" / str(number) / "attempt.json").exists():
                self.write_attempt({"status": "ok", "failure": None, **to_plain(result.repeats[i])})
        self._write_json((), "result.json", document)

    def write_trace(self, rank: int, packed: bytes) -> Path:
        """`traces/rank-K.json.gz`: what the framework's profiler saw of one rank; the value is its path."""
        folder, name = ("traces",), f"rank-{rank}.json.gz"
        path = self.path.joinpath(*folder, name)
        with explained(path), directory_of(self.path.parent, (self.id, *folder)) as directory:
            write_whole(directory, name, packed)
        return path

    def write_report(self, text: str) -> None:
        """`report.md`."""
        self._write((), "report.md", text)

    def _write_json(self, folder: tuple[str, ...], name: str, document: Any) -> None:
        self._write(folder, name, json.dumps(document, indent=1, allow_nan=False) + "\n")

    def _write(self, folder: tuple[str, ...], name: str, text: str) -> None:
        path = self.path.joinpath(*folder, name)
        with explained(path), directory_of(self.path.parent, (self.id, *folder)) as directory:
            write_whole(directory, name, text.encode("utf-8", "backslashreplace"))


class ResultStore:
    """Results in a directory. Making one touches nothing; the directory is made with the first run."""

    def __init__(self, directory: str | Path) -> None:
        if not str(directory):
            raise StoreError("The store has an empty name; name a directory, or leave it to the default.")
        self.directory = Path(directory)

    def probe(self) -> None:
        """Find out whether results can be written, before hours are spent on measuring them.

        Raises:
            StoreError: the directory cannot be made or written, or its disk is full.
        """
        with explained(self.directory):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with directory_of(self.directory, ()) as directory:
                name = f".probe-{secrets.token_hex(8)}"
                try:
                    write_whole(directory, name, bytes(_ROOM))
                finally:
                    remove(directory, name)

    def open_run(self, run_id: str) -> RunDirectory:
        """Make the directory of a new run.

        Raises:
            StoreError: there is a run of this name, the name is no name, or the directory cannot be made.
        """
        _check_id(run_id)
        self.probe()
        with explained(self.directory / run_id), directory_of(self.directory, ()) as directory:
            try:
                os.mkdir(run_id, mode=0o700, dir_fd=directory)
            except FileExistsError:
                raise StoreError(
                    f"There is already a run {run_id} in {self.directory}; choose another name."
                ) from None
            os.fsync(directory)
        return RunDirectory(self.directory, run_id)

    def reopen_run(self, run_id: str) -> RunDirectory:
        """The directory of a run that is there, to add to it.

        Raises:
            UnknownName: there is none of this name.
        """
        self._find(run_id)
        return RunDirectory(self.directory, run_id)

    def ids(self) -> tuple[str, ...]:
        """The names of all runs, the newest first.

        Raises:
            StoreError: the directory cannot be read.
        """
        try:
            with os.scandir(self.directory) as entries:
                found = [entry for entry in entries if _ID.fullmatch(entry.name) and entry.is_dir()]
                return tuple(entry.name for entry in sorted(found, key=_age, reverse=True))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"The results in {self.directory} cannot be read: {error.strerror}.") from error

    def __iter__(self) -> Iterator[Result | Unreadable]:
        """Every run, the newest first. What cannot be read is said, not left out."""
        for run_id in self.ids():
            path = self.directory / run_id / "result.json"
            try:
                if path.exists():
                    yield self.load(path)
                else:
                    yield Unreadable(path.parent, _no_result(path.parent))
            except DlperfError as error:
                yield Unreadable(path, error)

    def load(self, which: str | Path) -> Result:
        """A result by its run's name, or by the path of its file or directory, wherever that is.

        Raises:
            UnknownName: it is neither a run's name nor a path.
            StoreError: the run has no result.
            DocumentError: the file is corrupt, or of a newer version.
        """
        path = Path(which)
        if isinstance(which, str) and _ID.fullmatch(which) and not path.is_file():
            in_store = self.directory / which
            path = self._find(which) if in_store.is_dir() or not path.is_dir() else path
        if path.is_dir():
            path /= "result.json"
            if not path.exists():
                raise _no_result(path.parent)
        return result_from_dict(_read(path), partial(_read_repeat, path.absolute().parent))

    def recover(self, run_id: str) -> Recovered:
        """What a run without a result has finished.

        Raises:
            UnknownName: there is no such run.
        """
        path = self._find(run_id)
        spec, attempts, unreadable = None, [], []
        numbered = sorted(int(entry.name) for entry in _listed(path / "attempts") if entry.name.isdecimal())
        for number in numbered:
            folder = path / "attempts" / str(number)
            try:
                attempts.append(_read_attempt(folder))
            except DocumentError as error:
                unreadable.append(Unreadable(folder, error))
        try:
            spec = RunSpec.from_dict(_read(path / "spec.json"))
        except DlperfError as error:
            unreadable.append(Unreadable(path / "spec.json", error))
        return Recovered(run_id, spec, tuple(attempts), tuple(unreadable))

    def _find(self, run_id: str) -> Path:
        path = self.directory / run_id
        if not _ID.fullmatch(run_id) or not path.is_dir():
            known = self.ids()
            close = difflib.get_close_matches(run_id[:128], known, n=3, cutoff=0.5) or known[:3]
            raise UnknownName("run", run_id[:128], close, f"{self.directory} holds {len(known)} runs.")
        return path


def _check_id(run_id: str) -> None:
    if not _ID.fullmatch(run_id):
        raise StoreError(
            f"{shown(run_id)} cannot name a run: use letters, digits, '.', '-' and '_', at most 128."
        )


def _age(entry: os.DirEntry[str]) -> str:
    """What sorts by time: our names start with it, others are taken by when they were last changed."""
    stamp = re.match(r"[0-9]{8}T[0-9]{6}", entry.name)
    when = stamp[0] if stamp else datetime.fromtimestamp(entry.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{when} {entry.name}"


def _no_result(path: Path) -> StoreError:
    return StoreError(
        f"{path} has no result.json: the run is still going, or its controller ended before it was done. "
        "What it has finished is in its directory 'attempts'."
    )


# -- reading


def _read(path: Path) -> dict[str, Any]:
    return load_document(path, LARGEST_RESULT)


def _listed(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() else []


def _read_attempt(folder: Path) -> Attempt:
    event = _read(folder / "attempt.json")
    names = event.get("records")
    if not isinstance(names, list) or not all(
        re.fullmatch(r"[a-z]+-[0-9-]+\.json", str(name)) for name in names
    ):
        raise DocumentError(f"{folder / 'attempt.json'} does not say which records belong to it.")
    return attempt_from_dict({**event, "records": [_read(folder / name) for name in names]})


def _read_repeat(run: Path, number: int) -> Repeat:
    """A repeat of the run in this directory."""
    try:
        attempt = _read_attempt(run / "attempts" / str(number))
    except DocumentError as error:
        raise DocumentError(
            f"The records of attempt {number}, which belong to {run / 'result.json'}, cannot be read: {error}"
        ) from error
    if attempt.status != "ok" or attempt.attempt != number:
        raise DocumentError(
            f"{run / 'result.json'} counts attempt {number} among its repeats, but that is attempt "
            f"{attempt.attempt}, with the status {attempt.status}."
        )
    return attempt.repeat


def _free(name: str, taken: list[str]) -> str:
    """The name, with a number where another of the same attempt has it; it is noted in `taken`."""
    stem, dot, suffix = name.rpartition(".")
    count = 2
    while name in taken:
        name, count = f"{stem}-{count}{dot}{suffix}", count + 1
    taken.append(name)
    return name
