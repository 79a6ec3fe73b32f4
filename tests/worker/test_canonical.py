"""The canonical numbers: known answers, in this NumPy and an old one, and what they promise."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf_sdk.worker import canonical, schedule
from dlperf_sdk.worker.request import Request

OLD_NUMPY = "1.21.6"

PARAMETERS = [
    {"name": "conv", "shape": [64, 3, 7, 7], "init": {"kind": "normal", "std": 0.05}},
    {"name": "word", "shape": [700, 400], "init": {"kind": "truncated-normal", "std": 0.02, "bound": 2.0}},
    {"name": "gamma", "shape": [5], "init": {"kind": "constant", "value": 0.2}},
]
INPUTS = [
    {"name": "image", "shape": [3, 9, 9], "dtype": "float32", "fill": {"kind": "normal"}},
    {"name": "label", "shape": [], "dtype": "int64", "fill": {"kind": "integers", "low": 0, "high": 1000}},
    {"name": "places", "shape": [20], "dtype": "int64", "fill": {"kind": "distinct", "low": 1, "high": 127}},
    {"name": "parts", "shape": [128], "dtype": "int64", "fill": {"kind": "segments"}},
    {"name": "mask", "shape": [128], "dtype": "int64", "fill": {"kind": "constant", "value": 1}},
    {"name": "ones", "shape": [20], "dtype": "float32", "fill": {"kind": "constant", "value": 1.0}},
]
KNOWN = {
    "conv": "0f4158dcaffa33b6",
    "word": "d676a124413205ed",
    "gamma": "ce14899b62482863",
    "image": "984969a4601c123d",
    "label": "7224d36a0748ef53",
    "places": "090c0557edf21565",
    "parts": "9c26948a419c5b39",
    "mask": "8a472efbc41a4502",
    "ones": "beea08e0b2386530",
}
"""The beginning of the SHA-256 of each array's bytes: little-endian, in C order."""

DIGESTS = """
import hashlib, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("canonical", sys.argv[1])
canonical = importlib.util.module_from_spec(spec)
spec.loader.exec_module(canonical)
parameters, inputs = json.load(sys.stdin)
arrays = dict(canonical.weights(parameters, 7))
arrays.update(canonical.batch(inputs, 4, 1, 7))
print(json.dumps({
    "numpy": canonical.numpy.__version__,
    "digests": {
        name: hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]
        for name, array in arrays.items()
    },
}))
"""


