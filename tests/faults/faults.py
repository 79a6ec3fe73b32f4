"""The planted faults, each with the test or verdict that must detect it: the table in `docs/explanation/faults.md`."""

from __future__ import annotations

import inspect
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.testing.cells import Cell

COMPILED = (("compiler", "graph"),)
TWO_REPLICAS = (("strategy", "all_reduce"),)


@frozen
class Fault:
    """A deliberate fault, which changes a few lines of a correct plugin or trainer."""

    plugin: str
    """Name of the faulty plugin, or of the faulty trainer's class."""
    description: str
    """What is wrong."""
    detector: str
    """The test of the conformance suite, the verdict, or the kind of failure that must detect it."""
    message: str
    """Text that the detector's message must contain, so that the fault is detected for the right reason."""
    model: str = "linear"
    """Name of the model that is trained."""
    where: tuple[tuple[str, str], ...] = ()
    """Fields of the cell, or of the run, in which the fault shows, where they differ from the default."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Arguments of the detecting test, besides the model and the cell."""

    def run_detector(self, suite: Any, tmp_path: Any) -> None:
        """Run the detecting test of a conformance suite on the faulty plugin."""
        test = getattr(suite, self.detector)
        cell = Cell((self.model,), **dict(self.where))
        pair = cell if cell.strategy else attrs.evolve(cell, strategy="all_reduce")
        arguments = {"model": self.model, "tmp_path": tmp_path, **dict(self.parameters)}
        arguments |= {"cell": cell, "pair": pair, "any_cell": cell}
        test(**{name: arguments[name] for name in inspect.signature(test).parameters})


