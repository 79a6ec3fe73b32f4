"""The learning rate at each step and the weight decay of each parameter, in one place for all frameworks."""

from typing import Any, Iterable, List, Mapping, Tuple


def learning_rate(optimizer: Mapping[str, Any], policy: str, step: int) -> float:
    """Return the learning rate of an optimization step.

    The policy `constant` gives `learning_rate` at every step. The policy `warmup` gives
    `warmup_learning_rate` · min(1, (step + 1) / `warmup_steps`), which is positive already at step 0.

    Args:
        optimizer: The hyperparameters of `dlperf_sdk.interfaces.model.Optimizer` by name.
        policy: `constant` or `warmup`.
        step: Number of steps before this one, since the trainer was built or reset.

    Raises:
        ValueError: The policy is unknown.
    """
    if policy == "constant":
        return float(optimizer["learning_rate"])
    if policy == "warmup":
        return float(optimizer["warmup_learning_rate"] * min(1.0, (step + 1) / optimizer["warmup_steps"]))
    raise ValueError("the learning rate policy is %r; it must be constant or warmup" % (policy,))


def decay_groups(
    manifest: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any], weight_decay: float
) -> List[Tuple[List[Any], float]]:
    """Return two groups: the parameters with weight decay, and those without.

    Args:
        manifest: `Request.parameters`, of whose entries `name` and `decay` are read.
        parameters: Name of a parameter in the manifest → the framework's object for it.
        weight_decay: Weight decay of the first group; that of the second is 0.

    Returns:
        Two pairs, each of a list of parameters in the manifest's order and their weight decay. A list may be empty.

    Raises:
        KeyError: `parameters` lacks a name of the manifest.
    """
    entries = list(manifest)
    return [
        (
            [parameters[entry["name"]] for entry in entries if entry["decay"] is decays],
            weight_decay if decays else 0.0,
        )
        for decays in (True, False)
    ]
