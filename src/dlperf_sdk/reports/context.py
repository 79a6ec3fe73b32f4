"""Context in which results differ: versions, environment variables, machines, labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from dlperf_sdk.reports.labels import format_value
from dlperf_sdk.reports.run_context import describe_machine
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.secret_values import is_hash

_NAMED_BY_CASE = ("data",)
"""Facts of the context that the name of a case has if cases differ in them."""


def differing_context(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return for each result the facts of its context in which results of its framework differ.

    Results of different frameworks are not compared: each framework has its own versions. A fact that a result does not
    have, such as a version in a case that failed early, is no difference.

    Args:
        results: The results, in any order.

    Returns:
        For each result, in their order, phrases such as `framework version 2.13.0` and `OMP_NUM_THREADS 2`.
    """
    contexts = [dict(_facts(result)) for result in results]
    values: dict[tuple[str, str], set[str]] = {}
    for result, context in zip(results, contexts, strict=True):
        for name, value in context.items():
            values.setdefault((result.spec.framework, name), set()).add(value)
    return [
        tuple(
            f"{name} {'(secret)' if is_hash(value) else value}".lstrip()
            for name, value in context.items()
            if len(values[result.spec.framework, name]) > 1
        )
        for result, context in zip(results, contexts, strict=True)
    ]


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact of a result's context that is known; an empty name for its machines."""
    for fact in result.facts:
        value = fact.requested if fact.observed is None else fact.observed
        if fact.role != "context" or fact.name in _NAMED_BY_CASE or value in (None, {}):
            continue
        if isinstance(value, Mapping):
            for key, inner in value.items():
                yield str(key), _text(inner)
        else:
            yield fact.name.replace("_", " "), _text(value)
    yield from result.spec.labels.items()
    machines = dict.fromkeys(describe_machine(node) for node in result.hardware)
    if machines:
        yield "", "; ".join(machines)


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | tuple) else format_value(value)
