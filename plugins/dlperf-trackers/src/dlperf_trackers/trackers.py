"""The trackers, each declared once, and their names as users type them: `mlflow`, `prometheus:DIR`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from attrs import frozen

from dlperf_sdk.errors import UnknownName, UsageError


@frozen
class Tracker:
    """Declaration of a tracker.

    This package has a module with the tracker's name. The module's function `write` takes a `TrackedRun` and, if
    `needs_directory` is set, a directory. It returns a text that tells the user where the run is.
    """

    name: str
    """Name of the tracker, of its module in this package, and of the extra of this distribution."""
    library: str
    """Module of its library."""
    needs_directory: bool
    """True if the user names the directory that it writes to; False if the library has its own settings."""
    settings: str
    """Description of the settings, for messages and `dlperf-track --help`."""


TRACKERS = {
    tracker.name: tracker
    for tracker in (
        Tracker("mlflow", "mlflow", False, "MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME"),
        Tracker("prometheus", "prometheus_client", True, "prometheus:DIR"),
        Tracker("tensorboard", "tensorboard", True, "tensorboard:DIR"),
        Tracker("wandb", "wandb", False, "WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY"),
    )
}


@frozen
class Destination:
    """A tracker, and the directory that it writes to if it needs one."""

    tracker: Tracker
    directory: str

    def __str__(self) -> str:
        return f"{self.tracker.name}:{self.directory}" if self.directory else self.tracker.name


def parse_destination(text: str) -> Destination:
    """Return the destination that a text names, such as `mlflow` or `prometheus:DIR`; nothing is imported.

    Raises:
        UnknownName: There is no such tracker.
        UsageError: The text lacks a directory that the tracker needs, or has one that the tracker does not take; or the
            tracker's library is not installed.
    """
    name, _, directory = text.strip().partition(":")
    if name not in TRACKERS:
        raise UnknownName("tracker", name, TRACKERS)
    tracker = TRACKERS[name]
    if tracker.needs_directory and not directory:
        raise UsageError(f"{name} needs the directory that it writes to: {tracker.settings}.")
    if directory and not tracker.needs_directory:
        raise UsageError(f"{name} takes no value after its name. It reads {tracker.settings}.")
    spec = importlib.util.find_spec(tracker.library)
    if spec is None or spec.origin is None:  # a directory `wandb`, as W&B makes, is no library
        raise UsageError(
            f"{name} needs the library {tracker.library}, which is not installed: "
            f"`pip install 'dlperf-trackers[{name}]'` adds it to this environment."
        )
    return Destination(tracker, directory)


def import_library(module: str) -> Any:
    """Import a module of a tracker's library, and return it; `module` is its name, such as `mlflow.entities`.

    The return type is Any, because this distribution does not depend on the trackers' libraries.

    Raises:
        ImportError: The module cannot be imported.
    """
    return importlib.import_module(module)
