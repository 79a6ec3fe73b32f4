"""Every planted fault, and the test or verdict that must catch it. `docs/explanation/faults.md` is this table."""

from __future__ import annotations

import inspect
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.testing.cells import Cell

COMPILED = (("compiler", "graph"),)
COMPANY = (("strategy", "all_reduce"),)


@frozen
class Fault:
    """Something wrong, a few lines over something right."""

    plugin: str
    """The wrong plugin, or trainer."""
    what: str
    """What is wrong, in words."""
    by: str
    """The test of the conformance suite, the verdict, or the trajectory among the model's known mistakes."""
    said: str
    """What must be in its message: it is caught for what it is."""
    model: str = "linear"
    where: tuple[tuple[str, str], ...] = ()
    """What of the cell of the matrix is not plain: in the plainest one the plugin may be right."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the test, beside the model and the cell."""

    def hold(self, suite: Any, tmp_path: Any) -> None:
        """Let the suite's test look at the wrong plugin."""
        test = getattr(suite, self.by)
        cell = Cell((self.model,), **dict(self.where))
        pair = cell if cell.strategy else attrs.evolve(cell, strategy="all_reduce")
        offered = {"model": self.model, "tmp_path": tmp_path, **dict(self.parameters)}
        offered |= {"cell": cell, "pair": pair, "any_cell": cell}
        test(**{name: offered[name] for name in inspect.signature(test).parameters})


