"""The learning rate at each step and the weight decay of each parameter, in one place for all frameworks."""

from typing import Any, Iterable, List, Mapping, Tuple


def learning_rate(optimizer: Mapping[str, Any], policy: str, step: int) -> float:
    """Return the rate of the optimization step `step`, counted from 0, the first step that the process takes.

    `optimizer` holds the numbers of `dlperf_sdk.interfaces.model.Optimizer`. Policy `constant`: always
    `learning_rate`. Policy `warmup`: a straight line that starts from zero before the first step and reaches
    `warmup_learning_rate` with the step `warmup_steps` - 1, then that rate; so every step moves the weights.

    Raises ValueError for another policy.
    """
    if policy == "constant":
        return float(optimizer["learning_rate"])
    if policy == "warmup":
        return float(optimizer["warmup_learning_rate"] * min(1.0, (step + 1) / optimizer["warmup_steps"]))
    raise ValueError("the learning rate policy is %r; it must be constant or warmup" % (policy,))


def decay_groups(
    manifest: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any], weight_decay: float
) -> List[Tuple[List[Any], float]]:
    """Return the parameters that decay and those that do not, in the manifest's order, each with its weight decay."""
    entries = list(manifest)
    return [
        (
            [parameters[entry["name"]] for entry in entries if entry["decay"] is decays],
            weight_decay if decays else 0.0,
        )
        for decays in (True, False)
    ]
