"""The description of a network that tensorpack's trainers take: its inputs, its loss in a tower, its optimizer."""

from collections import namedtuple

import tensorflow.compat.v1 as tf
from dlperf_tensorflow1.worker.optimizers import make_optimizer
from dlperf_tensorflow1.worker.weights import Weights, make_variable
from tensorpack import ModelDesc
from tensorpack.tfutils.gradproc import GlobalNormClip
from tensorpack.tfutils.optimizer import apply_grad_processors
from tensorpack.tfutils.tower import get_current_tower_context


class Tower:
    """One tower: a copy of the network in the graph, for one replica.

    Args:
        weights: The tower's `TowerWeights`.
        batch: Dict from input name to the tensor of the tower's input source.
        outputs: Sequence of the tower's logits, a tensor per head.
        loss: The tower's loss, a scalar tensor.
        labels: The labels of the tower's batch, a tensor.
    """

    def __init__(self, weights, batch, outputs, loss, labels):
        self.weights, self.batch, self.outputs, self.loss, self.labels = weights, batch, outputs, loss, labels


class TowerWeights(Weights):
    """The variables of one tower. Towers share them if tensorpack's trainer lets the variable scope reuse variables.

    The arguments are those of `Weights`; `place` is not used.
    """

    def make_parameter(self, name, shape):
        """Return the variable `name` of the current variable scope; if it is missing, make it.

        A new variable has the shape `shape` and is zero at first.
        """
        return _variable_in_scope(name, shape, 0.0, is_trained=True)

    def make_statistic(self, name, shape, initial):
        """Return a variable of this tower for a running statistic, also if the towers share their parameters.

        `shape` is its shape, and `initial` the number that all its elements are at first. A tower is one replica's part
        of the graph. The variable has the name `name` only if the tower has its own parameters.
        """
        if get_current_tower_context().has_own_variables:
            return _variable_in_scope(name, shape, initial, is_trained=False)
        return make_variable(shape, initial)


def _variable_in_scope(name, shape, initial, is_trained):
    """Return the resource variable of this name in the current variable scope, on the device that the scope chooses."""
    initializer = tf.constant_initializer(initial)
    return tf.get_variable(name, shape, initializer=initializer, trainable=is_trained, use_resource=True)


class TowersOptimizer(tf.train.Optimizer):
    """The model's optimizer as tensorpack's trainers take it.

    It makes an optimizer of the TensorFlow 1 plugin for each set of variables.

    Args:
        request: The request.
        rate: The learning rate, a scalar tensor.
    """

    def __init__(self, request, rate):
        super().__init__(use_locking=False, name="optimizer")
        self._request, self._rate = request, rate
        self.of_variables = []
        """The plugin's optimizers: one for each tower, or one for the variables that all towers share."""

    def compute_gradients(self, *args, **kwargs):
        """Return a list of pairs (gradient, variable), as `tf.train.Optimizer` does for the same arguments.

        All gradients are dense; TensorFlow's gradient of embeddings that are only looked up would be sparse.
        """
        pairs = super().compute_gradients(*args, **kwargs)
        return [(tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs]

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Return an operation that updates the variables of `grads_and_vars` once, at the constructor's learning rate.

        `grads_and_vars` is a list of pairs that `compute_gradients` returned. For them, an optimizer of the TensorFlow
        1 plugin is made and appended to the attribute `of_variables`. `global_step` and `name` are not used: tensorpack
        itself counts the global step.

        Raises:
            ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
        """
        variables = {name_in_tower(variable): variable for _, variable in grads_and_vars}
        gradients = {name_in_tower(variable): gradient for gradient, variable in grads_and_vars}
        placed = _Placed(variables, {key: variable.device for key, variable in variables.items()})
        optimizer = make_optimizer(self._request.optimizer, placed, self._request.parameters)
        self.of_variables.append(optimizer)
        return optimizer.apply([gradients[key] for key in optimizer.names], self._rate)


_Placed = namedtuple("_Placed", "variables scopes")


def name_in_tower(variable):
    """Return the name in the manifest of the parameter that a variable holds: its name without the tower's prefix.

    `variable` is a resource variable or its handle.
    """
    return variable.op.name.rpartition("/")[2]


class Model(ModelDesc):
    """A trainer's network, loss and optimizer, as tensorpack's trainers take them.

    Args:
        trainer: The `TensorpackTrainer`.
    """

    def __init__(self, trainer):
        self._trainer = trainer

    def inputs(self):
        """Return a list of a `tf.TensorSpec` (shape, type and name) for each input of a tower: of one replica's graph.

        They are in the order of the items of a host batch, the dict of one replica's arrays.
        """
        batch = self._trainer.host_batches()[0]
        return [tf.TensorSpec(v.shape, tf.as_dtype(v.dtype), name) for name, v in batch.items()]

    def build_graph(self, *inputs):
        """Add the network and the loss of a tower, one replica's part, to the graph; return the loss, a scalar tensor.

        `inputs` are the tensors of the tower's input source, in the order of the method `inputs`.
        """
        return self._trainer.add_tower(dict(zip(self.input_names, inputs)))

    def optimizer(self):
        """Return the trainer's `TowersOptimizer`; if there is a `clip_norm`, return it wrapped by tensorpack.

        The wrapper clips the gradients of each update to a global norm of `clip_norm`.
        """
        optimizer = self._trainer.optimizer
        clip = self._trainer.request.optimizer.get("clip_norm")
        return optimizer if clip is None else apply_grad_processors(optimizer, [GlobalNormClip(clip)])
