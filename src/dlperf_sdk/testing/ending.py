"""Test the end of a case: success or a typed failure, and nothing left behind."""

from __future__ import annotations

import os
import signal
import uuid
from itertools import product
from typing import Any

import pytest

from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import device_of
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.leftovers import MARK, check_leftovers, list_live_processes
from dlperf_sdk.testing.starts import start
from dlperf_sdk.testing.subject import describe
from dlperf_sdk.testing.training import Training
from dlperf_sdk.worker import memory

STARVING = 120.0
"""Deadline in seconds of each phase of a run that is to run out of memory."""
LARGER = (64, 512, 4096)
"""Factors of the batch size to try in turn until a step runs out of memory.

The first factors are small: where a single tensor takes all memory, TensorFlow cannot report the error and ends with
SIGSEGV.
"""


class Ending(Training):
    """Tests of memory errors, of leftovers after a run, and of the failure of a killed worker.

    Each test is skipped where its case cannot run: see `FrameworkSubject`.
    """

    def test_out_of_memory_is_distinguished_from_other_errors(self, model: str) -> None:
        """The runtime's `is_out_of_memory` is true for MemoryError, and false for three other errors of the suite.

        It is called in a worker that trains the model named `model` in fp32 on one device without a compiler.
        """
        answers = self._answer(model)["out_of_memory"]
        misjudged = [
            f"{answer} of {error}"
            for error, answer in answers.items()
            if answer != (error == "MemoryError()")
        ]
        assert answers and not misjudged, advice(
            f"`is_out_of_memory` returns {', '.join(misjudged)}.",
            "out of memory is a result (this batch size does not fit); a bug is not",
            "look for the framework's own exception, or the words it uses, and hand the rest to super()",
        )

    def test_own_out_of_memory_error_is_recognized(self) -> None:
        """A step for which there is too little memory ends with a failure of the kind `out-of-memory`.

        The memory of the worker is limited, and three batch sizes are tried in ascending order. If the framework ends
        the process instead, the log must contain a phrase for a lack of memory that the core knows. Skipped on devices
        other than a CPU, since their memory cannot be limited, and if even the largest batch fits.
        """
        device = device_of(self.device, self.plugin)
        if device != "cpu":
            pytest.skip(f"on {device} the memory of a step cannot be limited")
        for times in LARGER:
            spec = self.select_accepted_spec(batch_size=times * self.batch_size)
            outcome = start(spec, self.registry, "exhaust", STARVING)
            failure = outcome.failure
            self.skip_if_unfinished(failure)
            if failure is None:
                continue  # there was room
            died = (
                failure.kind == "crashed"
                and failure.traceback is None
                and memory.reports_out_of_memory(outcome.log)
            )
            assert died or failure.kind == "out-of-memory", advice(
                f"{describe(spec)}: a step found no memory, and `is_out_of_memory` did not know what came of it: "
                f"{failure.type or failure.kind}: {failure.message}",
                "the search for the largest batch size and campaigns distinguish out of memory from other failures",
                "look for this exception, or these words, in `Runtime.is_out_of_memory`; where the framework ends the "
                "process without a word, or never returns, say so in `known_gaps`",
            )
            return
        pytest.skip(f"steps of {spec.batch_size} samples find room in what little memory is left to them")

    def test_no_files_or_processes_are_left(self) -> None:
        """A valid run of two replicas leaves no process, no file in TMPDIR, and no shared memory behind.

        The strategy is one that keeps replicas equal, or else `independent`. Data sources have their own test,
        `test_trains_from_data_source`.
        """
        supported = sorted(self.plugin.capabilities.strategies)
        equal = [name for name in supported if STRATEGIES[name].keeps_replicas_equal]
        pair = {"topology": "1n2d", "strategy": (equal or [INDEPENDENT])[0]}
        check_leftovers(lambda env: self.require_valid_result(self.select_accepted_spec(env=env, **pair)))

    def test_killed_rank_is_a_typed_failure(self) -> None:
        """If rank 1 is killed in the window, the run's failure has the kind `crashed` and rank 1; no process is left.

        The two replicas are on one node or on two, in two processes, with a strategy that is not asynchronous. Skipped
        if the plugin accepts no such case.
        """
        mark = uuid.uuid4().hex
        spec = self._two_process_case(env={MARK: mark}, steps=100_000)
        result = self.run_case(spec, [_Killer()])
        failure = result.failure
        self.skip_if_unfinished(failure)
        assert failure is not None and (failure.kind, failure.rank) == ("crashed", 1), advice(
            f"Rank 1 was killed in the window, and the result is {result.status}: {failure}.",
            "on a cluster this is how nodes die; a campaign must know which, and go on",
            "do not catch the errors of collectives, do not exit with code 0, write nothing over the record",
        )
        assert not list_live_processes(mark), advice(
            f"After the failure these processes are still there: {list_live_processes(mark)}.",
            "they hold devices and ports that the next case needs",
            "start helpers in the worker's own session, so that they are ended with it",
        )

    def _two_process_case(self, **fields: Any) -> RunSpec:
        """Return a case with a rank 1: one process may own all devices of a node, which requires two nodes."""
        supported = [STRATEGIES[name] for name in sorted(self.plugin.capabilities.strategies)]
        # Those that synchronize first: the others must notice that one is gone.
        waiting = sorted(
            (strategy for strategy in supported if not strategy.is_asynchronous),
            key=lambda strategy: not strategy.syncs_gradients,
        )
        strategies = [strategy.name for strategy in waiting]
        for strategy, topology, model in product(strategies, ("1n2d", "2n1d"), self.models_to_test()):
            spec = self.spec(model, topology=topology, strategy=strategy, **fields)
            if self.refusal(spec) is None:
                processes = make_plan(spec, self.registry).placeholder_processes()
                if any(process.rank == 1 for process in processes):
                    return spec
        pytest.skip("no strategy gives two processes that could lose one of them")


class _Killer:
    """Kills rank 1 as soon as somebody is in the window."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}

    @hookimpl
    def dlperf_worker_started(self, name: str, pid: int) -> None:
        self.pids[name] = pid

    @hookimpl
    def dlperf_step_progress(self, phase: str) -> None:
        if phase == "measure" and "rank-1" in self.pids:
            os.kill(self.pids.pop("rank-1"), signal.SIGKILL)
