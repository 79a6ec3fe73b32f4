"""The directory of one run: the documents in it, and the class that writes them.

::

    RUN-ID/
        spec.json  plan.json  environment.json  lock.txt     before anything is measured
        attempts/1/rank-0.json                               at the end of each attempt: the records,
        attempts/1/attempt.json                              then this file, which completes the attempt
        attempts/1/rank-0.log  service-0.log                 afterwards, in pieces as they arrive
        traces/rank-0.json.gz                                with --trace
        result.json                                          at the end of the run
        report.md                                            then, if `dlperf run` or `rerun` made the run

`result.json` holds the metrics, verdicts, environment and hardware of a result. Its `repeats` are attempt
numbers; the records are in the directories of these attempts.

Every file but a log appears whole or not at all. Directories have the mode 0700 and files 0600, because logs and
variables may hold secrets. What is shared is handed out on purpose, `redacted` where that matters. Nothing is
written through a symbolic link below the store's directory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import check_plain, format_value
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.results.convert import result_to_dict, result_to_dict_without_records, to_plain
from dlperf_sdk.results.files import append, directory_of, explain_os_errors, write_whole
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.stored_repeats import attempts_of
from dlperf_sdk.spec.run_spec import RunSpec

LARGEST_LOG = 2 * 1024 * 1024
"""Maximum size of a log in bytes. A node sends the last 256 KiB of a log; an undecodable byte becomes several."""
_LOG = re.compile(r"(rank|service)-[0-9]{1,12}(-[0-9]{1,12})?")


class RunDirectory:
    """The directory of one run. Each method writes documents; all but `append_log` return when they are on the disk.

    A document that exists is replaced. Missing directories below the store's are created.

    Args:
        store: The store's directory, which must exist when something is written.
        run_id: Name of the run: at most 128 ASCII letters, digits, `.`, `-` and `_`, a letter or digit first.
    """

    def __init__(self, store: Path, run_id: str) -> None:
        self.id = run_id
        self.path = store / run_id

    def write_spec(self, spec: RunSpec) -> None:
        """Write `spec.json`, the requested case.

        Raises:
            StoreError: The file cannot be written.
        """
        self._write_json((), "spec.json", spec.to_dict())

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write `plan.json`, the plan of the case as JSON values.

        Raises:
            StoreError: The file cannot be written.
            TypeError, ValueError: The plan holds a value that JSON cannot represent.
        """
        self._write_json((), "plan.json", plan)

    def write_environment(self, environment: Environment) -> None:
        """Write an environment to `environment.json`, and its package versions to `lock.txt` in requirements format.

        Raises:
            StoreError: A file cannot be written.
        """
        self._write_json((), "environment.json", to_plain(environment))
        self._write((), "lock.txt", environment.lock)

    def write_attempt(self, event: Mapping[str, Any]) -> None:
        """Write an event `attempt-ended` to `attempts/K/`: its records, then the remaining event to `attempt.json`.

        The records are stored unchanged and unchecked; `attempt_from_dict` checks them. `K` is the attempt's
        number. In `attempt.json`, the names of the records' files replace the records.

        Args:
            event: The event as JSON values. Only its `attempt` (a number) and `records` (a list) are interpreted.

        Raises:
            DocumentError: The event has no valid attempt number.
            StoreError: A file cannot be written.
            TypeError, ValueError: The event holds a value that JSON cannot represent.
        """
        folder = ("attempts", _number_of(event))
        names: list[str] = []
        uses: Counter[str] = Counter()
        for i, record in enumerate(event.get("records", ())):
            rank = record.get("rank") if isinstance(record, Mapping) else None
            name = f"rank-{rank}" if isinstance(rank, int) and 0 <= rank < 10**12 else f"record-{i}"
            uses[name] += 1
            names.append(f"{name}.json" if uses[name] == 1 else f"{name}-{uses[name]}.json")
            self._write_json(folder, names[-1], record)
        self._write_json(folder, "attempt.json", {**event, "records": names})

    def append_log(self, event: Mapping[str, Any]) -> None:
        """Append a piece of a worker's log to `attempts/K/NAME.log`, from an event `log`.

        `event` has the attempt's number K as `attempt`, the log's `name`, such as `rank-0`, and the `text` to append.

        Raises:
            DocumentError: The attempt's number, the log's name or the text is invalid, or the log would exceed 2 MiB
                (`LARGEST_LOG`).
            KeyError: The event has no `name` or `text`.
            StoreError: The file cannot be written.
        """
        name, text = event["name"], event["text"]
        if not isinstance(text, str) or not _LOG.fullmatch(str(name)):
            raise DocumentError(
                f"expected a piece of a log, got {format_value(text)} of a log named {format_value(name)}"
            )
        folder, file = ("attempts", _number_of(event)), f"{name}.log"
        path = self.path.joinpath(*folder, file)
        with explain_os_errors(path), directory_of(self.path.parent, (self.id, *folder)) as directory:
            fits = append(directory, file, text.encode("utf-8", "backslashreplace"), LARGEST_LOG)
        if not fits:
            raise DocumentError(f"the log {name} has more than {LARGEST_LOG} bytes")

    def write_result(self, result: Result) -> None:
        """Write the attempts of the result's repeats that are not stored yet, and then `result.json`.

        If two repeats have the same attempt number, as in a result that combines several runs, `result.json` has
        all records, and no attempt is written. Records that are not in memory are read from the runs' directories.

        Raises:
            DocumentError: The result breaks its own schema or holds a value that JSON cannot represent, or records that
                are not in memory cannot be read.
            StoreError: A file cannot be written.
        """
        numbers = attempts_of(result.repeats)
        are_unique = len(set(numbers)) == len(numbers)
        document = result_to_dict_without_records(result) if are_unique else result_to_dict(result)
        check_plain(document, "The result")
        schema.check("result", document)
        if not are_unique:
            self._write_json((), "result.json", document)
            return
        for i, number in enumerate(numbers):
            if not (self.path / "attempts" / str(number) / "attempt.json").exists():
                self.write_attempt({"status": "ok", "failure": None, **to_plain(result.repeats[i])})
        self._write_json((), "result.json", document)

    def write_trace(self, rank: int, packed: bytes) -> Path:
        """Write one rank's profiler trace to `traces/rank-K.json.gz`, and return the file's path.

        Args:
            rank: The rank K.
            packed: The trace, already compressed with gzip.

        Raises:
            StoreError: The file cannot be written.
        """
        folder, name = ("traces",), f"rank-{rank}.json.gz"
        path = self.path.joinpath(*folder, name)
        with explain_os_errors(path), directory_of(self.path.parent, (self.id, *folder)) as directory:
            write_whole(directory, name, packed)
        return path

    def write_report(self, text: str) -> None:
        """Write a text to `report.md`.

        Raises:
            StoreError: The file cannot be written.
        """
        self._write((), "report.md", text)

    def _write_json(self, folder: tuple[str, ...], name: str, document: Any) -> None:
        self._write(folder, name, json.dumps(document, indent=1, allow_nan=False) + "\n")

    def _write(self, folder: tuple[str, ...], name: str, text: str) -> None:
        path = self.path.joinpath(*folder, name)
        with explain_os_errors(path), directory_of(self.path.parent, (self.id, *folder)) as directory:
            write_whole(directory, name, text.encode("utf-8", "backslashreplace"))


def _number_of(event: Mapping[str, Any]) -> str:
    number = event.get("attempt")
    if not isinstance(number, int) or not 0 <= number <= 10**12:
        raise DocumentError(f"An attempt's number is {format_value(number)}.")
    return str(number)
