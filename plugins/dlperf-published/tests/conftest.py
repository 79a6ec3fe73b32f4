"""Settings of the property tests."""

from hypothesis import settings

settings.register_profile("short", max_examples=40, deadline=None)
settings.load_profile("short")
