"""Checks of a result against its own records. A file that was edited by hand usually contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.measurer import Measurer
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.recomputation import (
    compare_medians,
    compare_metrics,
    compare_throughput,
    compare_verdicts,
    explain_unknown_names,
    recompute_expected,
)
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, INTEGRITY, PASS, Result
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.stored_repeats import StoredRepeats, attempts_of
from dlperf_sdk.results.verdicts import integrity_of, judge
from dlperf_sdk.worker.processes import TRAINER


def list_contradictions(result: Result) -> tuple[str, ...]:
    """Return a sentence for each contradiction between a result and its own repeats; empty if there is none.

    The function computes again, and compares, the median and interval of each metric, the throughput, and the integrity
    verdicts other than `parity`. A result that is imported, or has no repeats or no workload, gets only the checks that
    need no records (`list_own_contradictions`). The records of a result in the store are read. Records that cannot be
    read count as a contradiction, and so does a precision or strategy that this version does not know. Nothing is
    raised. `check_directory` checks more.
    """
    problems = [*list_own_contradictions(result)]
    if result.imported is not None:
        return tuple(problems)
    try:
        repeats = tuple(result.repeats)
    except DocumentError as error:
        return (*problems, str(error))
    if empty := [repeat.attempt for repeat in repeats if not repeat.records]:
        problems.append(f"Attempt {empty[0]} is among the repeats, but has no records.")
    elif unknown := explain_unknown_names(result.spec):
        problems += unknown
    elif repeats and result.workload is not None:
        problems += compare_throughput(result, repeats)
        problems += compare_verdicts(result, integrity_of(repeats, recompute_expected(result, repeats, None)))
    return tuple(problems)


WITH_RECORDS = 60
"""Maximum number of results whose records `list_contradictions_by_result` reads. `dlperf validate` reads those of
any number."""


def list_contradictions_by_result(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return the contradictions of each result, in order: one tuple of sentences per result, empty if there is none.

    If there are at most 60 results (`WITH_RECORDS`), `list_contradictions` checks them, and reads their records. If
    there are more, `list_own_contradictions` checks all of them without their records. Nothing is raised.
    """
    return list(
        map(list_contradictions if len(results) <= WITH_RECORDS else list_own_contradictions, results)
    )


def list_own_contradictions(result: Result) -> tuple[str, ...]:
    """Return a sentence for each contradiction in a result that can be found without its records; empty if none.

    The median and interval of each metric must follow from its values per repeat. An imported result must have one
    value of the throughput per log, and no integrity verdict that is `pass` or `fail`.
    """
    problems = [*compare_medians(result.metrics)]
    if result.imported is not None:
        problems += _check_imported(result)
    return tuple(problems)


def check_directory(path: Path, measurers: Iterable[Measurer]) -> tuple[str, ...]:
    """Return a sentence for each contradiction between the result in a run's directory and the directory's other files.

    The function compares the repeats in the result with the records of the attempts, and the case, environment and
    workload in the result with `spec.json`, `environment.json` and `plan.json`. It computes all verdicts, and the
    metrics of the given measurers, again from the records. A file that cannot be read counts as a contradiction. An
    imported result has no such files; it gets the checks of `list_contradictions`.

    Args:
        path: The run's directory. Nothing in it is changed.
        measurers: The measurers whose metrics are compared.

    Returns:
        The sentences, without duplicates; empty if everything agrees.

    Raises:
        StoreError: There is no result in the directory.
        DocumentError: The result is corrupt or of another major version, or there is no such directory.
        UnknownName: The directory's name cannot name a run.
    """
    store = ResultStore(path.absolute().parent)
    result = store.load(path.absolute())
    if result.imported is not None:
        return list_contradictions(result)
    recovered = store.recover(path.absolute().name)
    problems = [
        f"{unreadable.path.relative_to(store.directory / path.name)} cannot be read: {unreadable.error}"
        for unreadable in recovered.unreadable
    ]
    if recovered.spec is not None and recovered.spec != result.spec:
        problems.append(
            f"spec.json is another than the result's: {_first_difference(recovered.spec, result.spec)}."
        )
    repeats = tuple(
        attempt.repeat for attempt in recovered.attempts if attempt.status == "ok" and attempt.records
    )
    problems += _numbers([repeat.attempt for repeat in repeats], attempts_of(result.repeats))
    if not isinstance(result.repeats, StoredRepeats):
        problems += _records(result.repeats, repeats)
    plan = _document(path, "plan.json", problems)
    environment = _document(path, "environment.json", problems)
    if (
        environment is not None
        and result.environment is not None
        and environment != to_plain(result.environment)
    ):
        difference = _first_difference(environment, to_plain(result.environment))
        problems.append(f"environment.json is another than the result's: {difference}.")
    ranks = None
    if plan is not None:
        if result.workload is not None and to_plain(result.workload) != plan.get("workload"):
            difference = _first_difference(plan.get("workload"), to_plain(result.workload))
            problems.append(f"The workload is another than plan.json's: {difference}.")
        ranks = _ranks(plan, problems)
    problems += compare_medians(result.metrics)
    if unknown := explain_unknown_names(result.spec):
        problems += unknown
    elif repeats and result.workload is not None:
        problems += compare_metrics(result, repeats, measurers)
        problems += compare_verdicts(
            result, judge(repeats, recompute_expected(result, repeats, ranks), result.parity)
        )
    elif result.metrics:
        problems.append("There are metrics, but no finished attempt that they could come from.")
    return tuple(dict.fromkeys(problems))


