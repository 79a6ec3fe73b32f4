"""The hooks for observers: progress displays, trackers, notifiers, extra reports.

Observers cannot influence a run: return values are ignored, and an observer that raises is reported once and then left
out. Firing order of one run::

    dlperf_run_started                     planned; in a campaign also when it is begun again
        dlperf_stage                       planning is done; environment, data, parity, bundle
        dlperf_repeat_started              once per repeat
            dlperf_worker_started          once per process
            dlperf_step_progress           a few times a second
        dlperf_repeat_ended                its records are on disk
    dlperf_error                           only if the case failed
    dlperf_result                          always last

An implementation names only the arguments that it wants::

    from dlperf_sdk import hookimpl

    class Notifier:
        @hookimpl
        def dlperf_result(self, result): ...

Register it in the entry-point group `dlperf_sdk.observers`, or pass it to `run(observers=[…])`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from dlperf_sdk.errors import PluginError
from dlperf_sdk.registry.plugins import distribution

if TYPE_CHECKING:
    from dlperf_sdk.planning.plan import Plan
    from dlperf_sdk.results.records import Failure
    from dlperf_sdk.results.result import Result

PROJECT = "dlperf_sdk"
OBSERVERS = "dlperf_sdk.observers"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorator of a method that implements the hook of its name."""


class Hooks:
    """The specifications; arguments may be added, never taken away."""

    @hookspec
    def dlperf_run_started(self, run_id: str, plan: Plan, directory: str | None) -> None:
        """Handle a case that is planned and about to be prepared; nothing has started.

        Never fires for a refused case.

        In a campaign it fires again whenever a case begins again: after a failed attempt, and after a resume.
        `directory` is the run's directory, which holds `spec.json` and `plan.json` by now; None without a store.
        """

    @hookspec
    def dlperf_stage(self, run_id: str, stage: str, detail: str) -> None:
        """Handle the progress of a stage outside the repeats.

        `stage` is environment, data, parity, bundle, launch, queue (what a launcher waits for) or note, and trace
        after the last repeat; batch-size, with the `run_id` of a probe, before a run that asks for the largest.

        Fires once per line of progress; `detail` is that line, for people.
        """

    @hookspec
    def dlperf_repeat_started(self, run_id: str, attempt: int) -> None:
        """Handle the start of a repeat of the run; `attempt` counts from 1.

        Fires before each repeat, when its new processes are about to be started.
        """

    @hookspec
    def dlperf_worker_started(self, run_id: str, attempt: int, node: int, name: str, pid: int) -> None:
        """Handle the start of a worker process.

        Fires once per process and repeat; `node` counts from 0, `name` is `rank-0`, `service-1`, …, and `pid` is the
        process id on its node.
        """

    @hookspec
    def dlperf_step_progress(
        self, run_id: str, attempt: int, node: int, rank: int, phase: str, step: int
    ) -> None:
        """Handle progress of the first trainer of a node. Fires at most four times a second and node.

        The `phase` `measure` is the window, and `step` the finished steps of the phase. The worker sends nothing during
        the window: the agent observes it from outside.
        """

    @hookspec
    def dlperf_repeat_ended(self, run_id: str, attempt: int, status: str, throughput: float | None) -> None:
        """Handle the end of a repeat; `throughput` is in samples/s, None if it failed.

        `status` is `ok` or the kind of the failure. Fires after each repeat; with a store, the repeat is on disk.
        """

    @hookspec
    def dlperf_error(self, run_id: str, failure: Failure) -> None:
        """Handle the failure of the case. Fires once, before `dlperf_result`."""

    @hookspec
    def dlperf_result(self, run_id: str, result: Result) -> None:
        """Handle the complete result; with a working store, it is on disk. Fires once, last, for failed cases too."""


def listeners(observers: Iterable[Any] = ()) -> dict[str, pluggy.PluginManager]:
    """Return the given and the installed observers, under their names in messages.

    Each has a plugin manager of its own: pluggy hashes and compares what one manager holds, and an observer may be any
    object.

    Raises:
        PluginError: an installed observer cannot be imported, or one implements a hook that does not exist.
    """
    managers: dict[str, pluggy.PluginManager] = {}
    for number, observer in enumerate(observers, 1):
        name = f"{type(observer).__qualname__} (observer {number})"
        managers[name] = _manager_of(observer, f"The observer {observer!r}")
    for entry in entry_points(group=OBSERVERS):
        name = f"{entry.name} ({entry.value})"
        if name not in managers:  # an editable installation and its wheel may both be found
            label = f"The observer {entry.name!r} of {distribution(entry)} ({entry.value})"
            managers[name] = _manager_of(_load_observer(entry, label), label)
    return managers


def _load_observer(entry: EntryPoint, label: str) -> Any:
    try:
        loaded = entry.load()
        return loaded() if isinstance(loaded, type) else loaded
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{label} cannot be loaded: {type(error).__name__}: {error}. Reinstall or uninstall that distribution."
        ) from error


def _manager_of(observer: Any, label: str) -> pluggy.PluginManager:
    plugins = pluggy.PluginManager(PROJECT)
    plugins.add_hookspecs(Hooks)
    try:
        plugins.register(observer)
        plugins.check_pending()
    except (ValueError, TypeError, pluggy.PluginValidationError) as error:
        known = ", ".join(name for name in vars(Hooks) if name.startswith("dlperf_"))
        raise PluginError(f"{label} cannot be used: {error}. The hooks are {known}.") from error
    return plugins


_EVENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "attempt-started": ("dlperf_repeat_started", ("attempt",)),
    "worker-started": ("dlperf_worker_started", ("attempt", "node", "name", "pid")),
    "progress": ("dlperf_step_progress", ("attempt", "node", "rank", "phase", "step")),
}
"""An agent's event → the hook that hands it on, and the fields that it hands on."""


class Observers:
    """All observers of one run. One that raises is reported and then left out: it cannot harm the run."""

    def __init__(self, managers: Mapping[str, pluggy.PluginManager]) -> None:
        self._managers = dict(managers)

    @classmethod
    def load(cls, observers: Iterable[Any] = ()) -> Observers:
        """Return the given observers and the installed ones.

        Raises:
            PluginError: one of them cannot be used.
        """
        return cls(listeners(observers))

    def forward(self, run_id: str, event: Mapping[str, Any]) -> None:
        """Notify the hook of an agent's event, if there is one for its kind.

        Raises:
            KeyError: the event lacks a field.
        """
        if event["event"] in _EVENTS:
            hook, names = _EVENTS[event["event"]]
            self.notify(hook, run_id=run_id, **{name: event[name] for name in names})

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call a hook on every observer with these arguments."""
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
