"""Controller halves of the toy plugins: the correct ones, and the faulty ones as differences from them."""

from pathlib import Path

import attrs
from dlperf_numpy.framework import Linear, NumPy

from dlperf_sdk.interfaces.trace import Events as TraceSelection
from dlperf_sdk.interfaces.trace import TraceEvents
from dlperf_sdk.worker.processes import one_per_device

CAN = NumPy.capabilities
LOCK = Path(__file__).with_name("old-lock.txt")


class Asynchronous(NumPy):
    """NumPy on an asynchronous device."""

    name = "asynchronous"
    runtime = "asynchronous_toy:Runtime"
    trainers = {"linear": "asynchronous_toy:Linear"}
    packages = ("dlperf_numpy",)
    capabilities = attrs.evolve(CAN, devices={"toy"}, compilers={"none", "graph"}, parts=())


class Events(Asynchronous):
    """NumPy on an asynchronous device that records events."""

    name = "events"
    runtime = "asynchronous_toy:EventRuntime"


class Narrow(NumPy):
    """Declares a compiler that this machine cannot run."""

    name = "narrow"
    trainers = {"linear": "asynchronous_toy:CompilerUnsupported"}
    packages = ("dlperf_numpy", "asynchronous_toy")
    capabilities = attrs.evolve(CAN, compilers={"none", "graph"})


class Arena(NumPy):
    """Allocates memory in its steps, and recognizes its own out-of-memory error."""

    name = "arena"
    runtime = "asynchronous_toy:RecognizesArenaError"
    trainers = {"linear": "toy_faults:FillsArena"}
    packages = ("dlperf_numpy", "asynchronous_toy", "late_toy")


class Dropping(Linear):
    """A model with an option that the toys' trainers ignore."""

    name = "dropping"
    references = None

    @attrs.frozen
    class Options(Linear.Options):
        dropout: float = 0.0


def with_own_thread_count(cluster):
    """Return processes whose plugin sets their number of threads."""
    return [
        process._replace(variables={**process.variables, "OMP_NUM_THREADS": "2"})
        for process in one_per_device(cluster)
    ]


def with_encoded_addresses(cluster):
    """Return processes whose plugin encodes the addresses of all nodes."""
    hosts = ",".join(node.host for node in cluster.nodes).encode().hex()
    return [process._replace(variables={"HOSTS": hosts}) for process in one_per_device(cluster)]


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


