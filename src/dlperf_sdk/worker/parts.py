"""The parts of a training step that are measured alone: what the measuring loop gets in place of the trainer.

The loop, the clocks and the protocol are those of the whole step. `training` and `compute` need nothing here: their
requests name the canonical batch, and that of `compute` the strategy `independent`.
"""

import itertools
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, cast

from dlperf_sdk.worker.exchange import inspect_buffers, value_of
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.unsupported import look_up

if TYPE_CHECKING:
    from dlperf_sdk.worker.programs import Task


class Part:
    """The whole training step, and the base class of the parts of a step.

    Args:
        task: The runtime and the trainer of the whole step.
    """

    def __init__(self, task: "Task") -> None:
        self.task = task
        """What the measuring loop works with."""

    def exchanged(self) -> Optional[List[Dict[str, Any]]]:
        """Return accounts of the gradient buffers after the window; None for a part without an exchange.

        There is one account per replica of this process, in their order: a dict with `buffers`, the number of
        buffers; `elements` and `bytes`, the sums over all buffers; and `differing`, the names of the buffers that do
        not hold the mean of all replicas' values.
        """
        return None


class Input(Part):
    """The part `input`: a step takes the next batch of the data source to the devices, and does not train on it.

    Args:
        task: The runtime and the trainer of the whole step. A step raises Unsupported if the trainer's `take` does.
    """

    def __init__(self, task: "Task") -> None:
        super().__init__(task)
        trainer = task.trainer
        # A batch is there when its labels can be read, for which the clock "lagged" waits.
        runtime = _Replaced(task.runtime, wait=trainer.read_labels)
        self.task = task._replace(
            runtime=cast(Any, runtime),
            trainer=_without_training(trainer, step=_take_with(trainer)),
        )


def _take_with(trainer: Trainer) -> Any:
    def take(batch: Any) -> Step:
        step = trainer.take(batch)
        return step._replace(loss=step.labels)

    return take


class Communication(Part):
    """The part `communication`: a step exchanges gradients between the replicas, without computing any.

    Each replica fills its buffers with its own value, first when this object is created, then right before the window,
    and before the audit. After the window the buffers must hold the mean of all replicas' values.

    Args:
        task: The runtime and the trainer of the whole step.

    Raises:
        Unsupported: The trainer cannot exchange gradients without computing them.
    """

    def __init__(self, task: "Task") -> None:
        super().__init__(task)
        self._task, self._exchange = task, task.trainer.gradient_exchange()
        self._fill()
        samples = task.request.batch_size * len(task.process.replicas)
        self.task = task._replace(
            trainer=_without_training(
                task.trainer,
                canonical_batch=lambda: None,
                batches=_no_batches,
                step=lambda batch: Step(self._exchange.run(), samples),
                reset=self._fill,
            ),
            wait_for_go=self._start_window,
        )

    def _fill(self) -> None:
        replicas = self._task.process.replicas
        self._exchange.fill([value_of(replica, self._task.cluster.world_size) for replica in replicas])
        self._task.runtime.synchronize()

    def _start_window(self) -> None:
        self._fill()
        self._task.wait_for_go()

    def exchanged(self) -> List[Dict[str, Any]]:
        """Return accounts of the gradient buffers after the window, one per replica of this process, in their order.

        An account is a dict: `buffers`, the number of buffers; `elements` and `bytes`, the sums over all buffers; and
        `differing`, the names of the buffers that do not hold the mean of all replicas' values.
        """
        task = self._task
        return inspect_buffers(self._exchange, task.cluster.world_size, len(task.process.replicas))


def _no_batches() -> Iterator[Any]:
    return itertools.repeat(None)


def _without_training(trainer: Trainer, **methods: Any) -> Trainer:
    """Return a trainer whose `step` is replaced: it has no losses, no deviation, and cannot be reset by default."""
    usual = {"deviation": lambda: None, "read_loss": lambda loss: [], "reset": _refuse_reset}
    return cast(Trainer, _Replaced(trainer, **{**usual, **methods}))


def _refuse_reset() -> None:
    raise NotImplementedError("a step that trains nothing has no state to reset")


class _Replaced:
    """An object with some attributes replaced; all others are those of the original."""

    def __init__(self, original: Any, **attributes: Any) -> None:
        self._original = original
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


PARTS = {"whole": Part, "input": Input, "communication": Communication, "training": Part, "compute": Part}
"""Name in `dlperf_sdk.spec.part` → the part."""


def open_part(task: "Task") -> Part:
    """Return the part of a training step that the task's request names.

    Its attribute `task` is for the measuring loop: a copy of `task` with a trainer whose `step` does only this part.

    Args:
        task: The started runtime, and the trainer of the whole step. The part `communication` may take steps with this
            trainer.

    Raises:
        Unsupported: The request names an unknown part, or the trainer does not support the part.
    """
    return look_up("part of a step", task.request.part, PARTS)(task)
