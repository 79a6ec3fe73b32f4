"""A limit on memory that is too low to start with is what ended the case, and the failure says so."""

from __future__ import annotations

import pytest

from dlperf_sdk import ResultStore, RunSpec, run
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker import failures, memory, trainer

SMALL = {"batch_size": 4, "canonical_steps": 2, "warmup": 1, "steps": 4, "repeats": 1}
MEBI = 2**20


@pytest.mark.parametrize("limit", [1000, 4 * MEBI, 16 * MEBI])
def test_a_limit_too_low_to_start_is_named(limit, tmp_path):
    """NumPy needs more; Python itself, or the library that NumPy loads, finds none, and each says so in its way."""
    result = run("numpy", "linear", memory_limit=limit, store=ResultStore(tmp_path), **SMALL)
    assert result.status == "out-of-memory"
    assert result.failure is not None
    assert f"{limit} bytes" in result.failure.message and "memory_limit" in result.failure.message


def exit_with(**changes):
    known = {
        "node": 0,
        "role": "trainer",
        "rank": 0,
        "pid": 1,
        "code": None,
        "signal": None,
        "phase": "start",
    }
    return {**known, **changes}


def told(exit, limit, log):
    return failures.explain_worker_failure("rank-0", exit, None, "left no record", None, False, limit, log)


@pytest.mark.parametrize(
    "log",
    [
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.\n",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
        "libfoo.so.1: cannot allocate memory for thread-local data: ABORT\n",
        "RuntimeError: can't start new thread\n",
    ],
)
@pytest.mark.parametrize("how", [{"code": 1}, {"signal": "SIGABRT"}])
def test_library_message_about_memory_counts_under_a_limit_only(log, how, monkeypatch):
    actual = told(exit_with(**how), 5 * MEBI, log)
    assert actual["kind"] == "out-of-memory"
    assert repr(log.splitlines()[-1]) in actual["message"]
    assert told(exit_with(**how), None, log)["kind"] == "crashed"
    assert "memory_limit" not in told(exit_with(**how), None, log)["message"]
    monkeypatch.setattr(memory, "address_space_limit", lambda: MEBI)
    actual = told(exit_with(**how), None, log)
    assert actual["kind"] == "out-of-memory"
    assert "`ulimit -v` limits its address space" in actual["message"]


@pytest.mark.parametrize("how", [{"code": 1}, {"signal": "SIGSEGV"}])
def test_death_without_a_memory_message_names_the_limit_as_possible_cause(how):
    actual = told(exit_with(**how), 5 * MEBI, "something else\n")
    assert actual["kind"] == "crashed"
    assert f"memory_limit lets it allocate {5 * MEBI} bytes, which may be too few" in actual["message"]


def a_request(**env):
    plan = make_plan(RunSpec(framework="numpy", model="linear", env=env), Registry())
    return plan.request("run", ("python",), {}, {"source": "synthetic"})


def test_an_exception_for_lack_of_address_space_names_ulimit_v(monkeypatch):
    error, request = ImportError("libx.so: failed to map segment from shared object"), a_request()
    assert trainer._failure(error, "start", None, request)["kind"] == "crashed"
    monkeypatch.setattr(memory, "address_space_limit", lambda: MEBI)
    actual = trainer._failure(error, "start", None, request)
    assert actual["kind"] == "out-of-memory"
    assert "`ulimit -v` leaves it 1024 KiB" in actual["message"]


@pytest.mark.parametrize("room", [3, 10, 16])
def test_a_cut_message_keeps_no_part_of_a_secret(monkeypatch, room):
    secret = "s3cret-0123456789-end"
    monkeypatch.setenv("MY_TOKEN", secret)
    request = a_request(MY_TOKEN=None)
    assert request.secrets == ["MY_TOKEN"]
    try:
        raise ValueError("x" * (4000 - room) + secret + "y" * (16000 - room - len("\n")))
    except ValueError as error:
        actual = trainer._failure(error, "start", None, request)
    assert "s3c" not in actual["message"]
    assert "end" not in actual["traceback"][:40]


def test_words_of_memory():
    assert memory.reports_out_of_memory("OSError: [Errno 12] Cannot allocate memory")
    assert memory.reports_out_of_memory("terminate called: what():  Error: allocate failed")
    assert not memory.reports_out_of_memory("ValueError: the allocation of seats was wrong; no such file")
