"""The time of day, as documents and streams have it."""

from datetime import datetime, timezone


def now() -> str:
    """Return the current time: UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
