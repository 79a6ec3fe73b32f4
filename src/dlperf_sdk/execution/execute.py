"""Run one case from its first step to its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dlperf_sdk.errors import StoreError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.results.result import Result


def execute(case: Case, steps: Iterable[Callable[[], None]]) -> Result:
    """Call the given steps of a case in order, conclude the case, and return its result.

    A failure of the case is not raised: it is in the result's `failure`. If the store fails during a step, this is the
    failure. If the store cannot write the result, the result is returned with everything measured, but not written.

    Args:
        case: The case, as `Case.begin` returned it.
        steps: The case's methods to call, in order, such as `case.prepare` and `case.measure`.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. All processes have ended, and the result is in the store.
        SpecError: An environment variable of the spec has only a hash as its value. The case is not concluded.
        DocumentError: The lock of an earlier environment, to be rebuilt, is malformed. The case is not concluded.
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
