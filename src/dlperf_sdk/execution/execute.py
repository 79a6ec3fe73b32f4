"""Run one case from its first step to its result."""

from __future__ import annotations

from dlperf_sdk.errors import StoreError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.results.result import Environment, Result


def execute(case: Case, *, environment_from: Environment | None = None, trace: bool = False) -> Result:
    """Prepare, measure and conclude a case that has begun, and return its result.

    Whatever makes the case fail is in the result's `failure`. If the store fails on the way, that is the case's
    failure, and the result with everything measured is returned without being written.

    Args:
        case: The case, as `Case.begin` returned it.
        environment_from: The environment of an earlier result, to be rebuilt from its lock; None for the case's own.
        trace: True to take an extra attempt under the framework's profiler.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All processes have ended, and the result is in the store.
        SpecError: A requested variable has only a hash as its value.
        PluginError: A plugin does not work.
        InvalidRecord: The result breaks its own schema, and was not written.
    """
    interrupted = False
    try:
        case.prepare(environment_from)
        case.measure()
        if trace:
            case.trace()
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
