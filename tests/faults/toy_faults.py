"""Worker halves that are wrong, each a few lines over a right one: the NumPy example, or the asynchronous toy."""

import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import asynchronous_toy
import late_toy
import numpy as np
from dlperf_numpy import worker

from dlperf_sdk.worker import canonical, clocks, loop
from dlperf_sdk.worker.interface import Step, Unsupported

# -- time: over the asynchronous toy


class NeverWaits(asynchronous_toy.Runtime):
    def synchronize(self):
        pass


class AlwaysWaits(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        self.runtime.synchronize()
        return step


class NeverWaitsCompiled(asynchronous_toy.Runtime):
    def synchronize(self):
        if self.request.compiler == "none":
            super().synchronize()


class AlwaysWaitsCompiled(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        if self.graph is not None:
            self.runtime.synchronize()
        return step


class NeverWaitsInCompany(asynchronous_toy.Runtime):
    def synchronize(self):
        if not self.peers:
            super().synchronize()


class AlwaysWaitsInCompany(asynchronous_toy.Linear):
    def step(self, batch):
        step = super().step(batch)
        if self.runtime.peers:
            self.runtime.synchronize()
        return step


class WaitsOnOneRank(asynchronous_toy.Runtime):
    def synchronize(self):
        if self.process.rank == 0:
            super().synchronize()


class WaitsForTheLoss(asynchronous_toy.EventRuntime):
    """It waits for what `step` hands out, and not for what the device does after it."""

    def synchronize(self):
        if self.last is not None:
            self.loss.result()


class WorksBehindTheLoss(asynchronous_toy.Linear):
    def step(self, batch):
        self.runtime.loss = super().step(batch).loss
        self.runtime.enqueue(time.sleep, asynchronous_toy.BUSY)
        return Step(self.runtime.loss, len(batch["x"]))


class SaysBlocking(asynchronous_toy.Runtime):
    """Where a step goes on behind the call, and nobody waits for it."""

    clock = "blocking"

    def synchronize(self):
        pass


class SaysBlockingAndWaits(asynchronous_toy.Runtime):
    """It waits where it is asked to, and calls steps done that are not."""

    clock = "blocking"


class BlockingUntilTheLoss(asynchronous_toy.Linear):
    """Each step waits for its loss; twice as much goes on behind it."""

    def step(self, batch):
        loss = super().step(batch).loss
        loss.result()
        self.runtime.enqueue(time.sleep, 2 * asynchronous_toy.BUSY)
        return Step(loss, len(batch["x"]))


class Blocking(asynchronous_toy.Runtime):
    """It keeps what it says: and the device waits for the host between steps."""

    clock = "blocking"


class BeforeTheOptimizer(asynchronous_toy.Linear):
    def step(self, batch):
        handle = self.runtime.enqueue(self.forward, batch)
        self.runtime.queue.submit(self.work, batch)
        return Step(handle, len(batch["x"]))

    def forward(self, batch):
        return self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0]


class OneBufferForAllLosses(asynchronous_toy.Linear):
    def work(self, batch):
        self.newest = super().work(batch)
        return self.newest

    def read_loss(self, loss):
        loss.result()
        return [float(self.newest)]


class OneBufferForAllLossesCompiled(asynchronous_toy.Linear):
    def captured(self, batch):
        step = super().captured(batch)
        self.buffer = step.loss
        return step

    def read_loss(self, loss):
        actual = super().read_loss(loss)
        return actual if self.graph is None else [float(self.buffer)]


class HalfTheRateCompiled(asynchronous_toy.Linear):
    def captured(self, batch):
        rate = self.request.optimizer["learning_rate"]
        stored, self.request.optimizer["learning_rate"] = rate, rate / 2
        try:
            return super().captured(batch)
        finally:
            self.request.optimizer["learning_rate"] = stored


class AloneWhenCompiled(asynchronous_toy.Runtime):
    def mean(self, array):
        return array if self.request.compiler == "graph" else super().mean(array)


class NoMemory(asynchronous_toy.Runtime):
    def peak_memory(self):
        return 0


# -- replicas: over the example


class Unsynchronized(worker.Runtime):
    def mean(self, array):
        return array


class MeetsInPairs(worker.Runtime):
    """Ranks 2k and 2k + 1 exchange with each other and with nobody else, as all-reduce over a wrong group does."""

    def start(self):
        node, rank = self.cluster.nodes[0], self.process.rank
        pair = node._replace(devices=node.devices[:2], ports=node.ports[rank // 2 :])
        self.cluster = self.cluster._replace(nodes=(pair,))
        self.process = self.process._replace(rank=rank % 2)
        super().start()


class FirstOfAll(worker.Runtime):
    def mean(self, array):
        ours = array if self.process.rank == 0 else np.zeros_like(array)
        return super().mean(ours) * np.float32(self.cluster.world_size)


class Summed(worker.Runtime):
    def mean(self, array):
        return super().mean(array) * np.float32(self.cluster.world_size)


class AlwaysMeets(worker.Runtime):
    def start(self):
        self.request = self.request._replace(strategy="all_reduce")
        super().start()


class MeetsWhenWaitedFor(worker.Runtime):
    """The replicas' weights meet, and only where somebody waits: after every step that is the same for plain SGD."""

    def mean(self, array):
        return array

    def synchronize(self):
        weights = self.trainer.weights
        weights["weight"] = super().mean(weights["weight"]).copy()


class PostponesTheExchange(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        runtime.trainer = self


class OneShard(worker.Linear):
    def canonical_batch(self):
        return canonical.batch(self.request.inputs, self.request.batch_size, 0, self.request.seed)


class SmallerOnOneRank(worker.Linear):
    def step(self, batch):
        smaller = {name: values[self.process.rank :] for name, values in batch.items()}
        return super().step(smaller)._replace(samples=len(smaller["x"]))


class SecretlySmallerOnOneRank(SmallerOnOneRank):
    def step(self, batch):
        return super().step(batch)._replace(samples=self.request.batch_size)


# -- training: over the example


class EverySecondBackward(worker.Linear):
    calls = 0

    def step(self, batch):
        self.calls += 1
        if self.calls % 2:
            return super().step(batch)
        return Step(self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])[0], len(batch["x"]))


class HalfOfItInTheWindow(worker.Linear):
    def batches(self):
        half = {name: values[: len(values) // 2] for name, values in self.canonical_batch().items()}
        return itertools.repeat(half)

    def step(self, batch):
        return super().step(batch)._replace(samples=self.request.batch_size)


class SlowerInTheWindow(worker.Linear):
    def batches(self):
        self.request.optimizer["learning_rate"] *= 0.9
        return super().batches()


# -- the window: right in the first steps, wrong from the ninth step on


class ForwardOnly(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch)


class ForwardOnlyEverySecond(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch) if self.steps % 2 else worker.Linear.train(self, batch, rate)


class ForwardOnlyAtRandom(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        skips = np.random.RandomState(self.steps).random_sample() < 0.5
        return self.evaluate(batch) if skips else worker.Linear.train(self, batch, rate)


class ForwardOnlyInOneRepeat(ForwardOnly):
    def go_wrong(self, batch, rate):
        second = Path.cwd().parent.name.startswith("2-")
        return self.evaluate(batch) if second else worker.Linear.train(self, batch, rate)


class RateOfZero(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, batch, 0.0)


class HalfTheRate(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, batch, rate / 2)


class HalfTheBatch(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        return worker.Linear.train(self, {name: v[: len(v) // 2] for name, v in batch.items()}, rate)


class StaleBatch(late_toy.FromTheNinthStep):
    """Trains on one batch that is kept, as a graph does whose input is no longer copied."""

    def go_wrong(self, batch, rate):
        self.kept = getattr(self, "kept", {name: v[::-1] * 0.5 for name, v in batch.items()})
        return worker.Linear.train(self, self.kept, rate)


class StaleGradient(late_toy.FromTheNinthStep):
    """Updates with the gradient of the step before it went wrong, and computes no other."""

    def train(self, batch, rate):
        before = self.weights["weight"].copy()
        loss = super().train(batch, rate)
        if self.steps <= 8:
            self.update = self.weights["weight"] - before
        return loss

    def go_wrong(self, batch, rate):
        self.weights["weight"] = self.weights["weight"] + self.update
        return self.evaluate(batch)


class NothingFromOneRank(late_toy.FromTheNinthStep):
    """One rank hands zeros to the others, which saves its backward pass; the replicas stay equal."""

    def go_wrong(self, batch, rate):
        whole = self.runtime.mean
        if self.process.rank == 1:
            self.runtime.mean = lambda gradient: whole(np.zeros_like(gradient))
        try:
            return worker.Linear.train(self, batch, rate)
        finally:
            self.runtime.mean = whole


class AloneFromTheNinthStep(late_toy.FromTheNinthStep):
    def go_wrong(self, batch, rate):
        self.runtime.mean = lambda gradient: gradient
        return worker.Linear.train(self, batch, rate)


# -- the window: wrong from the ninth step on, and right again behind the reset


class ForwardOnlyUntilTheReset(late_toy.UntilTheReset):
    def go_wrong(self, batch, rate):
        return self.evaluate(batch) if self.steps % 2 else worker.Linear.train(self, batch, rate)


class RandomlyUntilTheReset(late_toy.UntilTheReset):
    def go_wrong(self, batch, rate):
        skips = np.random.RandomState(self.steps).random_sample() < 0.7
        return self.evaluate(batch) if skips else worker.Linear.train(self, batch, rate)


class NothingUntilTheReset(late_toy.UntilTheReset):
    """Every second step does nothing, and hands back the loss of the step before."""

    kept = None

    def go_wrong(self, batch, rate):
        if self.kept is None or self.steps % 2:
            self.kept = worker.Linear.train(self, batch, rate)
        return self.kept


class WorksBehindTheWindow(asynchronous_toy.Linear):
    """Its steps are done by a thread; whatever reads the state waits for it, and `synchronize` does not."""

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


# -- the data source: right canonical batches, and others behind them


class OtherNumbers(worker.Linear):
    def batches(self):
        other = canonical.batch_of(
            self.request._replace(seed=self.request.seed + 1), self.process.replicas[0]
        )
        return itertools.repeat(self.place([other]))


class HalfBatches(worker.Linear):
    def batches(self):
        batch = self.canonical_batch()
        return itertools.repeat({name: values[: len(values) // 2] for name, values in batch.items()})


class OneShardForAll(worker.Linear):
    def batches(self):
        return itertools.repeat(self.place([canonical.batch_of(self.request, 0)]))


class OwnWeights(worker.Linear):
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        shape = self.weights["weight"].shape
        self.weights["weight"] = np.random.RandomState(1).standard_normal(shape).astype(np.float32)


class LossOfTheStepBefore(worker.Linear):
    before = None

    def step(self, batch):
        step = super().step(batch)
        self.before, loss = step.loss, step.loss if self.before is None else self.before
        return step._replace(loss=loss)


class WrongSign(worker.Linear):
    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, -slope


class SumOverTheBatch(worker.Linear):
    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, slope * len(y)


class TrainsInDeviation(worker.Linear):
    def deviation(self):
        self.step(self.canonical_batch())
        return 0.0


class LeavesItsTrace(worker.Linear):
    """What its evidence leaves behind is in no parameter: the steps that follow go further."""

    further = np.float32(1.0)

    def deviation(self):
        self.further = np.float32(1.1)
        return 0.0

    def loss(self, z, y):
        loss, slope = super().loss(z, y)
        return loss, self.further * slope


class DropsInItsEvidence(worker.Linear):
    """It drops, if evenly: in one of the two outputs that its evidence compares as well."""

    def loss(self, z, y):
        return super().loss(z * np.float32(1.0 - self.request.model_options["dropout"]), y)

    def deviation(self):
        return self.request.model_options["dropout"]


class AnotherName(worker.Softmax):
    def parameters(self, replica):
        yield "kernel", self.weights["weight"]


class Transposed(worker.Softmax):
    def parameters(self, replica):
        for name, values in self.weights.items():
            yield name, np.ascontiguousarray(values.T)


# -- what is asked for: over the example


class Pretends(worker.Linear):
    """Says the precision that the request asks for and nothing of the compiler, and does what it always does."""

    precisions = {**worker.Linear.precisions, "amp-bf16": worker.Linear.precisions["fp32"]}

    def observed(self):
        return {"precision": self.request.precision}


class FabricatesItsEvidence(worker.Linear):
    """Writes down what a right plugin finds."""

    def deviation(self):
        return 0.0

    def observed(self):
        return {"precision": "fp32", "compiler": "none"}


class EchoesThePrecision(worker.Linear):
    """Trains in fp32 whatever is asked for, and says what is asked for."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request._replace(precision="fp32"), process)
        self.echo = request.precision

    def observed(self):
        return {"precision": self.echo}


class EchoesTheCompiler(worker.Linear):
    def observed(self):
        return dict(super().observed(), compiler=self.request.compiler)


class NeverCompiles(worker.Linear):
    """Compiles nothing, whatever is asked for, and says so."""

    def observed(self):
        return dict(super().observed(), compiler="none")


# -- ending: over the example


class WritesPastItsRecord(worker.Runtime):
    def stop(self):
        with Path("../record.json").open("a") as file:
            file.write(json.dumps({"more": 1}))


class LeavesAFile(worker.Runtime):
    def stop(self):
        os.close(tempfile.mkstemp()[0])


class LeavesSharedMemory(worker.Runtime):
    def stop(self):
        os.close(tempfile.mkstemp(prefix="dlperf-planted-", dir="/dev/shm")[0])


class LeavesWhatFedIt(worker.Linear):
    """With one source, and only there."""

    def batches(self):
        if self.request.data["source"] == "synthetic-host":
            os.close(tempfile.mkstemp()[0])
        return super().batches()


class FillsItsArena(worker.Linear):
    """Like a framework with an allocator of its own, whose errors are of a kind of their own."""

    def step(self, batch):
        try:
            np.ones((len(batch["x"]), 2**20), np.uint8)
        except MemoryError as error:
            raise RuntimeError("the arena is full") from error
        return super().step(batch)


class RewritesItsRecord(asynchronous_toy.Runtime):
    """Three times as fast, once it is over."""

    def stop(self):
        super().stop()
        path = Path("../record.json")
        record = json.loads(path.read_text())
        window = record["window"]
        window["end"] = window["start"] + (window["end"] - window["start"]) / 3
        record["step_times"] = [seconds / 3 for seconds in record["step_times"]]
        path.write_text(json.dumps(record))


class SlowsTheClock(asynchronous_toy.Runtime):
    """The interpreter's own, which the loop reads: a third of a second in each."""

    def start(self):
        loop.monotonic = clocks.monotonic = lambda: time.monotonic() / 3
        super().start()


class GivesUp(worker.Linear):
    """Says of every case that this machine cannot do it."""

    def __init__(self, runtime, request, process):
        raise Unsupported("this processor has no products of that kind; choose another")


class OutOfMemoryAlways(worker.Runtime):
    def is_out_of_memory(self, error):
        return True
