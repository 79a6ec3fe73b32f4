"""The time of day, as documents and streams have it."""

from datetime import datetime, timezone


def now() -> str:
    """Return the current time: UTC, ISO 8601, to the second, such as `2025-01-31T12:00:00+00:00`."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
