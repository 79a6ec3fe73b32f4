"""Reading of a run's directory, also an incomplete one: its spec, its attempts, and the files that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DlperfError, DocumentError, StoreError
from dlperf_sdk.results.convert import Attempt, attempt_from_dict
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class Unreadable:
    """A run without a readable result, or a file or attempt that cannot be read."""

    path: Path
    """Path of the run, the file or the attempt."""
    error: DlperfError
    """Reason why it cannot be read."""


@frozen
class Recovered:
    """Contents of a run's directory, whether or not it holds a result."""

    id: str
    """Name of the run."""
    spec: RunSpec | None
    """The run's spec; None if it cannot be read."""
    attempts: tuple[Attempt, ...]
    """Complete attempts, finished or failed, by number."""
    unreadable: tuple[Unreadable, ...]
    """What cannot be read: attempts by number, then the spec."""


def recover(path: Path) -> Recovered:
    """Return the spec and the attempts in a run's directory `path`, with a result or without one.

    Attempts and a spec that cannot be read, or are missing, are listed in `Recovered.unreadable`; nothing is raised for
    them.

    Raises:
        StoreError: The directory `attempts` exists, and its entries cannot be listed.
    """
    spec, attempts, unreadable = None, [], []
    folder = path / "attempts"
    try:
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}.") from error
    for number in sorted(int(name) for name in names if name.isdecimal()):
        try:
            attempts.append(_attempt(folder / str(number)))
        except DocumentError as error:
            unreadable.append(Unreadable(folder / str(number), error))
    try:
        spec = RunSpec.from_dict(_read(path / "spec.json"))
    except DlperfError as error:
        unreadable.append(Unreadable(path / "spec.json", error))
    return Recovered(path.name, spec, tuple(attempts), tuple(unreadable))


def read_repeat(path: Path, number: int) -> Repeat:
    """Read a finished attempt of a run, and return it as a repeat.

    Args:
        path: The run's directory.
        number: Number of the attempt.

    Raises:
        DocumentError: The attempt cannot be read, failed, or has another number in its file.
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
        raise DocumentError(f"{folder / 'attempt.json'} does not list its records.")
    return attempt_from_dict({**event, "records": [_read(folder / name) for name in names]})


def _read(path: Path) -> dict[str, Any]:
    return load_document(path, LARGEST_RESULT)
