"""Test the end of a case: well and without a trace, or with a typed failure and without a trace."""

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
"""Seconds that it may take to run out of memory."""
LARGER = (64, 512, 4096)
"""Times the batch size for which a step is to find no memory, each where the one before still fits. No step is too
large: where one tensor takes all that is left, TensorFlow has nothing to say so with, and ends with SIGSEGV."""


class Ending(Training):
    """Failures are records; what was started has ended."""

    def test_memory_that_runs_out_is_told_from_other_errors(self, model: str) -> None:
        """`is_out_of_memory` knows the interpreter's own error, and does not take others for it."""
        answers = self._answer(model)["out_of_memory"]
        misjudged = [
            f"{answer} of {error}"
            for error, answer in answers.items()
            if answer != (error == "MemoryError()")
        ]
        assert answers and not misjudged, advice(
            f"`is_out_of_memory` says {', '.join(misjudged)}.",
            "out of memory is a result (this batch size does not fit); a bug is not",
            "look for the framework's own exception, or the words it uses, and hand the rest to super()",
        )

    def test_its_own_error_is_told_as_memory_running_out(self) -> None:
        """Steps for which there is no memory: what the framework raises then, `is_out_of_memory` knows.

        A framework that ends the process instead says why in its log, in words that the core knows.
        """
        device = device_of(self.device, self.plugin)
        if device != "cpu":
            pytest.skip(f"on {device} nothing bounds the memory that a step may take")
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
                "the search for the largest batch size, and every campaign, tell what does not fit from what is broken",
                "look for this exception, or these words, in `Runtime.is_out_of_memory`; where the framework ends the "
                "process without a word, or never returns, say so in `known_gaps`",
            )
            return
        pytest.skip(f"steps of {spec.batch_size} samples find room in what little memory is left to them")

    def test_it_leaves_nothing_behind(self) -> None:
        """After a run of two replicas: no process, no temporary file, no shared memory.

        What feeds them is held to the same, with its own source, in `test_the_source_feeds_it`.
        """
        supported = sorted(self.plugin.capabilities.strategies)
        equal = [name for name in supported if STRATEGIES[name].keeps_replicas_equal]
        pair = {"topology": "1n2d", "strategy": (equal or [INDEPENDENT])[0]}
        check_leftovers(lambda env: self.require_valid_result(self.select_accepted_spec(env=env, **pair)))

    def test_a_killed_rank_is_a_typed_failure(self) -> None:
        """The others end, within seconds, and the result says which rank died, where, and of what."""
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
