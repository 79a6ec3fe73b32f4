"""Results of dlperf-sdk in experiment trackers: `send`, and `TrackerObserver` for runs.

from dlperf_trackers import send

send(result, "mlflow")
"""

from dlperf_trackers.observer import TrackerObserver
from dlperf_trackers.sending import TrackerFailed, send

__all__ = ["TrackerFailed", "TrackerObserver", "send"]