BY_CONFORMANCE = (
    Fault(
        "never-waits", "no synchronization at the window's end", "test_synchronize_waits", "before the steps"
    ),
    Fault(
        "always-waits",
        "synchronization in every step",
        "test_step_does_not_synchronize",
        "hardly anything was left",
    ),
    Fault(
        "waits-and-says-so",
        "synchronization in every step, and a clock that says so, on a device that works by itself",
        "test_an_accelerator_works_by_itself",
        "the clock of rank [0] is 'blocking'",
    ),
    Fault(
        "never-waits-compiled",
        "no synchronization at the window's end under a compiler, and only there",
        "test_synchronize_waits",
        "before the steps",
        where=COMPILED,
    ),
    Fault(
        "always-waits-compiled",
        "synchronization in every step under a compiler, and only there",
        "test_step_does_not_synchronize",
        "hardly anything was left",
        where=COMPILED,
    ),
    Fault(
        "waits-for-the-loss",
        "synchronization that waits for the last loss, and not for what the device does after it",
        "test_synchronize_waits",
        "by the device's own events",
    ),
    Fault(
        "never-waits-in-company",
        "no synchronization at the window's end of two replicas",
        "test_synchronize_waits",
        "before the steps",
        where=COMPANY,
    ),
    Fault(
        "always-waits-in-company",
        "synchronization in every step of two replicas",
        "test_step_does_not_synchronize",
        "hardly anything was left",
        where=COMPANY,
    ),
    Fault(
        "waits-on-one-rank",
        "one rank that does not wait at the window's end",
        "test_synchronize_waits",
        "on rank 1",
        where=COMPANY,
    ),
    Fault(
        "says-blocking",
        "the clock `blocking` where steps go on behind the host",
        "test_a_blocking_step_is_done_when_it_returns",
        "much was left to do",
    ),
    Fault(
        "blocking-until-the-loss",
        "the clock `blocking` where a step waits for its loss, and its update goes on behind the host",
        "test_a_blocking_step_is_done_when_it_returns",
        "much was left to do",
    ),
    Fault(
        "before-the-optimizer",
        "a step that is over before its optimizer",
        "test_nothing_changes_after_synchronize",
        "changed after",
    ),
    Fault(
        "one-buffer",
        "all loss handles share a buffer: read late, they hold the last step's loss",
        "test_loss_handles_read_late_are_the_right_losses",
        "read after the window",
    ),
    Fault(
        "one-buffer-compiled",
        "loss handles that share a buffer under a compiler, and only there",
        "test_loss_handles_read_late_are_the_right_losses",
        "read after the window",
        where=COMPILED,
    ),
    Fault(
        "half-the-rate-compiled",
        "another learning rate under a compiler, and only there",
        "test_it_follows_the_reference",
        "The loss of step 1 deviates",
        where=COMPILED,
    ),
    Fault(
        "alone-when-compiled",
        "replicas that are not synchronized under a compiler, and only there",
        "test_replicas_are_equal",
        "different parameters",
        where=COMPILED,
    ),
    Fault("no-memory", "device memory reported as zero", "test_peak_memory_is_plausible", "gives 0 bytes"),
    Fault(
        "imports",
        "the framework imported in the controller half",
        "test_it_imports_no_framework",
        "must not import",
    ),
    Fault(
        "imports-to-refuse",
        "the framework imported in the controller half where it is asked what it refuses, and only there",
        "test_it_imports_no_framework",
        "must not import",
    ),
    Fault(
        "newer-than-declared",
        "a worker half in newer syntax than its declared Python reads",
        "test_it_compiles_on_the_oldest_python_it_declares",
        "is no Python 3.7",
    ),
    Fault(
        "newer-relatively",
        "newer syntax in what a worker half imports relatively",
        "test_it_compiles_on_the_oldest_python_it_declares",
        "newer_relatively/trainer.py",
    ),
    Fault(
        "imports-the-core",
        "a worker half that imports the core",
        "test_it_imports_nothing_of_the_core",
        "dlperf_sdk.errors",
    ),
    Fault(
        "old-lock", "a lock that the requirements do not allow", "test_its_requirements_can_be_read", "1.16.0"
    ),
    Fault(
        "refuses-in-a-word",
        "a refusal that says nothing",
        "test_what_it_refuses_it_says_in_a_sentence",
        "gave 'no'",
    ),
    Fault(
        "refuses-altogether",
        "a compiler that is declared, and refused for every batch that is tried",
        "test_it_refuses_nothing_altogether_that_it_declares",
        "The compiler 'graph' is declared",
        parameters=(("kind", "compiler"),),
    ),
    Fault(
        "own-weights",
        "canonical weights ignored",
        "test_it_starts_from_the_canonical_weights",
        "not the canonical weights: weight",
    ),
    Fault(
        "another-name",
        "a parameter under another name than the manifest's",
        "test_the_parameters_are_the_manifests",
        "where the manifest has",
        "softmax",
    ),
    Fault(
        "transposed",
        "parameters in another layout than the manifest's",
        "test_the_parameters_are_the_manifests",
        "where the manifest has",
        "softmax",
    ),
    Fault(
        "trains-in-deviation",
        "the evidence for the precision trains",
        "test_deviation_leaves_no_trace",
        "changed the",
    ),
    Fault(
        "half-in-the-window",
        "half of the samples in the warm-up and the window, and only there",
        "test_the_window_goes_on_where_the_first_steps_ended",
        "the next steps on the canonical batch have",
    ),
    Fault(
        "slower-in-the-window",
        "nine tenths of the learning rate in the warm-up and the window: each loss is nearest to the right one",
        "test_the_window_goes_on_where_the_first_steps_ended",
        "the next steps on the canonical batch have",
    ),
    Fault(
        "leaves-out-dropout",
        "dropout left out altogether where it is asked for",
        "test_dropout_drops",
        "with dropout 0.5",
        "dropping",
    ),
    Fault(
        "drops-in-its-evidence",
        "dropout in the outputs by which the precision is shown",
        "test_dropout_drops",
        "max deviation from fp32: 0.5",
        "dropping",
    ),
    Fault("every-second-backward", "every second backward skipped", "test_every_step_updates", "False"),
    Fault(
        "one-shard",
        "all replicas train on the same samples",
        "test_replicas_see_different_samples",
        "have other labels",
    ),
    Fault(
        "always-meets",
        "replicas that should be independent are synchronized",
        "test_independent_replicas_do_not_meet",
        "end equal",
    ),
    Fault(
        "pretends",
        "silently falling back to fp32",
        "test_the_requested_precision_is_in_effect",
        "not in effect",
        where=(("precision", "amp-bf16"),),
    ),
    Fault(
        "pretends",
        "a trainer that does not say what compiled",
        "test_the_compiler_compiles",
        "the compiler None",
        parameters=(("compiler", "graph"),),
    ),
    Fault(
        "fabricates-its-evidence",
        "a constant deviation and hard-coded settings",
        "test_the_deviation_follows_the_weights",
        "all weights are NaN, and `deviation` is finite",
    ),
    Fault(
        "echoes-the-precision",
        "the requested precision reported as the one in effect",
        "test_the_observed_settings_do_not_repeat_the_request",
        "`observed` repeats the precision of the request",
    ),
    Fault(
        "echoes-the-compiler",
        "the requested compiler reported as the one in effect",
        "test_the_observed_settings_do_not_repeat_the_request",
        "`observed` repeats the compiler of the request",
    ),
    Fault(
        "out-of-memory-always",
        "every error taken for memory running out",
        "test_memory_that_runs_out_is_told_from_other_errors",
        "True of ValueError",
    ),
    Fault(
        "gives-up",
        "every case said to be beyond this machine, the plainest too",
        "test_it_trains",
        "ended with unsupported",
    ),
    Fault(
        "each-for-itself",
        "asynchronous replicas that exchange nothing",
        "test_replicas_that_wait_for_nobody_learn_from_each_other",
        "has the losses of a replica that trains alone",
        where=(("strategy", "parameter_server_async"),),
    ),
    Fault("leaves-a-file", "a temporary file left behind", "test_it_leaves_nothing_behind", "left in TMPDIR"),
    Fault(
        "leaves-shared-memory",
        "shared memory left behind",
        "test_it_leaves_nothing_behind",
        "/dev/shm/dlperf-planted-",
    ),
    Fault(
        "leaves-what-fed-it",
        "a temporary file left behind by one data source, and only there",
        "test_the_source_feeds_it",
        "left in TMPDIR",
        parameters=(("source", "synthetic-host"),),
    ),
    Fault(
        "has-its-own-words",
        "the framework's own error of memory not known",
        "test_its_own_error_is_told_as_memory_running_out",
        "RuntimeError: the arena is full",
    ),
    Fault("past-its-record", "a worker writing past its record", "test_it_trains", "invalid-record"),
)
BY_VERDICT = (
    Fault("unsynchronized", "replicas not synchronized", "replicas-equal", "different parameters"),
    Fault(
        "meets-in-pairs",
        "four replicas of which two and two meet, as in an all-reduce over the wrong group",
        "replicas-equal",
        "different parameters",
        where=(("topology", "1n4d"),),
    ),
    Fault("smaller-on-one-rank", "one rank training another batch size", "complete-records", "samples"),
    Fault("wrong-sign", "an update of the wrong sign", "loss-falls", "loss"),
    Fault(
        "never-compiles",
        "nothing compiled where a compiler is asked for, and a trainer that says so",
        "as-requested",
        "requested compiler graph, used none",
        where=COMPILED,
    ),
)
BY_WINDOW = (
    Fault(
        "forward-only",
        "from the ninth step on: a forward pass only",
        "window-verified",
        "did not change",
    ),
    Fault(
        "forward-only-every-second",
        "from the ninth step on: every second step a forward pass only",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-at-random",
        "from the ninth step on: steps at random a forward pass only",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-in-one-repeat",
        "from the ninth step on: a forward pass only, in the second of two repeats",
        "window-verified",
        "did not change",
    ),
    Fault(
        "rate-of-zero",
        "from the ninth step on: a learning rate of zero",
        "window-verified",
        "did not change",
    ),
    Fault(
        "half-the-rate",
        "from the ninth step on: half of the learning rate",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "half-the-batch",
        "from the ninth step on: half of the samples",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "stale-batch",
        "from the ninth step on: one batch that is kept, as a graph does whose input is no longer copied",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "stale-gradient",
        "from the ninth step on: updates with one gradient that is kept",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "nothing-from-one-rank",
        "from the ninth step on: one rank's gradients are zeros, and the replicas stay equal",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "alone-from-the-ninth-step",
        "from the ninth step on: replicas that no longer exchange gradients",
        "window-verified",
        "after a reset",
    ),
    Fault(
        "forward-only-until-the-reset",
        "from the ninth step on: every second step a forward pass only, and right again behind a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "randomly-until-the-reset",
        "from the ninth step on: steps at random a forward pass only, and right again behind a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "nothing-until-the-reset",
        "from the ninth step on: every second step does nothing, and right again behind a reset",
        "window-verified",
        "exactly the loss of the step before",
    ),
    Fault(
        "works-behind-the-window",
        "steps that a thread takes when the clock has stopped",
        "window-verified",
        "work is missing in the window",
        where=(("topology", "1n1d"), ("repeats", 3)),
    ),
    Fault(
        "other-numbers",
        "behind the first steps: batches of another seed",
        "window-verified",
        "other labels",
    ),
    Fault(
        "half-batches",
        "behind the first steps: batches of half the size, said to be whole",
        "window-verified",
        "other labels",
    ),
    Fault(
        "one-shard-for-all",
        "behind the first steps: one replica's samples for all",
        "window-verified",
        "other labels",
    ),
)
"""Toy plugins that are right as long as parity and the first steps look: two replicas, two repeats."""
BY_WINDOW_OF_TORCH = (
    Fault(
        "ForwardOnlyResNet",
        "from the ninth step on: a forward pass only",
        "window-verified",
        "did not change",
        "resnet50",
    ),
    Fault(
        "EvaluatesEverySecond",
        "from the ninth step on: batch norm in eval mode, and every second step a forward pass only",
        "window-verified",
        "running means did not change",
        "resnet50",
        where=COMPANY,
    ),
    Fault(
        "EverySecondOfBert",
        "from the ninth step on: every second step a forward pass only",
        "window-verified",
        "the optimizer counted",
        "bert-base",
    ),
    Fault(
        "UpdatesEveryFourth",
        "from the ninth step on: a backward pass in every fourth step only, and right again behind a reset",
        "window-verified",
        "exactly the loss of the step before",
        "resnet50",
    ),
    Fault(
        "RateOfZeroResNet",
        "from the ninth step on: a learning rate of zero",
        "window-verified",
        "did not change",
        "resnet50",
    ),
    Fault(
        "FreezesTheWords",
        "from the ninth step on: the word embeddings without gradients",
        "window-verified",
        "moments did not change",
        "bert-base",
    ),
    Fault(
        "EvaluatesBert",
        "from the ninth step on: evaluation mode, without dropout",
        "window-verified",
        "after a reset",
        "bert-base",
        parameters=(("dropout", "0.5"),),
    ),
    Fault(
        "RepeatsItsFirstImages",
        "images: the loader's first batch, repeated for ever",
        "window-verified",
        "other labels",
        "resnet50",
        parameters=(("data", "images"),),
    ),
    Fault(
        "RepeatsItsFirstText",
        "text: the loader's first batch, repeated for ever",
        "window-verified",
        "other labels",
        "bert-base",
        parameters=(("data", "text"),),
    ),
    Fault(
        "RepeatsTheWarmUp",
        "text: the batches of the warm-up, cached and repeated",
        "window-verified",
        "other labels",
        "bert-base",
        parameters=(("data", "text"),),
    ),
    Fault(
        "OneShardOfText",
        "text: one replica's samples for both",
        "window-verified",
        "other labels",
        "bert-base",
        where=COMPANY,
        parameters=(("data", "text"),),
    ),
)
"""Trainers of torch that are right as long as parity and the first steps look."""
BY_AGENT = (
    Fault(
        "rewrites-its-record",
        "a record written anew when the worker stops, with a third of the time",
        "invalid-record",
        "its agent saw it measure",
    ),
    Fault(
        "slows-the-clock",
        "an interpreter whose clock runs at a third of its speed",
        "invalid-record",
        "its agent saw it measure",
    ),
)
"""What the node's agent contradicts, who has a clock of its own."""
BY_PARITY = (
    Fault(
        "sum-over-the-batch", "gradients summed over the batch", "parity", "gradients summed over the batch"
    ),
    Fault("loss-of-the-step-before", "the loss of a stale step", "parity", "The loss of step 1 deviates"),
    Fault("one-buffer", "the loss of the last step for all", "parity", "The loss of step 0 deviates"),
    Fault(
        "leaves-its-trace",
        "what is computed as the precision's evidence moves the steps behind it, and no parameter",
        "parity",
        "The loss of step 1 deviates",
    ),
    Fault(
        "first-of-all",
        "replicas equal but all wrong: every one updates with the first one's gradients",
        "parity",
        "every replica updates with the first replica's gradients",
    ),
    Fault(
        "summed",
        "gradients summed over the replicas instead of averaged",
        "parity",
        "gradients summed over the replicas instead of averaged",
    ),
    Fault(
        "postpones-the-exchange",
        "replicas that meet only where somebody waits for them, and not in every step",
        "parity",
        "The loss of step 2 deviates",
    ),
    Fault(
        "secretly-smaller", "one rank training another batch size, and saying nothing", "parity", "deviate"
    ),
)
"""Toy plugins whose runs parity must catch; the words are of the known mistake, or of what deviates."""