def _document(path: Path, name: str, problems: list[str]) -> dict[str, Any] | None:
    """Return a file of the directory; None, and a sentence if it cannot be read."""
    if not (path / name).exists():
        return None
    try:
        return load_document(path / name, LARGEST_RESULT)
    except DocumentError as error:
        problems.append(str(error))
        return None


def _ranks(plan: Mapping[str, Any], problems: list[str]) -> int | None:
    """Return the number of trainers in a plan; if it is malformed, append a sentence to `problems` and return None."""
    processes = plan.get("processes")
    if isinstance(processes, list) and all(isinstance(process, Mapping) for process in processes):
        return [process.get("role") for process in processes].count(TRAINER)
    problems.append(f"plan.json does not list the processes, but: {format_value(processes)}.")
    return None


# -- records


def _numbers(finished: Sequence[int], stored: Sequence[int]) -> Iterator[str]:
    for number in stored:
        if number not in finished:
            yield f"Attempt {number} is in the result, but not among the finished attempts."
    for number in sorted({*finished} - {*stored}):
        yield f"Attempt {number} finished, but is not in the result."
    for number in sorted({number for number in stored if stored.count(number) > 1}):
        yield f"Attempt {number} is in the result more than once."


def _records(stored: Sequence[Repeat], recorded: Sequence[Repeat]) -> Iterator[str]:
    """Check the records that a result itself contains."""
    by_attempt = {repeat.attempt: repeat for repeat in recorded}
    for repeat in stored:
        counterpart = by_attempt.get(repeat.attempt)
        if counterpart is not None and (
            difference := _first_difference(to_plain(counterpart), to_plain(repeat))
        ):
            yield f"Attempt {repeat.attempt} is another than its records: {difference}."


def _first_difference(left: Any, right: Any, path: str = "") -> str:
    """Return the place of the first difference and the two values: `records[0].samples: 80 is now 800`.

    Empty if none.
    """
    if hasattr(left, "to_dict"):
        left, right = left.to_dict(), right.to_dict()
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            if key not in left or key not in right:
                return f"{path}{'.' if path else ''}{key} is in only one of them"
            if difference := _first_difference(left[key], right[key], f"{path}{'.' if path else ''}{key}"):
                return difference
        return ""
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return f"{path} has {len(left)} entries, and now {len(right)}"
        differing = (
            _first_difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(left, right, strict=True))
        )
        return next((difference for difference in differing if difference), "")
    is_equal = type(left) is type(right) and left == right
    return "" if is_equal else f"{path}: {str(left)[:60]} is now {str(right)[:60]}"


def _check_imported(result: Result) -> Iterator[str]:
    throughput = result.metric("throughput")
    logs = len(result.imported.sources) if result.imported else 0
    if throughput is None or len(throughput.repeats) != logs:
        count = 0 if throughput is None else len(throughput.repeats)
        yield f"It is imported from {logs} logs, but its throughput has {count} repeats."
    for verdict in result.verdicts:
        if verdict.kind == INTEGRITY and verdict.outcome in (PASS, FAIL):
            yield f"{verdict.name} is {verdict.outcome}, but an imported result has no records to judge by."
