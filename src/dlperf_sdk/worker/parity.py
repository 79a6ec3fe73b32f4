"""The parity program: a few steps on the canonical batch, and evidence of them to compare with a reference.

It runs in place of the measuring loop, in separate processes, with the same trainer that is measured. Its result
is small, whatever the model: losses, and fingerprints (`canonical.fingerprint`) of each parameter's first update and
of each running mean after it.
"""

from typing import Any, Dict, Iterator, List, Optional

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.digest import check_places, digest_of
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.processes import Process
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.request import Request

MOST_SKIPPED = 20
"""Maximum number of steps that a loss scaler may skip: by then it has come down by 2^-20."""


def follow(
    runtime: Runtime, trainer: Trainer, request: Request, process: Process, progress: Progress
) -> Dict[str, Any]:
    """Take the steps of a parity run, and return losses, fingerprints and digests of this process's replicas.

    The run takes `canonical_steps` steps that update the parameters; steps that a loss scaler skips are not counted.
    All steps up to and including the first counted one train on the canonical batch. Later steps take batches of the
    data source, as the measured window does. The data source `synthetic` gives the canonical batch again.

    Args:
        runtime: The started runtime.
        trainer: A trainer that has taken no step.
        request: The parity run's request.
        process: This process, whose replicas are recorded.
        progress: The worker's progress, whose phase and step counter are set.

    Returns:
        A dict: `skipped_steps`, the number of steps that the loss scaler skipped; and `replicas`, a list with a dict
        per replica of this process, in their order:

        - `index`: the replica's global index;
        - `losses`: one number per counted step;
        - `digest`: the SHA-256 of the final parameters, in hexadecimal;
        - `updates`, a dict: name of each parameter → the fingerprint (`canonical.fingerprint`) of its change in the
          first counted step;
        - `running_means`, a dict: name of each batch norm's running mean → the fingerprint of its value after that
          step. Both dicts are empty except for the first two replicas of the case.

    Raises:
        RuntimeError: The loss scaler skipped more than `MOST_SKIPPED` (20) steps.
        ValueError: The trainer's parameters are not the manifest's.
        Unsupported: The plugin cannot read the data source.
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
    """
    steps_wanted = request.protocol["canonical_steps"]
    trainer.deviation()  # called here as before the measured steps, with the same side effects
    progress.enter("warmup")
    batch = trainer.canonical_batch()
    prints: List[Dict[str, Any]] = [{"updates": {}, "running_means": {}} for _ in process.replicas]
    handles: List[Any] = []
    batches: Optional[Iterator[Any]] = None
    steps_taken = 0
    while len(handles) < steps_wanted:
        if batches is not None:
            batch = next(batches)
        before = trainer.skipped_steps()
        handle = trainer.step(batch).loss
        # As in the measured window, nothing waits between steps, so that both run the same code.
        # Exceptions: the first update is read, and a skipped step is known only after it has finished.
        if not handles or request.scales_loss:
            runtime.synchronize()
        steps_taken += 1
        progress.counters[1] = steps_taken
        if trainer.skipped_steps() > before:
            if steps_taken - len(handles) > MOST_SKIPPED:
                raise RuntimeError(
                    "the loss scaler skipped %d steps of %d" % (steps_taken - len(handles), steps_taken)
                )
            continue
        handles.append(handle)
        if len(handles) == 1:
            for i, replica in enumerate(process.replicas):
                if replica < canonical.PARITY_SHARDS:
                    prints[i] = _prints(trainer, request, i)
            batches = iter(trainer.batches())
    runtime.synchronize()
    # Read late, as the measuring loop does: a handle must still hold the loss of its own step.
    losses = [trainer.read_loss(handle) for handle in handles]
    digests = [digest_of(request.parameters, trainer.parameters(i)) for i in range(len(process.replicas))]
    progress.enter("teardown")
    return {
        "replicas": [
            dict(prints[i], index=replica, digest=digests[i], losses=[float(step[i]) for step in losses])
            for i, replica in enumerate(process.replicas)
        ],
        "skipped_steps": steps_taken - len(handles),
    }


def _prints(trainer: Trainer, request: Request, replica: int) -> Dict[str, Any]:
    """Return fingerprints of what one step has changed; the weights before it are made anew, one after another."""
    before = canonical.weights(request.parameters, request.seed)
    after = check_places(request.parameters, trainer.parameters(replica))
    updates = {name: canonical.fingerprint(name, new, old) for (name, old), (_, new) in zip(before, after)}
    means = {name: canonical.fingerprint(name, values) for name, values in trainer.running_means(replica)}
    return {"updates": updates, "running_means": means}
