"""tensorpack's trainers of several towers, and the callback that gives a step its values."""

import tensorflow.compat.v1 as tf
from tensorpack import Callback, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated


def _make_replicated_trainer(runtime):
    """Return tensorpack's trainer with weights in each tower; it averages gradients on the CPU if there is no GPU."""
    trainer = SyncMultiGPUTrainerReplicated(
        runtime.towers, mode="cpu" if runtime.request.device == "cpu" else None
    )
    trainer.BROADCAST_EVERY_EPOCH = False
    return trainer


def _make_server_trainer(runtime):
    """Return tensorpack's trainer with one set of weights on the CPU, where it averages the gradients of all towers."""
    return SyncMultiGPUTrainerParameterServer(runtime.towers, ps_device="cpu")


TRAINERS = {"all_reduce": _make_replicated_trainer, "parameter_server": _make_server_trainer}
"""Strategy → the function that makes tensorpack's trainer of several towers."""


class StepValues(Callback):
    """A callback of tensorpack that feeds values to each step, and keeps the values that the step returns.

    Args:
        fetches: Nested list of the tensors whose values a step returns.
    """

    _chief_only = False

    def __init__(self, fetches):
        self._fetches = fetches
        self.feed = {}
        """Tensor → the value for the next step."""
        self.results = None
        """The values of `fetches` in the last step."""

    def _before_run(self, _):
        return tf.train.SessionRunArgs(self._fetches, self.feed)

    def _after_run(self, _, values):
        self.results = values.results