def digests(python: str) -> tuple[str, dict[str, str]]:
    """NumPy's version and the arrays' digests, computed by another interpreter from the one file alone."""
    answer = subprocess.run(
        [python, "-I", "-c", DIGESTS, canonical.__file__],
        input=json.dumps([PARAMETERS, INPUTS]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    actual = json.loads(answer.stdout)
    return actual["numpy"], actual["digests"]


def python37() -> str | None:
    """A Python 3.7 where people keep them: on the PATH, in pyenv, among uv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which("python3.7"), *sorted(root.glob("versions/3.7.*/bin/python"))]
    candidates += sorted(platformdirs.user_data_path("uv").glob("python/cpython-3.7.*/bin/python3.7"))
    for candidate in filter(None, candidates):
        # A pyenv shim answers only for the version that is switched on.
        if (
            subprocess.run([candidate, "-c", ""], capture_output=True, check=False, timeout=60).returncode
            == 0
        ):
            return str(candidate)
    return None


@pytest.fixture(scope="session")
def old_python() -> str:
    """A Python 3.7 with an old NumPy, kept in the user's cache directory."""
    home = platformdirs.user_cache_path("dlperf-sdk") / "tests" / f"python3.7-numpy{OLD_NUMPY}"
    python = home / "bin" / "python"
    if python.exists():
        return str(python)
    base = python37()
    if base is None:
        pytest.skip(
            "no Python 3.7 on the PATH, in pyenv or among uv's: NumPy's old streams stay unchecked here"
        )
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        created = Path(scratch) / "environment"
        subprocess.run([base, "-m", "venv", str(created)], check=True, capture_output=True, timeout=120)
        pip = [
            str(created / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
        ]
        installed = subprocess.run(
            [*pip, "--only-binary", ":all:", f"numpy=={OLD_NUMPY}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if installed.returncode:
            reason = (installed.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(
                f"NumPy {OLD_NUMPY} cannot be installed for {base}, its streams stay unchecked: {reason}"
            )
        try:
            created.rename(home)
        except OSError:  # Another test run was faster.
            assert python.exists()
    return str(python)


def test_known_answers() -> None:
    numpy, actual = digests(sys.executable)
    assert numpy == np.__version__
    assert actual == KNOWN


def test_known_answers_in_an_old_numpy(old_python: str) -> None:
    numpy, actual = digests(old_python)
    assert numpy == OLD_NUMPY
    assert actual == KNOWN


@pytest.mark.parametrize("module", [canonical, schedule], ids=["canonical", "schedule"])
def test_syntax_of_python_3_7(module: Any) -> None:
    ast.parse(Path(module.__file__).read_text(encoding="utf-8"), feature_version=(3, 7))


@given(st.permutations(PARAMETERS), st.integers(0, 2**63))
@settings(deadline=None, max_examples=5)
def test_order_does_not_matter(shuffled: list[dict[str, Any]], seed: int) -> None:
    expected = dict(canonical.weights(PARAMETERS, seed))
    for name, array in canonical.weights(shuffled, seed):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, expected[name])
    assert len(expected) == len(PARAMETERS)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 5), st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_smaller_batch_is_the_beginning_of_a_larger(one: int, other: int, shard: int, seed: int) -> None:
    small, large = sorted((one, other))
    beginning, whole = (canonical.batch(INPUTS, size, shard, seed) for size in (small, large))
    for name, array in beginning.items():
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, whole[name][:small])


@given(st.integers(1, 3000))
@settings(deadline=None, max_examples=10)
def test_no_value_depends_on_the_chunks(size: int) -> None:
    parameters = [{**item, "shape": [1500]} for item in PARAMETERS]
    expected = dict(canonical.weights(parameters, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_CHUNK", size)
        for name, array in canonical.weights(parameters, 3):
            np.testing.assert_array_equal(array, expected[name])


def test_seed_name_and_shard_make_a_difference() -> None:
    conv = PARAMETERS[0]
    renamed = {**conv, "name": "other"}
    drawn = [array for seed in (0, 1) for _, array in canonical.weights([conv, renamed], seed)]
    drawn_sets = {array.tobytes() for array in drawn}
    assert len(drawn_sets) == 4
    batches = [canonical.batch(INPUTS, 2, shard, seed) for shard in (0, 1) for seed in (0, 1)]
    for name in ("image", "places"):
        assert len({batch[name].tobytes() for batch in batches}) == 4


def test_distributions() -> None:
    arrays = dict(canonical.weights(PARAMETERS, 0))
    assert abs(arrays["conv"].mean()) < 0.002
    assert arrays["conv"].std() == pytest.approx(0.05, rel=0.02)
    assert np.abs(arrays["word"]).max() <= np.float32(0.04)
    # The deviation of a normal distribution that is cut off at two deviations.
    assert arrays["word"].std() == pytest.approx(0.02 * 0.87962566, rel=0.005)
    places = canonical.batch([INPUTS[2]], 5000, 0, 0)["places"]
    counts = np.bincount(places.reshape(-1), minlength=128)
    assert counts[0] == counts[127] == 0
    # Each of the 126 places is chosen with probability 20/126: 794 times of 5000, give or take 26.
    assert np.abs(counts[1:127] - 5000 * 20 / 126).max() < 5 * 26


@pytest.mark.parametrize(("program", "shards"), [("measure", [0, 1, 2, 3]), ("parity", [0, 1, 0, 1])])
def test_a_replica_has_a_shard_of_its_own_but_in_a_parity_run(program: str, shards: list[int]) -> None:
    request = Request(*[None] * len(Request._fields))  # type: ignore[arg-type]
    request = request._replace(inputs=INPUTS, batch_size=2, seed=5, program=program)
    for replica, shard in enumerate(shards):
        actual, wanted = canonical.batch_of(request, replica), canonical.batch(INPUTS, 2, shard, 5)
        assert all(np.array_equal(actual[name], wanted[name]) for name in wanted)


def test_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="conv asks for an unknown kind of init: 'xavier'"):
        list(canonical.weights([{**PARAMETERS[0], "init": {"kind": "xavier"}}], 0))
    with pytest.raises(ValueError, match="unknown kind of fill: 'zipf'"):
        canonical.batch([{**INPUTS[0], "fill": {"kind": "zipf"}}], 1, 0, 0)
