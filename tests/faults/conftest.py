"""The score of the planted faults, printed at the end of the test run."""

import pytest

CAUGHT = set()


@pytest.fixture
def score():
    """The faults that have been caught so far."""
    return CAUGHT


def pytest_terminal_summary(terminalreporter):
    if CAUGHT:
        terminalreporter.write_line(f"planted faults caught: {len(CAUGHT)}")
