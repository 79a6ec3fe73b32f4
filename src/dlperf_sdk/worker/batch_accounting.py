"""Comparison of the labels that each step of the window was given with those that are due."""

import itertools
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from dlperf_sdk.worker.interface import Trainer
    from dlperf_sdk.worker.request import Request


def label_of(request: "Request") -> Optional[Mapping[str, Any]]:
    """Return the entry of `Request.inputs` that the model marks `is_label`; None if it marks no input.

    The values of this input, such as the classes of images, identify the samples of a batch. The entry is a dict with
    `name`, `shape`, `dtype`, `fill` and `is_label`.
    """
    return next((entry for entry in request.inputs if entry.get("is_label")), None)


class Account:
    """The comparison of the labels that steps have used with the labels that they should have used, for one process.

    `compared` is the number of compared steps, and `samples` the number of samples in them, of all replicas of the
    process together. Both are 0 at first.

    Args:
        replicas: Number of replicas of the process.
    """

    def __init__(self, replicas: int) -> None:
        self.compared = 0
        self.samples = 0
        self.unexpected: List[List[int]] = [[] for _ in range(replicas)]
        """A list per replica, in the order of the process's replicas: the indexes, counted from 0, of the steps with
        wrong labels."""

    def of_replica(self, index: int) -> Dict[str, Any]:
        """Return the comparison of labels for one replica, as the field `batches` of the record has it.

        Args:
            index: Index of the replica in this process, counted from 0.

        Returns:
            A dict: `compared`, the number of compared steps; and `unexpected`, the indexes of the steps with wrong
            labels, counted from 0, in ascending order.
        """
        return {"compared": self.compared, "unexpected": self.unexpected[index]}


def account(trainer: "Trainer", handles: Sequence[Any], skipped: int) -> Account:
    """Compare the labels that the window's steps have used with the labels that the request determines.

    Nothing is compared, and `compared` is 0, in three cases: the labels of a step are unknown, the model marks no
    label, or the request does not determine the labels of the data source.

    Args:
        trainer: The trainer, which reads the labels.
        handles: The handle of each step's labels (`Step.labels`), in order; None for a step whose labels are unknown.
        skipped: Number of batches per replica that the warm-up has taken from the data source.

    Returns:
        An account with three attributes. `compared` is the number of compared steps. `samples` is the number of samples
        in these steps, of all replicas of the process together. `unexpected` has a list for each replica, in the order
        of `trainer.process.replicas`: the indexes in `handles`, counted from 0, of the steps with wrong labels.

    Raises:
        DataError: The prepared data cannot be read any more, or is no longer what the controller prepared.
    """
    replicas = trainer.process.replicas
    tally = Account(len(replicas))
    if any(handle is None for handle in handles):
        return tally
    # It needs NumPy, which a trainer without labels does without.
    from dlperf_sdk.worker.sources import SOURCES

    entry, source = label_of(trainer.request), SOURCES.get(trainer.request.data["source"])
    if entry is None or source is None or source.due_labels is None:
        return tally
    due = [
        itertools.islice(labels, skipped, None)
        for labels in source.due_labels(trainer.request, entry, replicas)
    ]
    for step, handle in enumerate(handles):
        for index, labels in enumerate(trainer.read_labels(handle)):
            tally.samples += len(labels)
            expected = next(due[index])
            if labels.shape != expected.shape or (labels != expected).any():
                tally.unexpected[index].append(step)
        tally.compared += 1
    return tally