BY_TRAJECTORY = (
    Fault(
        "V1Stride",
        "ResNet-50 v1: the stride in the first 1×1 convolution",
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
        "batch norm momentum 0.9 for 0.1",
        "parity",
        "batch norm moves its running statistics by 0.9 of the new ones",
        "resnet50",
    ),
    Fault("NoLabelSmoothing", "missing label smoothing", "parity", "no label smoothing", "resnet50"),
    Fault(
        "SummedLoss", "the loss summed over the batch", "parity", "the loss summed over the batch", "resnet50"
    ),
    Fault(
        "DecaysEverywhere",
        "weight decay on batch norm and biases",
        "parity",
        "weight decay on batch norm and biases",
        "resnet50",
    ),
    Fault(
        "EverySecondBackward",
        "every second update skipped",
        "parity",
        "The loss of step 2 deviates",
        "resnet50",
    ),
    Fault(
        "TanhGelu", "the tanh approximation of GELU", "parity", "the tanh approximation of GELU", "bert-base"
    ),
    Fault("LayerNormEpsilon", "layer norm epsilon 1e-5", "parity", "layer norm epsilon 1e-5", "bert-base"),
    Fault("AdamEpsilon", "a wrong epsilon in Adam", "parity", "Adam epsilon 1e-8", "bert-base"),
    Fault(
        "CoupledDecay",
        "weight decay coupled instead of decoupled",
        "parity",
        "weight decay coupled: added to the gradient",
        "bert-base",
    ),
    Fault(
        "BertDecaysEverywhere",
        "weight decay on layer norm and biases",
        "parity",
        "weight decay on layer norm and biases",
        "bert-base",
    ),
    Fault(
        "NoClipping",
        "the clip of the gradients' norm missing",
        "parity",
        "gradients are not clipped",
        "bert-base",
    ),
    Fault("DropoutOn", "dropout left on in parity", "parity", "The loss of step 0 deviates", "bert-base"),
    Fault(
        "NoNextSentence", "the next-sentence loss left out", "parity", "no next-sentence loss", "bert-base"
    ),
    Fault("SilentlyFp32", "fp32 where amp-bf16 is asked for", "parity", "it was not in effect", "bert-base"),
)
"""Trainers of torch, whose first steps are followed in one process."""

BY_PAIR = (
    Fault(
        "SynchronizedBatchNorm",
        "batch norm synchronized where local is asked for",
        "parity",
        "batch norm synchronized over the replicas",
        "resnet50",
    ),
)
"""Trainers of torch that are wrong in company only."""

BY_OTHER_CASES = (
    Fault(
        "FirstMicroBatch",
        "gradient accumulation that trains on the first micro-batch only",
        "test_accumulated_gradients_follow_the_reference",
        "The loss of step 0 deviates",
        "bert-base",
    ),
    Fault(
        "FrozenResiduals",
        "no gradient for the convolutions of the residual branches",
        "test_it_follows_the_models_other_references",
        "layer1.0.conv1.weight",
        "resnet50",
    ),
)
"""Trainers of torch that the plainest case cannot show to be wrong."""

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
