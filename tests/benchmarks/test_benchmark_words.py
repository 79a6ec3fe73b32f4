"""What the benchmarks say of a ratio (which side is faster, by how much, can that be told), and which are run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
PATH = ROOT / "benchmarks" / "paired.py"
SPEC = importlib.util.spec_from_file_location("paired", PATH)
assert SPEC is not None and SPEC.loader is not None
paired = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(paired)


@pytest.mark.parametrize(
    ("median", "interval", "output"),
    [
        (1.042, (1.006, 1.113), "ours is 4.2 % faster than theirs (95 %: 0.6 to 11.3 % faster)"),
        (0.96, (0.94, 0.97), "ours is 4.0 % slower than theirs (95 %: 3.0 to 6.0 % slower)"),
        (
            1.01,
            (0.9, 1.03),
            "ours is 1.0 % faster than theirs (95 %: 10.0 % slower to 3.0 % faster): these pairs do not tell them "
            "apart",
        ),
    ],
)
def test_sentence_states_the_direction(median, interval, output):
    assert paired.in_words({"median": median, "interval": list(interval)}) == output


def test_theirs_taking_longer_is_ours_being_faster():
    """The ratio is the time of `a`, theirs, over that of `b`, ours."""
    slow, fast = paired.Spent(2.0, 2.0), paired.Spent(1.0, 1.0)
    row = paired.summary(paired.Comparison("x", lambda: slow, lambda: fast), [(slow, fast)] * 6)
    assert paired.in_words(row["ratio"]).startswith("ours is 100.0 % faster")


@given(st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3).map(sorted))
def test_apart_means_that_one_is_outside(limits):
    low, median, high = limits
    output = paired.in_words({"median": median, "interval": [low, high]})
    assert output.endswith("apart") == (low <= 1 <= high)
    if low > 1:
        assert "slower" not in output
    if high < 1:
        assert "faster" not in output


def test_make_bench_runs_all_but_those_of_other_frameworks():
    listed = re.findall(
        r"^\| \[(\w+\.py)\]", (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8"), re.M
    )
    recipe = re.search(r"^bench:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert recipe is not None
    run = re.findall(r"benchmarks/(\w+\.py)", recipe[1])
    others = [f"reference_{name}.py" for name in ("mxnet", "oneflow", "paddle", "tensorflow")]
    assert sorted([*run, *others]) == sorted(listed)
