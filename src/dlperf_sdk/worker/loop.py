"""The measuring loop: canonical steps, warm-up, the window, and the readings after the clock has stopped."""

from time import monotonic
from typing import Any, Callable, Dict, List

from dlperf_sdk.worker import batch_accounting, window_state
from dlperf_sdk.worker.clocks import CLOCKS
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.progress import Progress


def measure(
    runtime: Runtime,
    trainer: Trainer,
    protocol: Dict[str, Any],
    progress: Progress,
    wait_for_go: Callable[[], None],
) -> Dict[str, Any]:
    """Run one repeat (canonical steps, warm-up, the measured window), and return what was measured, for the record.

    For each of its steps, the window contains the fetching of the batch, the step, and a few readings of the clock.
    The device is synchronized at the window's start and end only. Losses, labels and parameters are read when the clock
    has stopped.

    Args:
        runtime: The started runtime.
        trainer: A trainer that has taken no step.
        protocol: `Request.protocol`; the numbers `canonical_steps`, `warmup` and `steps` are used.
        progress: The worker's progress, whose phase and step counter are set.
        wait_for_go: Function that blocks until all workers of the case may begin the window.

    Returns:
        A dict with fields of `dlperf_sdk.results.records.Record`, as JSON values except for NaN and infinite numbers:

        - `clock`, and `window` with `start` and `end`, in seconds of the monotonic clock;
        - `samples`, of all replicas of this process in the window;
        - `step_times` and `data_waits`: seconds per step of the window;
        - `losses`, `warmup_losses` and `canonical_losses`: per step a list of one loss per replica, which may be NaN or
          infinite;
        - `changes` and `batches`, lists with a dict per replica of this process: which tensors the window left
          unchanged (`window_state.compare`), and which steps had wrong labels (`Account.of_replica`);
        - `deviation`: of the logits in the requested precision from those in fp32 (`Trainer.deviation`); None if the
          trainer has none, and it may be NaN or infinite;
        - `updates` in the window, None if the optimizer does not count them; `skipped_steps` in the window;
        - `prefetched_batches`; and `input_queue`, a dict of the changes of `batches`, `seconds` and `depth` of
          `InputCounts` in the window, None without a queue;
        - `peak_host_memory` and `peak_device_memory` in bytes, the latter None if unknown;
        - `phases`: the seconds of `compile`, `warmup`, `measure` and `verify`.

    Raises:
        Unsupported: The plugin cannot read the data source, or does not support the part of a step.
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
    """
    counters = progress.counters
    started_at = monotonic()

    deviation = trainer.deviation()
    runtime.seed()
    batch = trainer.canonical_batch()
    canonical: List[Any] = []
    for i in range(protocol["canonical_steps"]):
        canonical.append(trainer.step(batch).loss)
        counters[1] = i + 1
    runtime.synchronize()
    del batch
    compiled = monotonic()

    progress.enter("warmup")
    batches = trainer.batches()
    warmup: List[Any] = []
    for i in range(protocol["warmup"]):
        warmup.append(trainer.step(next(batches)).loss)
        counters[1] = i + 1
    runtime.synchronize()
    warmed = monotonic()

    skipped = trainer.skipped_steps()
    indexes = range(len(trainer.process.replicas))
    states = [window_state.checksums(trainer, i) for i in indexes]
    updates = trainer.count_updates()
    checked = monotonic()
    losses: List[Any] = []
    labels: List[Any] = []
    waits: List[float] = []
    samples = 0
    clock = CLOCKS[runtime.clock](runtime)
    runtime.reset_peak_memory()
    queued = trainer.input_counts()
    progress.enter("ready")
    wait_for_go()
    progress.enter("measure")

    start = monotonic()
    clock.begin(start)
    for i in range(protocol["steps"]):
        requested_at = monotonic()
        batch = next(batches)
        waits.append(monotonic() - requested_at)
        loss, sample_count, label = trainer.step(batch)
        clock.step(loss)
        losses.append(loss)
        labels.append(label)
        samples += sample_count
        counters[1] = i + 1
    runtime.synchronize()
    end = monotonic()

    queued_until = trainer.input_counts()
    progress.enter("verify")
    read = trainer.read_loss
    changes = [window_state.compare(states[i], window_state.checksums(trainer, i)) for i in indexes]
    accounted = batch_accounting.account(trainer, labels, protocol["warmup"])
    return {
        "clock": runtime.clock,
        "window": {"start": start, "end": end},
        "samples": accounted.samples if accounted.compared else samples,
        "step_times": clock.seconds(end),
        "data_waits": waits,
        "losses": [read(loss) for loss in losses],
        "warmup_losses": [read(loss) for loss in warmup],
        "canonical_losses": [read(loss) for loss in canonical],
        "deviation": deviation,
        "changes": changes,
        "batches": [accounted.of_replica(i) for i in indexes],
        "updates": None if updates is None else (trainer.count_updates() or 0) - updates,
        "skipped_steps": trainer.skipped_steps() - skipped,
        "prefetched_batches": trainer.prefetched_batches(),
        "input_queue": None if queued is None or queued_until is None else queued_until.changes_since(queued),
        "peak_host_memory": runtime.peak_host_memory(),
        "peak_device_memory": runtime.peak_memory(),
        "phases": {
            "compile": compiled - started_at,
            "warmup": warmed - compiled,
            "measure": end - start,
            "verify": checked - warmed + monotonic() - end,
        },
    }
