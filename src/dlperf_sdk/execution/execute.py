"""Run one case from its first step to its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dlperf_sdk.errors import StoreError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.results.result import Result


def execute(case: Case, steps: Iterable[Callable[[], None]]) -> Result:
    """Take a case that has begun through its steps, conclude it, and return its result.

    Whatever makes the case fail is in the result's `failure`. If the store fails on the way, that is the case's
    failure, and the result with everything measured is returned without being written.

    Args:
        case: The case, as `Case.begin` returned it.
        steps: The case's methods to call, in order, such as `case.prepare` and `case.measure`.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All processes have ended, and the result is in the store.
        SpecError: An environment variable of the spec has only a hash as its value.
        PluginError: A plugin does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
    """
    interrupted = False
    try:
        for step in steps:
            step()
    except KeyboardInterrupt:
        interrupted = True
    except StoreError as error:
        case.record_store_failure(error)
    try:
        result = case.conclude()
    except StoreError as error:
        case.record_store_failure(error)
        result = case.conclude(write=False)
    if interrupted:
        raise KeyboardInterrupt
    return result