BY_CONFORMANCE = (
    Fault("no-synchronization", "`synchronize` does nothing", "test_synchronize_waits", "before the steps"),
    Fault(
        "synchronizes-every-step",
        "every step synchronizes the device",
        "test_step_does_not_synchronize",
        "hardly anything was left",
    ),
    Fault(
        "synchronizes-with-blocking-clock",
        "every step synchronizes an asynchronous device, and the clock is declared `blocking`",
        "test_accelerator_is_asynchronous",
        "the clock of rank [0] is 'blocking'",
    ),
    Fault(
        "no-synchronization-compiled",
        "`synchronize` does nothing when a compiler is requested",
        "test_synchronize_waits",
        "before the steps",
        where=COMPILED,
    ),
    Fault(
        "synchronizes-every-step-compiled",
        "every step synchronizes the device when a compiler is requested",
        "test_step_does_not_synchronize",
        "hardly anything was left",
        where=COMPILED,
    ),
    Fault(
        "synchronizes-loss-only",
        "`synchronize` waits for the last loss, but not for the device's work after it",
        "test_synchronize_waits",
        "by the device's own events",
    ),
    Fault(
        "no-synchronization-two-replicas",
        "`synchronize` does nothing when there are two replicas",
        "test_synchronize_waits",
        "before the steps",
        where=TWO_REPLICAS,
    ),
    Fault(
        "synchronizes-every-step-two-replicas",
        "every step synchronizes the device when there are two replicas",
        "test_step_does_not_synchronize",
        "hardly anything was left",
        where=TWO_REPLICAS,
    ),
    Fault(
        "synchronizes-on-rank-0-only",
        "`synchronize` does nothing on one of two ranks",
        "test_synchronize_waits",
        "on rank 1",
        where=TWO_REPLICAS,
    ),
    Fault(
        "blocking-clock-but-asynchronous",
        "the clock is declared `blocking`, but `step` returns while the device is computing",
        "test_blocking_step_completes_before_returning",
        "much was left to do",
    ),
    Fault(
        "blocking-clock-loss-only",
        "the clock is declared `blocking`, but `step` waits for the loss only, not for the update",
        "test_blocking_step_completes_before_returning",
        "much was left to do",
    ),
    Fault(
        "returns-before-optimizer",
        "the loss handle is ready before the optimizer's update",
        "test_nothing_changes_after_synchronize",
        "changed after",
    ),
    Fault(
        "shared-loss-buffer",
        "all loss handles share one buffer, so that reading them later gives the last step's loss",
        "test_loss_handles_stay_valid",
        "read after the window",
    ),
    Fault(
        "shared-loss-buffer-compiled",
        "all loss handles share one buffer when a compiler is requested",
        "test_loss_handles_stay_valid",
        "read after the window",
        where=COMPILED,
    ),
    Fault(
        "half-learning-rate-compiled",
        "half of the learning rate when a compiler is requested",
        "test_follows_reference",
        "The loss of step 1 deviates",
        where=COMPILED,
    ),
    Fault(
        "no-exchange-compiled",
        "gradients are not exchanged when a compiler is requested",
        "test_replicas_are_equal",
        "different parameters",
        where=COMPILED,
    ),
    Fault(
        "zero-device-memory",
        "peak device memory reported as zero",
        "test_peak_memory_is_plausible",
        "gives 0 bytes",
    ),
    Fault(
        "controller-imports-framework",
        "the controller half imports the framework",
        "test_controller_half_imports_no_framework",
        "must not import",
    ),
    Fault(
        "refusal-imports-framework",
        "`explain_refusal` imports the framework",
        "test_controller_half_imports_no_framework",
        "must not import",
    ),
    Fault(
        "encoded-addresses",
        "the variables contain the addresses of all nodes in an encoded form",
        "test_nodes_list_their_processes_with_the_addresses_that_they_get",
        "would not find each other",
    ),
    Fault(
        "syntax-too-new",
        "the worker half uses newer syntax than its oldest declared Python has",
        "test_worker_half_parses_on_oldest_python",
        "is not valid Python 3.7",
    ),
    Fault(
        "syntax-too-new-in-relative-import",
        "a module that the worker half imports relatively uses newer syntax than its oldest declared Python has",
        "test_worker_half_parses_on_oldest_python",
        "newer_relatively/trainer.py",
    ),
    Fault(
        "worker-imports-core",
        "the worker half imports the core",
        "test_worker_half_imports_nothing_of_core",
        "dlperf_sdk.errors",
    ),
    Fault(
        "lock-outside-requirements",
        "the lock has a version that the requirements exclude",
        "test_requirements_are_valid",
        "1.16.0",
    ),
    Fault(
        "refusal-without-reason",
        "`explain_refusal` gives one word instead of a reason",
        "test_refused_values_have_a_reason",
        "gave 'no'",
    ),
    Fault(
        "refuses-declared-compiler",
        "a declared compiler is refused in every tested case",
        "test_declared_values_are_not_always_refused",
        "The compiler 'graph' is declared",
        parameters=(("kind", "compiler"),),
    ),
    Fault(
        "non-canonical-weights",
        "training starts from other weights than the canonical ones",
        "test_starts_from_canonical_weights",
        "not the canonical weights: weight",
    ),
    Fault(
        "misnamed-parameter",
        "a parameter has another name than in the manifest",
        "test_parameters_match_manifest",
        "where the manifest has",
        "softmax",
    ),
    Fault(
        "transposed-parameter",
        "parameters have another layout than in the manifest",
        "test_parameters_match_manifest",
        "where the manifest has",
        "softmax",
    ),
    Fault(
        "deviation-trains",
        "`deviation` takes a training step",
        "test_deviation_has_no_side_effects",
        "changed the",
    ),
    Fault(
        "half-batch-in-window",
        "half of the samples in warm-up and window; the first steps are correct",
        "test_window_continues_first_steps",
        "the next steps on the canonical batch have",
    ),
    Fault(
        "lower-learning-rate-in-window",
        "nine tenths of the learning rate in warm-up and window; the first steps are correct",
        "test_window_continues_first_steps",
        "the next steps on the canonical batch have",
    ),
    Fault(
        "no-dropout",
        "no dropout although it is requested",
        "test_dropout_is_in_effect",
        "with dropout 0.5",
        "dropping",
    ),
    Fault(
        "dropout-in-deviation",
        "dropout in the outputs that `deviation` compares",
        "test_dropout_is_in_effect",
        "max deviation from fp32: 0.5",
        "dropping",
    ),
    Fault(
        "backward-every-second-step",
        "every second backward pass is skipped",
        "test_every_step_updates",
        "False",
    ),
    Fault(
        "same-shard-on-all-replicas",
        "all replicas train on the same samples",
        "test_replicas_see_different_samples",
        "have other labels",
    ),
    Fault(
        "independent-replicas-synchronized",
        "gradients are exchanged although the strategy is `independent`",
        "test_independent_replicas_exchange_nothing",
        "end equal",
    ),
    Fault(
        "input-that-trains",
        "with the part `input`, each step trains on its batch",
        "test_input_is_taken_alone",
        "must not train",
    ),
    Fault(
        "half-of-the-input",
        "with the part `input`, only half of each batch is taken",
        "test_input_is_taken_alone",
        "have other labels",
    ),
    Fault(
        "trace-without-operators",
        "the profiler's trace has no event that the plugin declares as work",
        "test_trace_has_a_summary",
        "has no event that stands for work",
    ),
    Fault(
        "communication-without-exchange",
        "with the part `communication`, nothing is exchanged",
        "test_communication_is_exchanged_alone",
        "do not hold the mean",
    ),
    Fault(
        "communication-of-one-element",
        "with the part `communication`, one element is exchanged instead of all gradients",
        "test_communication_is_exchanged_alone",
        "1 elements, and the model has",
    ),
    Fault(
        "independent-replicas-synchronized",
        "with the part `compute`, gradients are exchanged",
        "test_compute_exchanges_nothing",
        "end equal",
    ),
    Fault(
        "fp32-reported-as-requested",
        "falls back to fp32 without a message",
        "test_requested_precision_is_in_effect",
        "not in effect",
        where=(("precision", "amp-bf16"),),
    ),
    Fault(
        "fp32-reported-as-requested",
        "the trainer does not report which compiler was used",
        "test_requested_compiler_is_in_effect",
        "the compiler None",
        parameters=(("compiler", "graph"),),
    ),
    Fault(
        "constant-evidence",
        "`deviation` returns a constant, and `observed` hard-coded settings",
        "test_deviation_depends_on_weights",
        "all weights are NaN, and `deviation` is finite",
    ),
    Fault(
        "echoed-precision",
        "`observed` repeats the requested precision",
        "test_observed_settings_are_not_copied_from_request",
        "`observed` repeats the precision of the request",
    ),
    Fault(
        "echoed-compiler",
        "`observed` repeats the requested compiler",
        "test_observed_settings_are_not_copied_from_request",
        "`observed` repeats the compiler of the request",
    ),
    Fault(
        "unknown-source-accepted",
        "an unknown data source is replaced by synthetic data",
        "test_unknown_names_are_refused",
        "as data, nothing is raised",
    ),
    Fault(
        "unknown-compiler-accepted",
        "an unknown compiler is ignored",
        "test_unknown_names_are_refused",
        "as compiler, nothing is raised",
    ),
    Fault(
        "unknown-layout-accepted",
        "an unknown layout is replaced by the framework's choice",
        "test_unknown_names_are_refused",
        "as layout, nothing is raised",
    ),
    Fault(
        "every-error-out-of-memory",
        "every error is classified as out of memory",
        "test_out_of_memory_is_distinguished_from_other_errors",
        "True of ValueError",
    ),
    Fault(
        "every-case-unsupported",
        "every case raises `Unsupported`, even the default one",
        "test_trains",
        "ended with unsupported",
    ),
    Fault(
        "asynchronous-without-exchange",
        "replicas of an asynchronous strategy exchange nothing",
        "test_asynchronous_replicas_exchange_updates",
        "has the losses of a replica that trains alone",
        where=(("strategy", "parameter_server_async"),),
    ),
    Fault(
        "leftover-file",
        "a temporary file is not removed",
        "test_no_files_or_processes_are_left",
        "left in TMPDIR",
    ),
    Fault(
        "leftover-shared-memory",
        "a shared-memory segment is not removed",
        "test_no_files_or_processes_are_left",
        "/dev/shm/dlperf-planted-",
    ),
    Fault(
        "leftover-file-of-source",
        "a temporary file of one data source is not removed",
        "test_trains_from_data_source",
        "left in TMPDIR",
        parameters=(("source", "synthetic-host"),),
    ),
    Fault(
        "labels-shifted-behind-sender",
        "in batches from a sender process, each sample has the label of its neighbor",
        "test_trains_from_data_source",
        "other labels",
        parameters=(("source", "zmq"),),
    ),
    Fault(
        "unrecognized-memory-error",
        "the framework's own out-of-memory error is not recognized",
        "test_own_out_of_memory_error_is_recognized",
        "RuntimeError: the arena is full",
    ),
    Fault(
        "bytes-after-record",
        "bytes are written after the worker's record",
        "test_trains",
        "invalid-record",
    ),
)
BY_VERDICT = (
    Fault("no-exchange", "replicas do not exchange gradients", "replicas-equal", "different parameters"),
    Fault(
        "exchange-in-pairs",
        "four replicas exchange gradients in pairs, as in an all-reduce over the wrong group",
        "replicas-equal",
        "different parameters",
        where=(("topology", "1n4d"),),
    ),
    Fault("smaller-batch-on-one-rank", "one rank trains on a smaller batch", "complete-records", "samples"),
    Fault("wrong-gradient-sign", "the gradient has the wrong sign", "loss-falls", "loss"),
    Fault(
        "reports-no-compiler",
        "nothing is compiled although a compiler is requested, and `observed` reports this",
        "as-requested",
        "requested compiler graph, used none",
        where=COMPILED,
    ),
)
BY_WINDOW = (
    Fault(
        "forward-only",
        "from step 8 on: forward pass only",
        "window-verified",
        "did not change",
    ),
    Fault(
        "forward-only-every-second-step",
        "from step 8 on: every second step is a forward pass only",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-at-random",
        "from step 8 on: random steps are a forward pass only",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-in-one-repeat",
        "from step 8 on: forward pass only, in the second of two repeats",
        "window-verified",
        "did not change",
    ),
    Fault(
        "zero-learning-rate",
        "from step 8 on: learning rate zero",
        "window-verified",
        "did not change",
    ),
    Fault(
        "half-learning-rate",
        "from step 8 on: half of the learning rate",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "half-batch",
        "from step 8 on: half of the samples",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "stale-batch",
        "from step 8 on: every step trains on one stored batch, like a captured graph whose input is not updated",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "stale-gradient",
        "from step 8 on: every update uses one stored gradient",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "zero-gradients-from-one-rank",
        "from step 8 on: one rank's gradients are zero, so that replicas stay equal",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "no-exchange-from-step-8",
        "from step 8 on: replicas no longer exchange gradients",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-until-reset",
        "from step 8 on: every second step is a forward pass only; correct again after a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "forward-only-at-random-until-reset",
        "from step 8 on: random steps are a forward pass only; correct again after a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "no-work-until-reset",
        "from step 8 on: every second step does nothing; correct again after a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "works-after-window",
        "a thread does the steps' work after the window",
        "window-verified",
        "work is missing in the window",
        where=(("topology", "1n1d"), ("repeats", 3)),
    ),
    Fault(
        "other-seed-after-first-steps",
        "after the first steps: batches of another seed",
        "window-verified",
        "other labels",
    ),
    Fault(
        "half-batches-after-first-steps",
        "after the first steps: half of each batch, reported as whole",
        "window-verified",
        "other labels",
    ),
    Fault(
        "one-shard-after-first-steps",
        "after the first steps: all replicas train on one replica's samples",
        "window-verified",
        "other labels",
    ),
)
"""Faults of toy plugins whose first steps are correct; two replicas, two repeats."""
BY_WINDOW_OF_TORCH = (
    Fault(
        "ForwardOnlyResNet",
        "from step 8 on: forward pass only",
        "window-verified",
        "did not change",
        "resnet50",
    ),
    Fault(
        "BatchNormEvalEverySecondStep",
        "from step 8 on: batch norm in evaluation mode, and every second step is a forward pass only",
        "window-verified",
        "running means did not change",
        "resnet50",
        where=TWO_REPLICAS,
    ),
    Fault(
        "ForwardOnlyEverySecondStepBert",
        "from step 8 on: every second step is a forward pass only",
        "window-verified",
        "the optimizer counted",
        "bert-base",
    ),
    Fault(
        "BackwardEveryFourthStep",
        "from step 8 on: backward pass in every fourth step only; correct again after a reset",
        "window-verified",
        "exactly the loss of the step before",
        "resnet50",
    ),
    Fault(
        "ZeroLearningRateResNet",
        "from step 8 on: learning rate zero",
        "window-verified",
        "did not change",
        "resnet50",
    ),
    Fault(
        "FrozenWordEmbeddings",
        "from step 8 on: the word embeddings get no gradient",
        "window-verified",
        "moments did not change",
        "bert-base",
    ),
    Fault(
        "EvalModeBert",
        "from step 8 on: evaluation mode, without dropout",
        "window-verified",
        "after a reset",
        "bert-base",
        parameters=(("dropout", "0.5"),),
    ),
    Fault(
        "RepeatedFirstImages",
        "`images`: the loader repeats its first batch",
        "window-verified",
        "other labels",
        "resnet50",
        parameters=(("data", "images"),),
    ),
    Fault(
        "RepeatedFirstText",
        "`text`: the loader repeats its first batch",
        "window-verified",
        "other labels",
        "bert-base",
        parameters=(("data", "text"),),
    ),
    Fault(
        "RepeatedWarmUpText",
        "`text`: the batches of the warm-up are cached and repeated",
        "window-verified",
        "other labels",
        "bert-base",
        parameters=(("data", "text"),),
    ),
    Fault(
        "SameTextOnBothReplicas",
        "`text`: both replicas train on one replica's samples",
        "window-verified",
        "other labels",
        "bert-base",
        where=TWO_REPLICAS,
        parameters=(("data", "text"),),
    ),
)
"""Faults of torch trainers whose first steps are correct."""
BY_AGENT = (
    Fault(
        "rewritten-record",
        "the worker replaces its record at the end, with a third of the time",
        "invalid-record",
        "its agent saw it measure",
    ),
    Fault(
        "slow-clock",
        "the interpreter's clock runs at a third of its speed",
        "invalid-record",
        "its agent saw it measure",
    ),
)
"""Faults that the node's agent detects by its own clock."""
BY_PARITY = (
    Fault(
        "gradients-summed-over-batch",
        "gradients are summed over the batch",
        "parity",
        "gradients summed over the batch",
    ),
    Fault(
        "loss-of-previous-step",
        "the loss of the previous step is returned",
        "parity",
        "The loss of step 1 deviates",
    ),
    Fault(
        "shared-loss-buffer",
        "every loss handle gives the loss of the last step",
        "parity",
        "The loss of step 0 deviates",
    ),
    Fault(
        "deviation-changes-steps",
        "`deviation` changes the steps after it, but no parameter",
        "parity",
        "The loss of step 1 deviates",
    ),
    Fault(
        "gradients-of-first-replica",
        "every replica updates with the first replica's gradients, so that replicas stay equal",
        "parity",
        "every replica updates with the first replica's gradients",
    ),
    Fault(
        "gradients-summed-over-replicas",
        "gradients are summed over the replicas instead of averaged",
        "parity",
        "gradients summed over the replicas instead of averaged",
    ),
    Fault(
        "exchange-at-synchronize-only",
        "weights are averaged in `synchronize` only, not gradients in every step",
        "parity",
        "The loss of step 2 deviates",
    ),
    Fault(
        "smaller-batch-on-one-rank-unreported",
        "one rank trains on a smaller batch and reports the full size",
        "parity",
        "deviate",
    ),
)
"""Faults of toy plugins that parity must detect; the message names the known mistake, or the loss that deviates."""

