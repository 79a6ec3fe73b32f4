"""Context in which results differ: versions, environment variables, machines, labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import attrs

from dlperf_sdk.reports.labels import format_value
from dlperf_sdk.reports.run_context import describe_machine
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import is_hash

_NAMED_BY_CASE = ("data",)
"""Facts of the context that the name of a case has if cases differ in them."""
_SETTINGS = frozenset(attrs.fields_dict(RunSpec))


def differing_context(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return, for each result, those facts of its context that are not the same in all results of its model.

    Settings, labels and machines are compared among all results of a model. What workers report, such as versions, is
    compared among results of the same model and framework. A fact that only some results have, such as a version that
    is missing because a case failed early, counts as equal.

    Args:
        results: The results, in any order.

    Returns:
        For each result, in their order, a tuple of phrases such as `framework version 2.13.0` and `OMP_NUM_THREADS 2`;
        the tuple is empty if the result has no such fact.
    """
    contexts = [dict(_facts(result)) for result in results]
    values: dict[tuple[str, ...], set[str]] = {}
    for context in contexts:
        for key, value in context.items():
            values.setdefault(key, set()).add(value)
    return [
        tuple(
            f"{key[0]} {'(secret)' if is_hash(value) else value}".lstrip()
            for key, value in context.items()
            if len(values[key]) > 1
        )
        for context in contexts
    ]


def _facts(result: Result) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each fact of a result's context that is known.

    A fact is its text, after its name (empty for the machines) and the names of what it is compared within.
    """
    model = result.spec.model
    for fact in result.facts:
        value = fact.requested if fact.observed is None else fact.observed
        if fact.role != "context" or fact.name in _NAMED_BY_CASE or value in (None, {}):
            continue
        peers = (model,) if fact.name in _SETTINGS else (model, result.spec.framework)
        if isinstance(value, Mapping):
            for key, inner in value.items():
                yield (str(key), *peers), _text(inner)
        else:
            yield (fact.name.replace("_", " "), *peers), _text(value)
    for name, label in result.spec.labels.items():
        yield (name, model), label
    machines = dict.fromkeys(describe_machine(node) for node in result.hardware)
    if machines:
        yield ("", model), "; ".join(machines)


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | tuple) else format_value(value)
