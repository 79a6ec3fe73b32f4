"""Keep the values of secret variables out of what a node reports: failures, records, logs."""

import json
from typing import Any, Mapping

from dlperf_sdk.worker.request import Request

SHORTEST = 8
"""Characters; a shorter value is not looked for, since it would also be found where it is none."""


def secret_values(request: Request, environ: Mapping[str, str]) -> "dict[str, str]":
    """Return the secret variables of a request with their values; `environ` are the variables of this process."""
    values = {}
    for name in request.secrets:
        value = request.variables.get(name)
        value = environ.get(name) if value is None else value
        if value is not None:
            values[name] = value
    return values


def replace_values(message: Any, values: Mapping[str, str]) -> Any:
    """Return a message of JSON values with `<NAME>` in place of each secret value, the longest first.

    A value is recognized as it is, and as Python and JSON quote it. `values` maps names to values.
    """
    pairs = [
        (form, "<%s>" % name)
        for name, value in values.items()
        if len(value) >= SHORTEST
        for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}
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
