"""The hooks for observers: progress displays, trackers, notifiers, extra reports.

Observers cannot influence a run. Return values are ignored. An observer that raises is reported once with a warning
and not called again. Firing order of one run::

    dlperf_run_started                     the case is planned
        dlperf_stage                       environment, data, parity, bundle
        dlperf_repeat_started              once per repeat
            dlperf_worker_started          once per process
            dlperf_step_progress           a few times a second
        dlperf_repeat_ended                the repeat's records are on disk
    dlperf_error                           only if the case failed
    dlperf_result                          always last

An implementation names only the arguments that it needs::

    from dlperf_sdk import hookimpl

    class Notifier:
        @hookimpl
        def dlperf_result(self, result): ...

Register it in the entry-point group `dlperf_sdk.observers`, or pass it to `run(observers=[…])`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

from dlperf_sdk.errors import PluginError
from dlperf_sdk.registry.plugins import Registry

if TYPE_CHECKING:
    from dlperf_sdk.planning.plan import Plan
    from dlperf_sdk.results.records import Failure
    from dlperf_sdk.results.result import Result

PROJECT = "dlperf_sdk"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorator of a method that implements the hook of its name."""


class Hooks:
    """Specifications of the hooks. Later versions may add arguments, but never remove one."""

    @hookspec
    def dlperf_run_started(self, run_id: str, plan: Plan, directory: str | None) -> None:
        """Receive a case that is planned and not yet started.

        Does not fire for a case that was refused. In a campaign it fires again for each new attempt at the case:
        after a failure, and after a resume.

        Args:
            run_id: Identifier of the run, the same in every hook.
            plan: The planned case.
            directory: Path of the run's directory, which already holds `spec.json` and `plan.json`; None without
                a store.
        """

    @hookspec
    def dlperf_stage(self, run_id: str, stage: str, detail: str) -> None:
        """Receive a line of progress of a stage outside the repeats. Fires once per line.

        Args:
            run_id: The run. In the stage `batch-size`, it is the run of a probe.
            stage: `environment`, `data`, `parity`, `bundle`, `launch`, `queue` (the launcher waits for something)
                or `note`; `trace` after the last repeat; `batch-size` before a run that asks for the maximum
                batch size.
            detail: The line, for people.
        """

    @hookspec
    def dlperf_repeat_started(self, run_id: str, attempt: int) -> None:
        """Receive the number of a repeat that starts. Fires before the processes of the repeat are started.

        Args:
            run_id: The run.
            attempt: Number of the repeat, counted from 1.
        """

    @hookspec
    def dlperf_worker_started(self, run_id: str, attempt: int, node: int, name: str, pid: int) -> None:
        """Receive the node, name and process id of a started worker. Fires once per process and repeat.

        Args:
            run_id: The run.
            attempt: Number of the repeat, counted from 1.
            node: Index of the node, counted from 0.
            name: Name of the process: `rank-0`, `service-1`, …
            pid: Process id on the node.
        """

    @hookspec
    def dlperf_step_progress(
        self, run_id: str, attempt: int, node: int, rank: int, phase: str, step: int
    ) -> None:
        """Receive the phase and step of the first trainer of a node. Fires at most four times a second for each node.

        The worker sends nothing during the window: the agent observes it from outside.

        Args:
            run_id: The run.
            attempt: Number of the repeat, counted from 1.
            node: Index of the node, counted from 0.
            rank: Global rank of the trainer.
            phase: Current phase; `measure` is the window.
            step: Number of finished steps in the phase.
        """

    @hookspec
    def dlperf_repeat_ended(self, run_id: str, attempt: int, status: str, throughput: float | None) -> None:
        """Receive the outcome of a repeat that ended. Fires after each repeat; with a store, the repeat is on disk.

        Args:
            run_id: The run.
            attempt: Number of the repeat, counted from 1.
            status: `ok` or the kind of the failure.
            throughput: Samples per second over all devices; None if the repeat failed.
        """

    @hookspec
    def dlperf_error(self, run_id: str, failure: Failure) -> None:
        """Receive the failure of a case. Fires once for a case that failed, directly before `dlperf_result`.

        Args:
            run_id: The run.
            failure: Kind, message, phase, node and rank of the failure.
        """

    @hookspec
    def dlperf_result(self, run_id: str, result: Result) -> None:
        """Receive the complete result, also that of a failed case.

        Fires once, after all other hooks; with a working store, the result is on disk.

        Args:
            run_id: The run.
            result: The result.
        """


