"""Remove the values of secret variables from what a node reports: failures, records, logs."""

import json
from typing import Any, Iterable, Mapping, Set, Tuple

from dlperf_sdk.worker.request import Request

SHORTEST = 8
"""Minimum number of characters of a value that is replaced: a shorter one would also occur by chance."""


def secret_values(request: Request, environ: Mapping[str, str]) -> "dict[str, str]":
    """Return the values of the request's secret variables by name; variables without a value are left out.

    Args:
        request: The case, whose `variables` are read first.
        environ: Variables of this process, which give the values that the request lacks.

    Returns:
        Name → value; empty if no secret variable has a value.
    """
    values = {}
    for name in request.secrets:
        value = request.variables.get(name)
        value = environ.get(name) if value is None else value
        if value is not None:
            values[name] = value
    return values


def replace_values(message: Any, values: Iterable[Tuple[str, str]]) -> Any:
    """Return a message of JSON values with `<NAME>` in place of each secret value, in keys as well.

    A value is also replaced as Python's `repr` or JSON escapes it, and with U+FFFD in place of bytes that are no UTF-8,
    as in a log. Each line of a value is replaced, too. Longer texts are replaced before shorter ones; values and lines
    of fewer than `SHORTEST` (8) characters are kept.

    Args:
        message: The message, which is not changed: a text, a number, a truth value, None, or lists and dicts of these.
        values: Pairs (name, secret value). Several pairs may have the same name.

    Returns:
        A copy of the message; or `message` itself if no value is long enough to be replaced.
    """
    pairs = [
        (form, "<%s>" % name)
        for name, value in values
        if len(value) >= SHORTEST
        for form in _printed_forms(value)
    ]
    pairs.sort(key=lambda pair: len(pair[0]), reverse=True)

    def replaced(part: Any) -> Any:
        if isinstance(part, str):
            for value, name in pairs:
                part = part.replace(value, name)
            return part
        if isinstance(part, list):
            return [replaced(item) for item in part]
        if isinstance(part, dict):
            return {replaced(key): replaced(item) for key, item in part.items()}
        return part

    return replaced(message) if pairs else message


def longest_form(values: Mapping[str, str]) -> int:
    """Return the length, in bytes of UTF-8, of the longest form in which one of the values may be printed.

    The forms are those that `replace_values` looks for. The length is 0 without values.

    Args:
        values: Secret values by name.
    """
    forms = [form for value in values.values() for form in _printed_forms(value)]
    return max((len(form.encode("utf-8", "surrogateescape")) for form in forms), default=0)


def _printed_forms(value: str) -> Set[str]:
    """Return the forms in which a worker may print a value, including the value itself and its lines."""
    forms = _forms_of_text(value)
    for line in value.splitlines():
        if len(line) >= SHORTEST:
            forms |= _forms_of_text(line)
    return forms


def _forms_of_text(value: str) -> Set[str]:
    content = value.encode("utf-8", "surrogateescape")
    return {
        value,
        content.decode("utf-8", "replace"),  # a byte that is no UTF-8, in a log
        repr(value)[1:-1],
        repr(content)[2:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
