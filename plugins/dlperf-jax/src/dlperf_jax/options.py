"""The options of the JAX plugin, and the reasons to refuse them. It does not import jax."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.fields import check_boolean, context, factor, whole_number
from dlperf_sdk.spec.run_spec import RunSpec


@frozen
class JaxOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    one_process_per_node: bool = factor(
        "With all_reduce: one process owns all devices of a node instead of one each.",
        False,
        validator=check_boolean,
    )
    loader_workers: int = context(
        "Threads per device that read and decode, for images and text.", 2, validator=whole_number(1, 1024)
    )


def explain_refused_option(options: JaxOptions, spec: RunSpec) -> str | None:
    """Return a sentence that says why an option cannot have its value in the case `spec`; None if all are accepted.

    An option that is not at its default is refused if it has no effect or no support in the case. `spec.device` must
    not be `auto`.
    """
    if not options.one_process_per_node:
        return None
    if spec.topology.devices_per_node == 1:
        return (
            "With one device on a node one_process_per_node changes nothing; leave it at false, or choose a topology "
            "with several devices per node."
        )
    if spec.strategy != "all_reduce":
        return (
            f"With {spec.strategy} every replica has its own process; leave one_process_per_node at false, or "
            "choose all_reduce."
        )
    return None
