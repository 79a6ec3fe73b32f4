"""The score of the planted faults, printed at the end of the test run."""

import faults
import pytest

TRIED, CAUGHT = [], set()


@pytest.fixture
def score(request):
    """The faults that have been caught so far; a test that asks for it tries one."""
    TRIED.append(request.node.name)
    return CAUGHT


def pytest_terminal_summary(terminalreporter):
    if TRIED:
        terminalreporter.write_line(
            f"planted faults: {len(CAUGHT)} caught of {len(TRIED)} tried ({len(faults.ALL)} in docs/faults.md)"
        )