_HOOKS = tuple(name for name in vars(Hooks) if name.startswith("dlperf_"))


def listeners(observers: Iterable[Any] = ()) -> dict[str, pluggy.PluginManager]:
    """Return a plugin manager for each given and each installed observer: the observer's name in messages → manager.

    Each observer has its own manager: pluggy hashes and compares the objects of one manager, and an observer may be
    any object. An installed observer that cannot be used is left out, and a `RuntimeWarning` names it.

    Args:
        observers: Objects with hook implementations. They come first, in this order.

    Raises:
        PluginError: A given observer implements a hook that does not exist or takes other arguments.
    """
    managers: dict[str, pluggy.PluginManager] = {}
    for number, observer in enumerate(observers, 1):
        name = f"{type(observer).__qualname__} (observer {number})"
        managers[name] = _manager_of(observer, f"The observer {observer!r}")
    registry = Registry()
    for name in dict.fromkeys(row.name for row in registry.rows("observers")):
        try:
            observer = registry.load("observers", name)
            managers[name] = _manager_of(
                observer, f"The observer {name!r} of {registry.distribution('observers', name)}"
            )
        except PluginError as error:
            warnings.warn(f"{error} It is left out.", RuntimeWarning, stacklevel=2)
    return managers


def implemented_hooks(observer: Any, name: str) -> tuple[str, ...]:
    """Return the names of the hooks that an observer implements, in the order of `Hooks`.

    Args:
        observer: The observer, any object.
        name: Name of the observer in the message of the error.

    Raises:
        PluginError: The observer implements a hook that does not exist or takes other arguments.
    """
    caller = _manager_of(observer, f"The observer {name!r}").hook
    return tuple(hook for hook in _HOOKS if getattr(caller, hook).get_hookimpls())


def _manager_of(observer: Any, label: str) -> pluggy.PluginManager:
    plugins = pluggy.PluginManager(PROJECT)
    plugins.add_hookspecs(Hooks)
    try:
        plugins.register(observer)
        plugins.check_pending()
    except (ValueError, TypeError, pluggy.PluginValidationError) as error:
        raise PluginError(f"{label} cannot be used: {error}. The hooks are {', '.join(_HOOKS)}.") from error
    return plugins


_EVENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "attempt-started": ("dlperf_repeat_started", ("attempt",)),
    "worker-started": ("dlperf_worker_started", ("attempt", "node", "name", "pid")),
    "progress": ("dlperf_step_progress", ("attempt", "node", "rank", "phase", "step")),
}
"""An agent's event → the hook that hands it on, and the fields that it hands on."""


class Observers:
    """All observers of one run. An observer that raises is reported with a warning and not called again.

    Args:
        managers: Name of each observer in messages → its plugin manager, as `listeners` returns them.
    """

    def __init__(self, managers: Mapping[str, pluggy.PluginManager]) -> None:
        self._managers = dict(managers)

    @classmethod
    def load(cls, observers: Iterable[Any] = ()) -> Observers:
        """Return an instance with the given observers and those that are installed.

        An installed observer that cannot be used is left out, and a `RuntimeWarning` names it.

        Args:
            observers: Objects with hook implementations. They come first, in this order.

        Raises:
            PluginError: A given observer implements a hook that does not exist or takes other arguments.
        """
        return cls(listeners(observers))

    def forward(self, run_id: str, event: Mapping[str, Any]) -> None:
        """Notify the observers of an event that an agent sent. An event of a kind that has no hook is ignored.

        Args:
            run_id: Identifier of the run.
            event: The event as JSON values, with its kind under `event`.

        Raises:
            KeyError: The event lacks its kind, or a field that its hook needs.
        """
        if event["event"] in _EVENTS:
            hook, names = _EVENTS[event["event"]]
            self.notify(hook, run_id=run_id, **{name: event[name] for name in names})

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call a hook on every observer.

        An observer that raises an `Exception` is removed, and a `RuntimeWarning` names it. Nothing is raised.

        Args:
            hook: Name of the hook, one of `Hooks`.
            arguments: The hook's arguments, all by name.
        """
        for name, manager in list(self._managers.items()):
            try:
                getattr(manager.hook, hook)(**arguments)
            except Exception as error:
                del self._managers[name]
                warnings.warn(
                    f"The observer {name} failed in {hook} and is left out from now on: "
                    f"{type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
