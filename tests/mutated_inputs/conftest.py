"""Let the kinds of inputs take samples of other tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "plugins/dlperf-published/tests")]
