"""The options of the TensorFlow plugin, and the reasons to refuse some of them. It does not import TensorFlow."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.interfaces.framework import explain_unused_collective, explain_unused_nccl
from dlperf_sdk.spec.fields import check_boolean, context, factor, whole_number
from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class TensorFlowOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    one_process_per_node: bool = factor(
        "With all_reduce: one process owns all devices of a node (MirroredStrategy) instead of one each.",
        False,
        validator=check_boolean,
    )
    pack_mb: int = factor(
        "With all_reduce: MiB of gradients that are averaged together; 0: all of them at once.",
        0,
        validator=whole_number(0, 65536),
    )
    nccl: bool = factor(
        "With all_reduce: average gradients with NCCL; false: over gRPC rings, or on one GPU of the process (CUDA).",
        True,
        validator=check_boolean,
    )
    loader_workers: int = context(
        "Samples per device that are read and decoded in parallel, for images and text.",
        2,
        validator=whole_number(1, 1024),
    )


def explain_refused_option(options: TensorFlowOptions, spec: RunSpec) -> str | None:
    """Return a sentence that says why an option cannot have its value in the case `spec`; None if all are accepted.

    An option that is not at its default is refused if it has no effect or no support in the case. `spec.device` must
    not be `auto`.
    """
    if options.one_process_per_node:
        reason = _one_process_per_node(spec)
        if reason:
            return reason
    if options.pack_mb and (reason := _pack_mb(options, spec)):
        return reason
    return explain_unused_nccl(spec, options.nccl)


def _one_process_per_node(spec: RunSpec) -> str | None:
    if spec.topology.devices_per_node == 1:
        return (
            "With one device on a node one_process_per_node changes nothing; leave it at false, or choose a topology "
            "with several devices per node."
        )
    if spec.strategy == "parameter_server_async":
        return (
            "With parameter_server_async every device has its own server; leave one_process_per_node at false, "
            "or choose all_reduce."
        )
    if spec.strategy != "all_reduce":
        return (
            f"With {spec.strategy} every replica has its own process; leave one_process_per_node at false, or "
            "choose all_reduce."
        )
    return _explain_cpu_limits(spec) if spec.device == "cpu" else None


def _explain_cpu_limits(spec: RunSpec) -> str | None:
    """Return the reason why one process cannot own several CPU devices in the case; None if it can."""
    if spec.topology.nodes != 1:
        return (
            "TensorFlow's MultiWorkerMirroredStrategy takes one CPU device of each process; on several nodes leave "
            "one_process_per_node at false."
        )
    if spec.compiler == "xla":
        return (
            "XLA compiles for the first CPU device of a process only; leave one_process_per_node at false, or choose "
            "the compiler none."
        )
    return None


def _pack_mb(options: TensorFlowOptions, spec: RunSpec) -> str | None:
    reason = explain_unused_collective(spec, "pack_mb", "0")
    if reason is None and options.one_process_per_node and spec.device == "cpu":
        return (
            "On the CPU devices of one process TensorFlow adds up one gradient after another (ReductionToOneDevice) "
            "and packs none; leave pack_mb at 0, or one_process_per_node at false."
        )
    return reason
