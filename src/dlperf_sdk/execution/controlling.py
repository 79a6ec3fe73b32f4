"""The controller: the one process of a job that runs cases, where a launcher lives inside of a job of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlperf_sdk.errors import DlperfError
from dlperf_sdk.registry.options import options_of
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

_INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@contextmanager
def controlling(specs: Sequence[RunSpec], registry: Registry) -> Iterator[Callable[[int], None]]:
    """Return a context manager in whose block this process is the controller of the given cases.

    If a launcher runs inside of a job of several processes, each process enters the context manager. Its block is
    executed only in the controller. The other processes serve the controller on entry until it has ended, and then
    raise a `SystemExit`.

    Its value is a function that sets the exit code (0 to 255) of the job's other processes. If an exception leaves the
    block, the other processes get the exit code of the exception.

    Args:
        specs: The cases.
        registry: The plugins.

    Raises:
        SystemExit: This process is not the controller, which has ended; with the controller's exit code.
        UsageError: The job does not fit the cases, or its processes cannot find each other.
        LostNode: This process is not the controller, which was not found or was lost.
        UnknownName: There is no launcher of a given name.
        SpecError: An option of a launcher has an impossible value.
        PluginError: A launcher does not work.
    """
    launchers = {spec.topology.launcher: registry.topology(spec.topology.launcher) for spec in specs}
    for name, launcher in launchers.items():
        cases = [spec for spec in specs if spec.topology.launcher == name]
        launcher.join_job(cases, options_of(launcher, cases[0]))

    def set_exit_code(code: int) -> None:
        for launcher in launchers.values():
            launcher.set_exit_code(code)

    try:
        yield set_exit_code
    except BaseException as error:
        is_interrupted = isinstance(error, KeyboardInterrupt)
        known = error.exit_code if isinstance(error, DlperfError) else DlperfError.exit_code
        set_exit_code(_INTERRUPTED if is_interrupted else known)
        raise