BY_TRAJECTORY = (
    Fault(
        "V1Stride",
        "ResNet-50 v1: the stride is in the first 1×1 convolution",
        "parity",
        "the stride in a bottleneck's first 1×1 convolution (v1)",
        "resnet50",
    ),
    Fault(
        "SamePadding",
        'asymmetric "same" padding',
        "parity",
        'asymmetric "same" padding where the stride is 2',
        "resnet50",
    ),
    Fault("BatchNormEpsilon", "batch norm epsilon 1e-3", "parity", "batch norm epsilon 1e-3", "resnet50"),
    Fault(
        "BatchNormMomentum",
        "batch norm momentum 0.9 instead of 0.1",
        "parity",
        "batch norm moves its running statistics by 0.9 of the new ones",
        "resnet50",
    ),
    Fault("NoLabelSmoothing", "no label smoothing", "parity", "no label smoothing", "resnet50"),
    Fault(
        "SummedLoss",
        "the loss is summed over the batch",
        "parity",
        "the loss summed over the batch",
        "resnet50",
    ),
    Fault(
        "DecaysEveryParameter",
        "weight decay on batch norm and biases",
        "parity",
        "weight decay on batch norm and biases",
        "resnet50",
    ),
    Fault(
        "BackwardEverySecondStep",
        "every second update is skipped",
        "parity",
        "The loss of step 2 deviates",
        "resnet50",
    ),
    Fault(
        "TanhGelu", "the tanh approximation of GELU", "parity", "the tanh approximation of GELU", "bert-base"
    ),
    Fault("LayerNormEpsilon", "layer norm epsilon 1e-5", "parity", "layer norm epsilon 1e-5", "bert-base"),
    Fault("AdamEpsilon", "Adam epsilon 1e-8", "parity", "Adam epsilon 1e-8", "bert-base"),
    Fault(
        "CoupledDecay",
        "weight decay is added to the gradient (coupled) instead of decoupled",
        "parity",
        "weight decay coupled: added to the gradient",
        "bert-base",
    ),
    Fault(
        "DecaysEveryParameterBert",
        "weight decay on layer norm and biases",
        "parity",
        "weight decay on layer norm and biases",
        "bert-base",
    ),
    Fault(
        "NoClipping",
        "gradients are not clipped",
        "parity",
        "gradients are not clipped",
        "bert-base",
    ),
    Fault(
        "DropoutOn",
        "dropout is active in the parity run",
        "parity",
        "The loss of step 0 deviates",
        "bert-base",
    ),
    Fault("NoNextSentence", "no next-sentence loss", "parity", "no next-sentence loss", "bert-base"),
    Fault(
        "SilentlyFp32", "fp32 although amp-bf16 is requested", "parity", "it was not in effect", "bert-base"
    ),
)
"""Faults of torch trainers that parity must detect in one process."""

