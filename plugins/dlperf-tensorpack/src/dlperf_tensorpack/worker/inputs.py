"""Data sources as tensorpack's input sources: tensors of the graph, from which each tower takes its replica's batch."""

import tensorflow.compat.v1 as tf
from tensorpack import DataFlow, FeedfreeInput, QueueInput, TensorInput, TFDatasetInput
from tensorpack.tfutils.tower import get_current_tower_context

from dlperf_sdk.worker.loading import PREFETCH, BatchFeed
from dlperf_sdk.worker.python_dataset import copies_of


class TowerInputs(FeedfreeInput):
    """An input source of tensorpack that has a separate source for each tower, since each replica has its own batches.

    The operations of these sources are on the CPU, as queues and datasets are.

    Args:
        inputs: List of tensorpack's input sources, in the order of the towers.
    """

    def __init__(self, inputs):
        self._inputs = inputs

    def _setup(self, signature):
        with tf.device("/cpu:0"):
            for source in self._inputs:
                source.setup(signature)

    def _get_callbacks(self):
        return [callback for source in self._inputs for callback in source.get_callbacks()]

    def _get_input_tensors(self):
        with tf.device("/cpu:0"):
            return self._inputs[get_current_tower_context().index].get_input_tensors()


class Copies(DataFlow):
    """A data flow of tensorpack that yields one batch without end, as a list of NumPy arrays in the order of its dict.

    Args:
        batch: The batch, a dict from input name to NumPy array.
    """

    def __init__(self, batch):
        self._generate = copies_of(batch)

    def __iter__(self):
        """Yield copies without end."""
        for batch in self._generate():
            yield list(batch.values())


class GraphFeed(BatchFeed):
    """The feed of an input source in the graph. It yields no batches, and only has the facts for the record.

    Args:
        request: The request.
    """

    def __init__(self, request):
        super().__init__(
            PREFETCH + 1,  # the thread or the generator holds one more, until there is room for it
            {
                "source": request.data["source"],
                "samples_per_replica": request.batch_size,
                "queue_size": PREFETCH,
            },
        )

    def close(self):
        """Do nothing: the threads end when tensorpack closes its session."""


def resident_input(variables):
    """Return an input source for tensorpack's trainer that reads each tower's batch from variables on its device.

    A tower is one replica's part of the graph.

    Args:
        variables: List with one item per tower: a list of one variable per input, in the order of `Model.inputs`.
    """
    return TensorInput(lambda: [tf.identity(v) for v in variables[get_current_tower_context().index]])


def queue_input(batches):
    """Return an input source for tensorpack's trainer: each tower takes its batches from a queue of its own.

    A tower is one replica's part of the graph. A Python thread per queue fills the queue with copies of the tower's
    batch, without end.

    Args:
        batches: List of the towers' batches, in their order: dicts from input name to NumPy array.
    """
    types = [tf.as_dtype(values.dtype) for values in batches[0].values()]
    return TowerInputs([QueueInput(Copies(batch), tf.FIFOQueue(PREFETCH, types)) for batch in batches])


def dataset_input(batches):
    """Return an input source for tensorpack's trainer: each tower takes its batches from its own `tf.data.Dataset`.

    A tower is one replica's part of the graph. A dataset reads a Python generator, which yields copies of the tower's
    batch without end. The datasets are added to the default graph, on the CPU.

    Args:
        batches: List of the towers' batches, in their order: dicts from input name to NumPy array.
    """

    def dataset(batch):
        flow = Copies(batch)
        types = tuple(tf.as_dtype(values.dtype) for values in batch.values())
        shapes = tuple(tf.TensorShape(values.shape) for values in batch.values())
        generated = tf.data.Dataset.from_generator(lambda: map(tuple, flow), types, shapes)
        return generated.prefetch(PREFETCH)

    with tf.device("/cpu:0"):
        return TowerInputs([TFDatasetInput(dataset(batch)) for batch in batches])
