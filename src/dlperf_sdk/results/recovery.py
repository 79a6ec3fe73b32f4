"""Read a run's directory: its attempts, and the errors of files that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DlperfError, DocumentError
from dlperf_sdk.results.convert import Attempt, attempt_from_dict
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class Unreadable:
    """A run in the store that has no result, or one that cannot be read."""

    path: Path
    error: DlperfError


@frozen
class Recovered:
    """Contents of a run's directory, whether or not its controller came to write a result."""

    id: str
    spec: RunSpec | None
    attempts: tuple[Attempt, ...]
    """Those that were complete, in order, finished or failed."""
    unreadable: tuple[Unreadable, ...]


def recover(path: Path) -> Recovered:
    """Return the spec and the attempts in a run's directory, with a result or without one.

    Files that cannot be read are listed in the value, with the error of each.
    """
    spec, attempts, unreadable = None, [], []
    folder = path / "attempts"
    entries = folder.iterdir() if folder.is_dir() else ()
    for number in sorted(int(entry.name) for entry in entries if entry.name.isdecimal()):
        try:
            attempts.append(_attempt(folder / str(number)))
        except DocumentError as error:
            unreadable.append(Unreadable(folder / str(number), error))
    try:
        spec = RunSpec.from_dict(_read(path / "spec.json"))
    except DlperfError as error:
        unreadable.append(Unreadable(path / "spec.json", error))
    return Recovered(path.name, spec, tuple(attempts), tuple(unreadable))


def repeat(path: Path, number: int) -> Repeat:
    """Return the attempt `number` of the run in this directory as a repeat.

    Raises:
        DocumentError: the attempt cannot be read, failed, or has another number.
    """
    try:
        attempt = _attempt(path / "attempts" / str(number))
    except DocumentError as error:
        raise DocumentError(
            f"The records of attempt {number}, which belong to {path / 'result.json'}, cannot be read: {error}"
        ) from error
    if attempt.status != "ok" or attempt.attempt != number:
        raise DocumentError(
            f"{path / 'result.json'} counts attempt {number} among its repeats, but that is attempt "
            f"{attempt.attempt}, with the status {attempt.status}."
        )
    return attempt.repeat


def _attempt(folder: Path) -> Attempt:
    event = _read(folder / "attempt.json")
    names = event.get("records")
    if not isinstance(names, list) or not all(
        re.fullmatch(r"[a-z]+-[0-9-]+\.json", str(name)) for name in names
    ):
        raise DocumentError(f"{folder / 'attempt.json'} does not say which records belong to it.")
    return attempt_from_dict({**event, "records": [_read(folder / name) for name in names]})


def _read(path: Path) -> dict[str, Any]:
    return load_document(path, LARGEST_RESULT)