BY_PAIR = (
    Fault(
        "SynchronizedBatchNorm",
        "batch norm is synchronized although local batch norm is requested",
        "parity",
        "batch norm synchronized over the replicas",
        "resnet50",
    ),
)
"""Faults of torch trainers that show with several replicas only."""

BY_OTHER_CASES = (
    Fault(
        "FirstMicroBatch",
        "gradient accumulation trains on the first micro-batch only",
        "test_gradient_accumulation_follows_reference",
        "The loss of step 0 deviates",
        "bert-base",
    ),
    Fault(
        "FrozenResiduals",
        "the convolutions of the residual branches get no gradient",
        "test_follows_other_references",
        "layer1.0.conv1.weight",
        "resnet50",
    ),
    Fault(
        "FirstRate",
        "the learning rate of the first step at every step, like a captured graph that holds it as a number",
        "test_follows_other_references",
        "the learning rate of the first step at every step",
        "resnet50",
    ),
)
"""Faults of torch trainers that the default case cannot show."""

ALL = (
    *BY_CONFORMANCE,
    *BY_VERDICT,
    *BY_WINDOW,
    *BY_WINDOW_OF_TORCH,
    *BY_AGENT,
    *BY_PARITY,
    *BY_TRAJECTORY,
    *BY_PAIR,
    *BY_OTHER_CASES,
)
