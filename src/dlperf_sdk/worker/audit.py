"""The audit: behind the window, the trainer is reset and takes its first steps again.

What it left undone in the window it leaves undone here as well, and here its losses are known. It has no part in the
measurement.
"""

from time import monotonic
from typing import Any, Dict, List

from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.progress import Progress


def repeat_first_steps(
    runtime: Runtime, trainer: Trainer, protocol: Dict[str, Any], progress: Progress
) -> Dict[str, Any]:
    """Reset the trainer, repeat its canonical steps, and return the record's part.

    It has the losses of each replica, the seconds of each step, and whether generators were seeded; the first two are
    empty if the trainer cannot be reset.
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
        # A loss can be read when its step is over, whatever `synchronize` waits for.
        losses.append(trainer.read_loss(loss))
        seconds.append(monotonic() - started_at)
        progress.counters[1] = i + 1
    return {"audit_losses": losses, "audit_step_times": seconds, "audit_seeded": seeded}
