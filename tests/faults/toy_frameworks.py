"""Controller halves of the toy plugins, right and wrong: a name, and what differs from the right one."""

from pathlib import Path

import attrs
from dlperf_numpy.framework import Linear, NumPy

from dlperf_sdk.worker.processes import one_per_device

CAN = NumPy.capabilities
LOCK = Path(__file__).with_name("old-lock.txt")


class Asynchronous(NumPy):
    """NumPy on a device that works by itself."""

    name = "asynchronous"
    runtime = "asynchronous_toy:Runtime"
    trainers = {"linear": "asynchronous_toy:Linear"}
    packages = ("dlperf_numpy",)
    capabilities = attrs.evolve(CAN, devices={"toy"}, compilers={"none", "graph"})


class Events(Asynchronous):
    """The same, on a device with events."""

    name = "events"
    runtime = "asynchronous_toy:EventRuntime"


class Narrow(NumPy):
    """Declares a compiler that not every machine can use: this one cannot."""

    name = "narrow"
    trainers = {"linear": "asynchronous_toy:GivesUpCompiled"}
    packages = ("dlperf_numpy", "asynchronous_toy")
    capabilities = attrs.evolve(CAN, compilers={"none", "graph"})


class Arena(NumPy):
    """Takes memory in its steps, and knows its own error for when there is none."""

    name = "arena"
    runtime = "asynchronous_toy:KnowsItsArena"
    trainers = {"linear": "toy_faults:FillsItsArena"}
    packages = ("dlperf_numpy", "asynchronous_toy", "late_toy")


class Dropping(Linear):
    """With an option that the toys' trainers do not know."""

    name = "dropping"
    references = None

    @attrs.frozen
    class Options(Linear.Options):
        dropout: float = 0.0


def with_threads_of_their_own(cluster):
    """Processes whose plugin says how many threads they have."""
    return [
        process._replace(variables={**process.variables, "OMP_NUM_THREADS": "2"})
        for process in one_per_device(cluster)
    ]


def locked(self, device, strategy, model):
    return attrs.evolve(NumPy.environment(self, device, strategy, model), lock=LOCK)


def only_large(self, spec, options):
    if spec.compiler == "graph" and spec.batch_size < 16:
        return "the compiler graph needs a batch of 16; choose none"
    return None


def linear(trainer):
    return {"trainers": {"linear": f"toy_faults:{trainer}"}}


def softmax(trainer):
    return {"trainers": {"softmax": f"toy_faults:{trainer}"}}


def runtime(name):
    return {"runtime": f"toy_faults:{name}"}


