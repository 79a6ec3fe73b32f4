"""The observer that sends the result of each run to trackers."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable

from dlperf_sdk import Result
from dlperf_sdk.errors import DlperfError, UsageError
from dlperf_sdk.hookspecs import hookimpl
from dlperf_trackers.sending import TIMEOUT, TrackerTimedOut, send
from dlperf_trackers.trackers import Destination, parse_destination

VARIABLE = "DLPERF_TRACKERS"
REDACT_VARIABLE = "DLPERF_TRACKERS_REDACT"
TIMEOUT_VARIABLE = "DLPERF_TRACKERS_TIMEOUT"


class TrackerObserver:
    """An observer of runs that sends each result to trackers when the run has ended.

    The observer that dlperf creates from the installed plugin takes its trackers from the environment variable
    `DLPERF_TRACKERS`, such as `mlflow,prometheus:DIR`. Without the variable, nothing is sent. If a tracker fails, a
    `RuntimeWarning` is issued; if it exceeds the time limit, it is not used again. The result of a run that was
    interrupted is not sent.

    Args:
        trackers: Trackers such as `mlflow` or `prometheus:DIR`. None: those of `DLPERF_TRACKERS`; for each of these
            that cannot be used, a `RuntimeWarning` is issued, and no error is raised.

    Raises:
        UsageError: A tracker in `trackers` is unknown, lacks the `:DIR` that it needs, has a `:DIR` that it does not
            take, or its library is not installed.
    """

    def __init__(self, trackers: Iterable[str] | None = None) -> None:
        self.destinations: list[Destination] = []
        self.directory: str | None = None
        if trackers is not None:
            self.destinations = [parse_destination(text) for text in trackers]
            return
        for text in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
            try:
                self.destinations.append(parse_destination(text))
            except UsageError as error:
                warnings.warn(f"{VARIABLE}: {error} Nothing is sent there.", RuntimeWarning, stacklevel=2)

    @hookimpl
    def dlperf_run_started(self, directory: str | None) -> None:
        """Note `directory`, that of the run, for later messages; it is None if the run has no directory."""
        self.directory = directory

    @hookimpl
    def dlperf_result(self, result: Result) -> None:
        """Send the result to each tracker, one after the other, unless the run was interrupted.

        If a tracker fails, a `RuntimeWarning` is issued, and the other trackers still get the result. A tracker that
        exceeds the time limit gets no later results. If the environment variable `DLPERF_TRACKERS_REDACT` is set, and
        is neither empty nor `0`, the names of hosts and users are left out.
        """
        for destination in tuple(self.destinations):
            if result.status != "interrupted":
                self._send(result, destination)

    def _send(self, result: Result, destination: Destination) -> None:
        is_redacted = os.environ.get(REDACT_VARIABLE, "") not in ("", "0")
        try:
            send(result, destination, redact=is_redacted, timeout=_timeout())
        except (DlperfError, OSError) as error:
            advice = f" `dlperf-track {destination} {self.directory}` sends it." if self.directory else ""
            if isinstance(error, TrackerTimedOut):
                self.destinations.remove(destination)
                advice += f" Later results are not sent there; {TIMEOUT_VARIABLE} sets the time limit."
            message = f"The result {result.id} was not sent: {error}{advice}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _timeout() -> float:
    try:
        timeout = float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT))
    except ValueError:
        return TIMEOUT
    return timeout if math.isfinite(timeout) and timeout > 0 else TIMEOUT