FAULTY = {
    "no-synchronization": (Asynchronous, runtime("NoSynchronization")),
    "synchronizes-every-step": (Asynchronous, linear("SynchronizesEveryStep")),
    "synchronizes-with-blocking-clock": (
        Asynchronous,
        runtime("TrueBlockingClock") | linear("SynchronizesEveryStep"),
    ),
    "no-synchronization-compiled": (Asynchronous, runtime("NoSynchronizationCompiled")),
    "synchronizes-every-step-compiled": (Asynchronous, linear("SynchronizesEveryStepCompiled")),
    "no-synchronization-two-replicas": (Asynchronous, runtime("NoSynchronizationTwoReplicas")),
    "synchronizes-every-step-two-replicas": (Asynchronous, linear("SynchronizesEveryStepTwoReplicas")),
    "synchronizes-on-rank-0-only": (Asynchronous, runtime("SynchronizesOnRank0Only")),
    "shared-loss-buffer-compiled": (Asynchronous, linear("SharedLossBufferCompiled")),
    "half-learning-rate-compiled": (Asynchronous, linear("HalfLearningRateCompiled")),
    "no-exchange-compiled": (Asynchronous, runtime("NoExchangeCompiled")),
    "synchronizes-loss-only": (Events, runtime("SynchronizesLossOnly") | linear("WorksAfterLoss")),
    "blocking-clock-but-asynchronous": (Asynchronous, runtime("BlockingClockWithoutSynchronization")),
    "blocking-clock-loss-only": (
        Asynchronous,
        runtime("BlockingClock") | linear("WaitsForLossOnly"),
    ),
    "returns-before-optimizer": (Asynchronous, linear("ReturnsBeforeOptimizer")),
    "shared-loss-buffer": (Asynchronous, linear("SharedLossBuffer")),
    "zero-device-memory": (Asynchronous, runtime("ZeroDeviceMemory")),
    "no-exchange": (NumPy, runtime("NoExchange")),
    "exchange-in-pairs": (NumPy, runtime("ExchangeInPairs")),
    "gradients-of-first-replica": (NumPy, runtime("GradientsOfFirstReplica")),
    "gradients-summed-over-replicas": (NumPy, runtime("GradientsSummedOverReplicas")),
    "exchange-at-synchronize-only": (
        NumPy,
        runtime("ExchangeAtSynchronize") | linear("ExchangeAtSynchronizeOnly"),
    ),
    "independent-replicas-synchronized": (NumPy, runtime("IndependentReplicasSynchronized")),
    "same-shard-on-all-replicas": (NumPy, linear("SameShardOnAllReplicas")),
    "smaller-batch-on-one-rank": (NumPy, linear("SmallerBatchOnOneRank")),
    "smaller-batch-on-one-rank-unreported": (NumPy, linear("SmallerBatchOnOneRankUnreported")),
    "backward-every-second-step": (NumPy, linear("BackwardEverySecondStep")),
    "half-batch-in-window": (NumPy, linear("HalfBatchInWindow")),
    "lower-learning-rate-in-window": (NumPy, linear("LowerLearningRateInWindow")),
    "forward-only": (NumPy, linear("ForwardOnly")),
    "forward-only-every-second-step": (NumPy, linear("ForwardOnlyEverySecondStep")),
    "forward-only-at-random": (NumPy, linear("ForwardOnlyAtRandom")),
    "forward-only-in-one-repeat": (NumPy, linear("ForwardOnlyInOneRepeat")),
    "zero-learning-rate": (NumPy, linear("ZeroLearningRate")),
    "half-learning-rate": (NumPy, linear("HalfLearningRate")),
    "half-batch": (NumPy, linear("HalfBatch")),
    "stale-batch": (NumPy, linear("StaleBatch")),
    "stale-gradient": (NumPy, linear("StaleGradient")),
    "zero-gradients-from-one-rank": (NumPy, linear("ZeroGradientsFromOneRank")),
    "no-exchange-from-step-8": (NumPy, linear("NoExchangeFromStep8")),
    "forward-only-until-reset": (NumPy, linear("ForwardOnlyUntilReset")),
    "forward-only-at-random-until-reset": (NumPy, linear("ForwardOnlyAtRandomUntilReset")),
    "no-work-until-reset": (NumPy, linear("NoWorkUntilReset")),
    "works-after-window": (
        Asynchronous,
        runtime("BlockingClockWithoutSynchronization") | linear("WorksAfterWindow"),
    ),
    "other-seed-after-first-steps": (NumPy, linear("OtherSeedAfterFirstSteps")),
    "half-batches-after-first-steps": (NumPy, linear("HalfBatchesAfterFirstSteps")),
    "one-shard-after-first-steps": (NumPy, linear("OneShardAfterFirstSteps")),
    "input-that-trains": (NumPy, linear("InputThatTrains")),
    "half-of-the-input": (NumPy, linear("HalfOfTheInput")),
    "trace-without-operators": (
        NumPy,
        runtime("TraceWithoutOperators")
        | {"capabilities": attrs.evolve(CAN, trace=TraceEvents(TraceSelection(name="matmul")))},
    ),
    "communication-without-exchange": (NumPy, linear("CommunicationWithoutExchange")),
    "communication-of-one-element": (NumPy, linear("CommunicationOfOneElement")),
    "no-dropout": (NumPy, {"trainers": {"dropping": "dlperf_numpy.worker:Linear"}}),
    "dropout-in-deviation": (NumPy, {"trainers": {"dropping": "toy_faults:DropoutInDeviation"}}),
    "non-canonical-weights": (NumPy, linear("NonCanonicalWeights")),
    "loss-of-previous-step": (NumPy, linear("LossOfPreviousStep")),
    "wrong-gradient-sign": (NumPy, linear("WrongGradientSign")),
    "gradients-summed-over-batch": (NumPy, linear("GradientsSummedOverBatch")),
    "deviation-trains": (NumPy, linear("DeviationTrains")),
    "deviation-changes-steps": (NumPy, linear("DeviationChangesSteps")),
    "misnamed-parameter": (NumPy, softmax("MisnamedParameter")),
    "transposed-parameter": (NumPy, softmax("TransposedParameter")),
    "fp32-reported-as-requested": (
        NumPy,
        linear("Fp32ReportedAsRequested")
        | {"capabilities": attrs.evolve(CAN, precisions={"fp32", "amp-bf16"}, compilers={"none", "graph"})},
    ),
    "constant-evidence": (NumPy, linear("ConstantEvidence")),
    "echoed-precision": (NumPy, linear("EchoedPrecision")),
    "unknown-source-accepted": (NumPy, linear("UnknownSourceAccepted")),
    "unknown-compiler-accepted": (NumPy, linear("UnknownCompilerAccepted")),
    "unknown-layout-accepted": (NumPy, linear("UnknownLayoutAccepted")),
    "echoed-compiler": (
        NumPy,
        linear("EchoedCompiler") | {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"})},
    ),
    "reports-no-compiler": (
        NumPy,
        linear("ReportsNoCompiler") | {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"})},
    ),
    "bytes-after-record": (NumPy, runtime("BytesAfterRecord")),
    "leftover-file": (NumPy, runtime("LeftoverFile")),
    "leftover-shared-memory": (NumPy, runtime("LeftoverSharedMemory")),
    "leftover-file-of-source": (
        NumPy,
        linear("LeftoverFileOfSource")
        | {"capabilities": attrs.evolve(CAN, data={"synthetic", "synthetic-host"})},
    ),
    "labels-shifted-behind-sender": (NumPy, linear("LabelsShiftedBehindSender")),
    "unrecognized-memory-error": (NumPy, linear("FillsArena")),
    "rewritten-record": (Asynchronous, runtime("RewrittenRecord")),
    "slow-clock": (Asynchronous, runtime("SlowClock")),
    "asynchronous-without-exchange": (
        NumPy,
        runtime("AsynchronousWithoutExchange")
        | {"capabilities": attrs.evolve(CAN, strategies={"all_reduce", "parameter_server_async"})},
    ),
    "every-case-unsupported": (NumPy, linear("EveryCaseUnsupported")),
    "every-error-out-of-memory": (NumPy, runtime("EveryErrorOutOfMemory")),
    "syntax-too-new": (NumPy, {"trainers": {"linear": "newer_than_declared:Linear"}}),
    "syntax-too-new-in-relative-import": (NumPy, {"trainers": {"linear": "newer_relatively:Linear"}}),
    "worker-imports-core": (NumPy, {"trainers": {"linear": "imports_the_core:Linear"}}),
    "encoded-addresses": (NumPy, {"processes": "toy_frameworks:with_encoded_addresses"}),
    "refusal-without-reason": (NumPy, {"explain_refusal": lambda self, spec, options: "no"}),
    "refuses-declared-compiler": (
        NumPy,
        {"capabilities": attrs.evolve(CAN, compilers={"none", "graph"}), "explain_refusal": only_large},
    ),
    "lock-outside-requirements": (NumPy, {"environment": locked}),
}
"""Name of a faulty plugin → the correct plugin, and the attributes that differ."""

CORRECT = (Asynchronous, Events, Narrow, Arena)
FRAMEWORKS = {correct.name: correct for correct in CORRECT} | {
    name: type(
        name,
        (correct,),
        {"name": name, "packages": ("dlperf_numpy", "asynchronous_toy", "late_toy"), **differences},
    )
    for name, (correct, differences) in FAULTY.items()
}
