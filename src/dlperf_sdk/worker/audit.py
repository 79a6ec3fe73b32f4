"""The audit: after the window, the trainer is reset and repeats its first steps.

A trainer that skips work in the window would skip it here as well, and here the right losses are known. The audit
has no part in the measurement.
"""

from time import monotonic
from typing import Any, Dict, List

from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.progress import Progress


def repeat_first_steps(
    runtime: Runtime, trainer: Trainer, protocol: Dict[str, Any], progress: Progress
) -> Dict[str, Any]:
    """Reset the trainer, seed the runtime, repeat the canonical steps, and time each step.

    If the trainer cannot be reset (`Trainer.reset` raises NotImplementedError), no step is taken and nothing is seeded.

    Args:
        runtime: The started runtime.
        trainer: The trainer, after the window. Its weights and its optimizer change.
        protocol: `Request.protocol`; its `canonical_steps` is the number of steps.
        progress: The worker's progress, whose step counter is set after each step.

    Returns:
        A dict. `audit_losses` has a list per step, with the loss of each replica of this process. `audit_step_times`
        has a number per step: the seconds until the device was synchronized and the loss was read. `audit_seeded` is
        True if the runtime was seeded. Both lists are empty if the trainer cannot be reset.
    """
    losses: List[List[float]] = []
    seconds: List[float] = []
    try:
        trainer.reset()
    except NotImplementedError:
        return {"audit_losses": losses, "audit_step_times": seconds, "audit_seeded": False}
    seeded = runtime.seed()
    batch = trainer.canonical_batch()
    runtime.synchronize()
    for i in range(protocol["canonical_steps"]):
        started_at = monotonic()
        loss = trainer.step(batch).loss
        runtime.synchronize()
        # Reading the loss waits for its step, even if `synchronize` does not.
        losses.append(trainer.read_loss(loss))
        seconds.append(monotonic() - started_at)
        progress.counters[1] = i + 1
    return {"audit_losses": losses, "audit_step_times": seconds, "audit_seeded": seeded}