WRONG = {
    "never-waits": (Asynchronous, runtime("NeverWaits")),
    "always-waits": (Asynchronous, linear("AlwaysWaits")),
    "waits-and-says-so": (Asynchronous, runtime("Blocking") | linear("AlwaysWaits")),
    "never-waits-compiled": (Asynchronous, runtime("NeverWaitsCompiled")),
    "always-waits-compiled": (Asynchronous, linear("AlwaysWaitsCompiled")),
    "never-waits-in-company": (Asynchronous, runtime("NeverWaitsInCompany")),
    "always-waits-in-company": (Asynchronous, linear("AlwaysWaitsInCompany")),
    "waits-on-one-rank": (Asynchronous, runtime("WaitsOnOneRank")),
    "one-buffer-compiled": (Asynchronous, linear("OneBufferForAllLossesCompiled")),
    "half-the-rate-compiled": (Asynchronous, linear("HalfTheRateCompiled")),
    "alone-when-compiled": (Asynchronous, runtime("AloneWhenCompiled")),
    "waits-for-the-loss": (Events, runtime("WaitsForTheLoss") | linear("WorksBehindTheLoss")),
    "says-blocking": (Asynchronous, runtime("SaysBlocking")),
    "blocking-until-the-loss": (
        Asynchronous,
        runtime("SaysBlockingAndWaits") | linear("BlockingUntilTheLoss"),
    ),
    "before-the-optimizer": (Asynchronous, linear("BeforeTheOptimizer")),
    "one-buffer": (Asynchronous, linear("OneBufferForAllLosses")),
    "no-memory": (Asynchronous, runtime("NoMemory")),
    "unsynchronized": (NumPy, runtime("Unsynchronized")),
    "meets-in-pairs": (NumPy, runtime("MeetsInPairs")),
    "first-of-all": (NumPy, runtime("FirstOfAll")),
    "summed": (NumPy, runtime("Summed")),
    "postpones-the-exchange": (NumPy, runtime("MeetsWhenWaitedFor") | linear("PostponesTheExchange")),
    "always-meets": (NumPy, runtime("AlwaysMeets")),
    "one-shard": (NumPy, linear("OneShard")),
    "smaller-on-one-rank": (NumPy, linear("SmallerOnOneRank")),
    "secretly-smaller": (NumPy, linear("SecretlySmallerOnOneRank")),
    "every-second-backward": (NumPy, linear("EverySecondBackward")),
    "half-in-the-window": (NumPy, linear("HalfOfItInTheWindow")),
    "slower-in-the-window": (NumPy, linear("SlowerInTheWindow")),
    "forward-only": (NumPy, linear("ForwardOnly")),
    "forward-only-every-second": (NumPy, linear("ForwardOnlyEverySecond")),
    "forward-only-at-random": (NumPy, linear("ForwardOnlyAtRandom")),
    "forward-only-in-one-repeat": (NumPy, linear("ForwardOnlyInOneRepeat")),
    "rate-of-zero": (NumPy, linear("RateOfZero")),
    "half-the-rate": (NumPy, linear("HalfTheRate")),
    "half-the-batch": (NumPy, linear("HalfTheBatch")),
    "stale-batch": (NumPy, linear("StaleBatch")),
    "stale-gradient": (NumPy, linear("StaleGradient")),
    "nothing-from-one-rank": (NumPy, linear("NothingFromOneRank")),
    "alone-from-the-ninth-step": (NumPy, linear("AloneFromTheNinthStep")),
    "forward-only-until-the-reset": (NumPy, linear("ForwardOnlyUntilTheReset")),
    "randomly-until-the-reset": (NumPy, linear("RandomlyUntilTheReset")),
    "nothing-until-the-reset": (NumPy, linear("NothingUntilTheReset")),
    "works-behind-the-window": (Asynchronous, runtime("SaysBlocking") | linear("WorksBehindTheWindow")),
    "other-numbers": (NumPy, linear("OtherNumbers")),
    "half-batches": (NumPy, linear("HalfBatches")),
    "one-shard-for-all": (NumPy, linear("OneShardForAll")),
    "leaves-out-dropout": (NumPy, {"trainers": {"dropping": "dlperf_numpy.worker:Linear"}}),
    "drops-in-its-evidence": (NumPy, {"trainers": {"dropping": "toy_faults:DropsInItsEvidence"}}),
    "own-weights": (NumPy, linear("OwnWeights")),
    "loss-of-the-step-before": (NumPy, linear("LossOfTheStepBefore")),
    "wrong-sign": (NumPy, linear("WrongSign")),
    "sum-over-the-batch": (NumPy, linear("SumOverTheBatch")),
    "trains-in-deviation": (NumPy, linear("TrainsInDeviation")),
    "leaves-its-trace": (NumPy, linear("LeavesItsTrace")),
    "another-name": (NumPy, softmax("AnotherName")),
    "transposed": (NumPy, softmax("Transposed")),
    "pretends": (
        NumPy,
        linear("Pretends")
        | {"capabilities": attrs.evolve(CAN, precisions={"fp32", "amp-bf16"}, compilers={"none", "graph"})},
    ),
    "fabricates-its-evidence": (NumPy, linear("FabricatesItsEvidence")),
    "echoes-the-precision": (NumPy, linear("EchoesThePrecision")),
    "echoes-the-compiler": (
        NumPy,
        linear("EchoesTheCompiler") | {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"})},
    ),
    "never-compiles": (
        NumPy,
        linear("NeverCompiles") | {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"})},
    ),
    "past-its-record": (NumPy, runtime("WritesPastItsRecord")),
    "leaves-a-file": (NumPy, runtime("LeavesAFile")),
    "leaves-shared-memory": (NumPy, runtime("LeavesSharedMemory")),
    "leaves-what-fed-it": (
        NumPy,
        linear("LeavesWhatFedIt") | {"capabilities": attrs.evolve(CAN, data={"synthetic", "synthetic-host"})},
    ),
    "has-its-own-words": (NumPy, linear("FillsItsArena")),
    "rewrites-its-record": (Asynchronous, runtime("RewritesItsRecord")),
    "slows-the-clock": (Asynchronous, runtime("SlowsTheClock")),
    "each-for-itself": (
        NumPy,
        {"capabilities": attrs.evolve(CAN, strategies={"all_reduce", "parameter_server_async"})},
    ),
    "gives-up": (NumPy, linear("GivesUp")),
    "out-of-memory-always": (NumPy, runtime("OutOfMemoryAlways")),
    "newer-than-declared": (NumPy, {"trainers": {"linear": "newer_than_declared:Linear"}}),
    "newer-relatively": (NumPy, {"trainers": {"linear": "newer_relatively:Linear"}}),
    "imports-the-core": (NumPy, {"trainers": {"linear": "imports_the_core:Linear"}}),
    "refuses-in-a-word": (NumPy, {"explain_refusal": lambda self, spec, options: "no"}),
    "refuses-altogether": (
        NumPy,
        {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"}), "explain_refusal": only_large},
    ),
    "old-lock": (NumPy, {"environment": locked}),
}
"""Name → the right plugin, and the attributes in which the wrong one differs."""

RIGHT = (Asynchronous, Events, Narrow, Arena)
FRAMEWORKS = {right.name: right for right in RIGHT} | {
    name: type(
        name,
        (right,),
        {"name": name, "packages": ("dlperf_numpy", "asynchronous_toy", "late_toy"), **differs},
    )
    for name, (right, differs) in WRONG.items()
}
