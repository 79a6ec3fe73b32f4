"""Every planted fault, and the test or verdict that must catch it. `docs/faults.md` is this table."""

from __future__ import annotations

import inspect
from typing import Any

from attrs import frozen


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
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the test, beside the model."""

    def hold(self, suite: Any, tmp_path: Any) -> None:
        """Let the suite's test look at the wrong plugin."""
        test = getattr(suite, self.by)
        offered = {"model": self.model, "tmp_path": tmp_path, **dict(self.parameters)}
        test(**{name: offered[name] for name in inspect.signature(test).parameters})


TOY = "asynchronous toy"
BY_CONFORMANCE = (
    Fault(
        "never-waits", "no synchronisation at the window's end", "test_synchronize_waits", "before the steps"
    ),
    Fault(
        "always-waits",
        "synchronisation in every step",
        "test_step_does_not_synchronise",
        "hardly anything was left",
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
    Fault("no-memory", "device memory reported as zero", "test_peak_memory_is_plausible", "gives 0 bytes"),
    Fault(
        "imports",
        "the framework imported in the controller half",
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
    Fault("every-second-backward", "every second backward skipped", "test_every_step_updates", "False"),
    Fault(
        "one-shard",
        "all replicas train on the same samples",
        "test_replicas_see_different_samples",
        "on their first batch",
        parameters=(("strategy", "all_reduce"),),
    ),
    Fault(
        "always-meets",
        "replicas that should be independent are synchronised",
        "test_independent_replicas_do_not_meet",
        "end equal",
    ),
    Fault(
        "pretends",
        "silently falling back to fp32",
        "test_the_requested_precision_is_in_effect",
        "not in effect",
        parameters=(("precision", "amp-bf16"),),
    ),
    Fault(
        "pretends",
        "a compiler request ignored",
        "test_the_compiler_compiles",
        "the compiler None",
        parameters=(("compiler", "graph"),),
    ),
    Fault(
        "out-of-memory-always",
        "every error taken for memory running out",
        "test_memory_that_runs_out_is_told_from_other_errors",
        "'ValueError': True",
    ),
    Fault("leaves-a-file", "a temporary file left behind", "test_it_leaves_nothing_behind", "left in TMPDIR"),
    Fault("past-its-record", "a worker writing past its record", "test_it_trains", "invalid-record"),
)
BY_VERDICT = (
    Fault("unsynchronised", "replicas not synchronised", "replicas-equal", "different parameters"),
    Fault("smaller-on-one-rank", "one rank training another batch size", "complete-records", "samples"),
    Fault("wrong-sign", "an update of the wrong sign", "loss-falls", "loss"),
)
