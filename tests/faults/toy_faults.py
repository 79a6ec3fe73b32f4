"""Faulty worker halves. Each changes a few lines of a correct one: the NumPy example, or the asynchronous toy."""

import itertools
import json
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import asynchronous_toy
import late_toy
import numpy as np
from dlperf_numpy import worker

from dlperf_sdk.worker import canonical, clocks, loop
from dlperf_sdk.worker.interface import Step
from dlperf_sdk.worker.processes import one_per_device
from dlperf_sdk.worker.sources import SOURCES, replace_sources
from dlperf_sdk.worker.unsupported import Unsupported

# -- timing; changes of the asynchronous toy


class NoSynchronization(asynchronous_toy.Runtime):
    def synchronize(self):
        pass


class SynchronizesEveryStep(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        self.runtime.synchronize()
        return step


class NoSynchronizationCompiled(asynchronous_toy.Runtime):
    def synchronize(self):
        if self.request.compiler == "none":
            super().synchronize()


class SynchronizesEveryStepCompiled(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        if self.graph is not None:
            self.runtime.synchronize()
        return step


class NoSynchronizationTwoReplicas(asynchronous_toy.Runtime):
    def synchronize(self):
        if not self.peers:
            super().synchronize()


class SynchronizesEveryStepTwoReplicas(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        if self.runtime.peers:
            self.runtime.synchronize()
        return step


class SynchronizesOnRank0Only(asynchronous_toy.Runtime):
    def synchronize(self):
        if self.process.rank == 0:
            super().synchronize()


class SynchronizesLossOnly(asynchronous_toy.EventRuntime):
    """`synchronize` waits for the loss that `step` returned, but not for the work after it."""

    def synchronize(self):
        if self.last is not None:
            self.loss.result()


class WorksAfterLoss(asynchronous_toy.Linear):
    def step(self, batch):
        self.runtime.loss = super().step(batch).loss
        self.runtime.enqueue(time.sleep, asynchronous_toy.BUSY)
        return Step(self.runtime.loss, len(batch["x"]))


class BlockingClockWithoutSynchronization(asynchronous_toy.Runtime):
    """Declares the clock `blocking` on an asynchronous device, and never waits."""

    clock = "blocking"

    def synchronize(self):
        pass


class BlockingClock(asynchronous_toy.Runtime):
    """Declares the clock `blocking` on an asynchronous device, and waits in `synchronize`."""

    clock = "blocking"


class WaitsForLossOnly(asynchronous_toy.Linear):
    """Each step waits for its loss, and leaves twice as much work enqueued."""

    def step(self, batch):
        loss = super().step(batch).loss
        loss.result()
        self.runtime.enqueue(time.sleep, 2 * asynchronous_toy.BUSY)
        return Step(loss, len(batch["x"]))


class TrueBlockingClock(asynchronous_toy.Runtime):
    """The clock `blocking`; with `SynchronizesEveryStep` it is true."""

    clock = "blocking"


class ReturnsBeforeOptimizer(asynchronous_toy.Linear):
    def step(self, batch):
        handle = self.runtime.enqueue(self.forward, batch)
        self.runtime.queue.submit(self.work, batch)
        return Step(handle, len(batch["x"]))

    def forward(self, batch):
        return self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0]


class SharedLossBuffer(asynchronous_toy.Linear):
    def work(self, batch):
        self.newest = super().work(batch)
        return self.newest

    def read_loss(self, loss):
        loss.result()
        return [float(self.newest)]


class SharedLossBufferCompiled(asynchronous_toy.Linear):
    def captured(self, batch):
        step = super().captured(batch)
        self.buffer = step.loss
        return step

    def read_loss(self, loss):
        actual = super().read_loss(loss)
        return actual if self.graph is None else [float(self.buffer)]


class HalfLearningRateCompiled(asynchronous_toy.Linear):
    def captured(self, batch):
        rate = self.request.optimizer["learning_rate"]
        stored, self.request.optimizer["learning_rate"] = rate, rate / 2
        try:
            return super().captured(batch)
        finally:
            self.request.optimizer["learning_rate"] = stored


class NoExchangeCompiled(asynchronous_toy.Runtime):
    def mean(self, array):
        return array if self.request.compiler == "graph" else super().mean(array)


class ZeroDeviceMemory(asynchronous_toy.Runtime):
    def peak_memory(self):
        return 0


# -- replicas; changes of the example


class TraceWithoutOperators(worker.Runtime):
    @contextmanager
    def trace(self, path):
        yield
        Path(path).write_text(
            '{"traceEvents": [{"name": "step", "ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}]}'
        )


class NoExchange(worker.Runtime):
    def mean(self, array):
        return array


class ExchangeInPairs(worker.Runtime):
    """Ranks 2k and 2k + 1 exchange gradients only with each other, as in an all-reduce over the wrong group."""

    def start(self):
        node, rank = self.cluster.nodes[0], self.process.rank
        pair = node._replace(devices=node.devices[:2], ports=node.ports[rank // 2 :])
        self.cluster = self.cluster._replace(nodes=(pair,))
        self.process = self.process._replace(rank=rank % 2)
        super().start()


class GradientsOfFirstReplica(worker.Runtime):
    def mean(self, array):
        ours = array if self.process.rank == 0 else np.zeros_like(array)
        return super().mean(ours) * np.float32(self.cluster.world_size)


class GradientsSummedOverReplicas(worker.Runtime):
    def mean(self, array):
        return super().mean(array) * np.float32(self.cluster.world_size)


class IndependentReplicasSynchronized(worker.Runtime):
    def start(self):
        self.syncs_gradients = True
        super().start()


class AsynchronousWithoutExchange(worker.Runtime):
    strategies = {**worker.Runtime.strategies, "parameter_server_async": one_per_device}

    def start(self):
        self.syncs_gradients = False
        super().start()


class ExchangeAtSynchronize(worker.Runtime):
    """Averages the weights in `synchronize` only. Done after every step, plain SGD would give the same weights."""

    def mean(self, array):
        return array

    def synchronize(self):
        weights = self.trainer.weights
        weights["weight"] = super().mean(weights["weight"]).copy()


class ExchangeAtSynchronizeOnly(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        runtime.trainer = self


class SameShardOnAllReplicas(worker.Linear):
    def canonical_batch(self):
        return canonical.batch(self.request.inputs, self.request.batch_size, 0, self.request.seed)


class SmallerBatchOnOneRank(worker.Linear):
    def step(self, batch):
        smaller = {name: values[self.process.rank :] for name, values in batch.items()}
        return super().step(smaller)._replace(samples=len(smaller["x"]))


class SmallerBatchOnOneRankUnreported(SmallerBatchOnOneRank):
    def step(self, batch):
        return super().step(batch)._replace(samples=self.request.batch_size)


# -- training; changes of the example


class BackwardEverySecondStep(worker.Linear):
    calls = 0

    def step(self, batch):
        self.calls += 1
        if self.calls % 2:
            return super().step(batch)
        return Step(self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0], len(batch["x"]))


class HalfBatchInWindow(worker.Linear):
    def batches(self):
        half = {name: values[: len(values) // 2] for name, values in self.canonical_batch().items()}
        return itertools.repeat(half)

    def step(self, batch):
        return super().step(batch)._replace(samples=self.request.batch_size)


class LowerLearningRateInWindow(worker.Linear):
    def batches(self):
        self.request.optimizer["learning_rate"] *= 0.9
        return super().batches()


# -- the window: correct to step 7, faulty from step 8 on


class ForwardOnly(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch)


class ForwardOnlyEverySecondStep(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch) if self.steps % 2 else worker.Linear.train(self, batch, rate)


class ForwardOnlyAtRandom(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        skips = np.random.RandomState(self.steps).random_sample() < 0.5
        return self.evaluate(batch) if skips else worker.Linear.train(self, batch, rate)


class ForwardOnlyInOneRepeat(ForwardOnly):
    def go_wrong(self, batch, rate):
        second = Path.cwd().parent.name.startswith("2-")
        return self.evaluate(batch) if second else worker.Linear.train(self, batch, rate)


class ZeroLearningRate(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, batch, 0.0)


class HalfLearningRate(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, batch, rate / 2)


class HalfBatch(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, {name: v[: len(v) // 2] for name, v in batch.items()}, rate)


class LabelsShiftedBehindSender(worker.Linear):
    """Gives each sample the label of its neighbor."""

    sources = replace_sources(
        zmq=lambda trainer: (
            dict(batch, y=np.roll(batch["y"], 1, axis=0)) for batch in SOURCES["zmq"].open(trainer)
        )
    )


class StaleBatch(late_toy.FaultFromStep8):
    """Trains on one stored batch, as a graph does whose input is no longer copied."""

    def go_wrong(self, batch, rate):
        self.kept = getattr(self, "kept", {name: v[::-1] * 0.5 for name, v in batch.items()})
        return worker.Linear.train(self, self.kept, rate)


class StaleGradient(late_toy.FaultFromStep8):
    """Repeats the update of the last correct step, without a backward pass."""

    def train(self, batch, rate):
        before = self.weights["weight"].copy()
        loss = super().train(batch, rate)
        if self.steps <= 8:
            self.update = self.weights["weight"] - before
        return loss

    def go_wrong(self, batch, rate):
        self.weights["weight"] = self.weights["weight"] + self.update
        return self.evaluate(batch)


class ZeroGradientsFromOneRank(late_toy.FaultFromStep8):
    """One rank contributes zeros, which would save its backward pass; the replicas stay equal."""

    def go_wrong(self, batch, rate):
        whole = self.runtime.mean
        if self.process.rank == 1:
            self.runtime.mean = lambda gradient: whole(np.zeros_like(gradient))
        try:
            return worker.Linear.train(self, batch, rate)
        finally:
            self.runtime.mean = whole


class NoExchangeFromStep8(late_toy.FaultFromStep8):
    def go_wrong(self, batch, rate):
        self.runtime.mean = lambda gradient: gradient
        return worker.Linear.train(self, batch, rate)


# -- the window: faulty from step 8 on, and correct again after the reset


class ForwardOnlyUntilReset(late_toy.FaultUntilReset):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch) if self.steps % 2 else worker.Linear.train(self, batch, rate)


class ForwardOnlyAtRandomUntilReset(late_toy.FaultUntilReset):
    def go_wrong(self, batch, rate):
        skips = np.random.RandomState(self.steps).random_sample() < 0.7
        return self.evaluate(batch) if skips else worker.Linear.train(self, batch, rate)


class NoWorkUntilReset(late_toy.FaultUntilReset):
    """Every second step does nothing, and returns the loss of the previous step."""

    kept = None

    def go_wrong(self, batch, rate):
        if self.kept is None or self.steps % 2:
            self.kept = worker.Linear.train(self, batch, rate)
        return self.kept


class WorksAfterWindow(asynchronous_toy.Linear):
    """A thread does the steps' work. Reading the state waits for it; `synchronize` does not."""

    def work(self, batch):
        time.sleep(0.1)  # short steps are not timed
        return super().work(batch)

    def wait(self):
        if self.runtime.last is not None:
            self.runtime.last.result()

    def step(self, batch):
        return super().step(batch)._replace(labels=self.labels(batch))

    def parameters(self, replica):
        self.wait()
        return super().parameters(replica)

    def reset(self):
        self.wait()
        super().reset()


# -- the data source: canonical batches first, other batches after them


class OtherSeedAfterFirstSteps(worker.Linear):
    def batches(self):
        other = canonical.batch_of(
            self.request._replace(seed=self.request.seed + 1), self.process.replicas[0]
        )
        return itertools.repeat(self.place([other]))


class HalfBatchesAfterFirstSteps(worker.Linear):
    def batches(self):
        batch = self.canonical_batch()
        return itertools.repeat({name: values[: len(values) // 2] for name, values in batch.items()})


class OneShardAfterFirstSteps(worker.Linear):
    def batches(self):
        return itertools.repeat(self.place([canonical.batch_of(self.request, 0)]))


# -- parts of a step


class InputThatTrains(worker.Linear):
    def take(self, batch):
        return self.step(batch)


class HalfOfTheInput(worker.Linear):
    def take(self, batch):
        return super().take({name: values[: len(values) // 2] for name, values in batch.items()})


class CommunicationWithoutExchange(worker.Linear):
    def gradient_exchange(self):
        exchange = super().gradient_exchange()
        exchange.run = lambda: None
        return exchange


class CommunicationOfOneElement(worker.Linear):
    def gradient_exchange(self):
        return worker.ArrayExchange(self.runtime.mean, np.zeros(1, np.float32))


class NonCanonicalWeights(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        shape = self.weights["weight"].shape
        self.weights["weight"] = np.random.RandomState(1).standard_normal(shape).astype(np.float32)


class LossOfPreviousStep(worker.Linear):
    before = None

    def step(self, batch):
        step = super().step(batch)
        self.before, loss = step.loss, step.loss if self.before is None else self.before
        return step._replace(loss=loss)


class WrongGradientSign(worker.Linear):
    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, -slope


class GradientsSummedOverBatch(worker.Linear):
    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, slope * len(y)


class DeviationTrains(worker.Linear):
    def deviation(self):
        self.step(self.canonical_batch())
        return 0.0


class DeviationChangesSteps(worker.Linear):
    """`deviation` makes later updates larger, but changes no parameter."""

    further = np.float32(1.0)

    def deviation(self):
        self.further = np.float32(1.1)
        return 0.0

    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, self.further * slope


class DropoutInDeviation(worker.Linear):
    """Scales the outputs instead of dropping some, also in one of the two outputs that `deviation` compares."""

    def loss(self, z, y):
        return super().loss(z * np.float32(1.0 - self.request.model_options["dropout"]), y)

    def deviation(self):
        return self.request.model_options["dropout"]


class MisnamedParameter(worker.Softmax):
    def parameters(self, replica):
        yield "kernel", self.weights["weight"]


class TransposedParameter(worker.Softmax):
    def parameters(self, replica):
        for name, values in self.weights.items():
            yield name, np.ascontiguousarray(values.T)


# -- requested settings; changes of the example


class Fp32ReportedAsRequested(worker.Linear):
    """Trains in fp32 without a compiler, reports the requested precision, and does not report the compiler."""

    precisions = {**worker.Linear.precisions, "amp-bf16": worker.Linear.precisions["fp32"]}
    compilers = asynchronous_toy.COMPILERS

    def observed(self):
        return {"precision": self.request.precision}


class ConstantEvidence(worker.Linear):
    """Returns the evidence of a correct plugin as constants."""

    def deviation(self):
        return 0.0

    def observed(self):
        return {"precision": "fp32", "compiler": "none"}


class EchoedPrecision(worker.Linear):
    """Trains in fp32, and reports the requested precision."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request._replace(precision="fp32"), process)
        self.echo = request.precision

    def observed(self):
        return {"precision": self.echo}


class UnknownSourceAccepted(worker.Linear):
    def batches(self):
        if self.request.data["source"] in self.sources:
            return super().batches()
        return itertools.repeat(self.canonical_batch())


class UnknownCompilerAccepted(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request._replace(compiler="none"), process)


class UnknownLayoutAccepted(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request._replace(layout="auto"), process)


class EchoedCompiler(UnknownCompilerAccepted):
    """Compiles nothing, and reports the requested compiler."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.echo = request.compiler

    def observed(self):
        return dict(super().observed(), compiler=self.echo)


class ReportsNoCompiler(worker.Linear):
    """Compiles nothing, and reports this."""

    compilers = asynchronous_toy.COMPILERS

    def observed(self):
        return dict(super().observed(), compiler="none")


# -- the end of a worker; changes of the example


class BytesAfterRecord(worker.Runtime):
    def stop(self):
        with Path("../record.json").open("a") as file:
            file.write(json.dumps({"more": 1}))


class LeftoverFile(worker.Runtime):
    def stop(self):
        os.close(tempfile.mkstemp()[0])


class LeftoverSharedMemory(worker.Runtime):
    def stop(self):
        os.close(tempfile.mkstemp(prefix="dlperf-planted-", dir="/dev/shm")[0])


class LeftoverFileOfSource(worker.Linear):
    """With the source `synthetic-host` only."""

    def batches(self):
        if self.request.data["source"] == "synthetic-host":
            os.close(tempfile.mkstemp()[0])
        return super().batches()


class FillsArena(worker.Linear):
    """Like a framework whose allocator raises errors of its own type."""

    def step(self, batch):
        try:
            np.ones((len(batch["x"]), 2**20), np.uint8)
        except MemoryError as error:
            raise RuntimeError("the arena is full") from error
        return super().step(batch)


class RewrittenRecord(asynchronous_toy.Runtime):
    """Writes a record that is three times as fast, when the run is over."""

    def stop(self):
        super().stop()
        path = Path("../record.json")
        record = json.loads(path.read_text())
        window = record["window"]
        window["end"] = window["start"] + (window["end"] - window["start"]) / 3
        record["step_times"] = [seconds / 3 for seconds in record["step_times"]]
        path.write_text(json.dumps(record))


class SlowClock(asynchronous_toy.Runtime):
    """Slows the clock that the step loop reads to a third of its speed."""

    def start(self):
        loop.monotonic = clocks.monotonic = lambda: time.monotonic() / 3
        super().start()


class EveryCaseUnsupported(worker.Linear):
    """Reports every case as unsupported on this machine."""

    def __init__(self, runtime, request, process):
        raise Unsupported("this processor has no products of that kind; choose another")


class EveryErrorOutOfMemory(worker.Runtime):
    def is_out_of_memory(self, error):
        return True
