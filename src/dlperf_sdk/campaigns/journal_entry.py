"""Checks of the fields of a journal's entries. A line may be damaged, or written by another program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dlperf_sdk.errors import FAILURES

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_throughput(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def _is_status(value: Any) -> bool:
    return value == "ok" or (isinstance(value, str) and value in FAILURES)


def _allow_absent(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


_COMMON_CHECKS: dict[str, _Check] = {
    "event": _is_text,
    "time": _is_text,
    "case": _allow_absent(_is_text),
    "notes": _is_texts,
}
_CASE: dict[str, _Check] = {"case": _is_text}
_OF_EVENT: dict[str, dict[str, _Check]] = {
    "session": {"host": lambda value: isinstance(value, dict), "changes": _is_texts},
    "case-started": {**_CASE, "batch_size": _allow_absent(_is_count)},
    "not-begun": {**_CASE, "status": _is_status, "message": _allow_absent(_is_text)},
    "attempt-started": {**_CASE, "attempt": _is_count},
    "attempt-ended": {
        **_CASE,
        "attempt": _is_count,
        "status": _is_status,
        "message": _allow_absent(_is_text),
        "seconds": _allow_absent(_is_duration),
        "throughput": _allow_absent(_is_throughput),
    },
    "attempt-lost": {**_CASE, "attempt": _is_count},
    "attempt-given-up": {**_CASE, "attempt": _is_count, "seconds": _is_duration},
    "concluded": {**_CASE, "status": _is_status, "ok": _allow_absent(lambda value: isinstance(value, bool))},
    "reopened": _CASE,
    "retried": _CASE,
    "forgotten": _CASE,
}


def find_invalid_field(entry: Any) -> str | None:
    """Return the name of the first field of a journal's entry that is missing or invalid; None if all are valid.

    For an entry that is not a mapping, the result is `event`.
    """
    if not isinstance(entry, Mapping):
        return "event"
    checks = {**_COMMON_CHECKS, **_OF_EVENT.get(str(entry.get("event")), {})}
    for name, is_valid in checks.items():
        if not is_valid(entry.get(name, [] if name == "notes" else None)):
            return name
    needs_throughput = entry["event"] == "attempt-ended" and entry["status"] == "ok"
    return "throughput" if needs_throughput and entry.get("throughput") is None else None
