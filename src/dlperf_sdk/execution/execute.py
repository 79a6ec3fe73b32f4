"""One case in one go, from the first step to its result."""

from __future__ import annotations

from dlperf_sdk.errors import StoreError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.results.result import Environment, Result


def execute(case: Case, *, environment_from: Environment | None = None, trace: bool = False) -> Result:
    """Prepare, measure and conclude a case that has begun.

    A store that fails on the way is the case's failure: what was measured is returned all the same.

    Args:
        case: The case, as `Case.begin` returned it.
        environment_from: The environment of an earlier result, to be rebuilt from its lock.
        trace: Take an extra attempt under the framework's profiler.

    Raises:
        KeyboardInterrupt: as it was; all processes have ended, and the result is in the store.
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
