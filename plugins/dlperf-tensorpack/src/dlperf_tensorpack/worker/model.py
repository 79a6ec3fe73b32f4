"""The description of a network that tensorpack's trainers take: its inputs, its loss in a tower, its optimizer."""

import tensorflow.compat.v1 as tf
from dlperf_tensorflow1.worker.weights import Weights, make_variable
from tensorpack import ModelDesc
from tensorpack.tfutils.gradproc import GradientProcessor
from tensorpack.tfutils.optimizer import apply_grad_processors
from tensorpack.tfutils.tower import get_current_tower_context


class Tower:
    """One tower: its weights, inputs, logits, loss, and the labels of its batch."""

    def __init__(self, weights, batch, outputs, loss, labels):
        self.weights, self.batch, self.outputs, self.loss, self.labels = weights, batch, outputs, loss, labels


class TowerWeights(Weights):
    """The variables of one tower. Towers share them where tensorpack's trainer has the variable scope reuse them."""

    def make_parameter(self, name, shape):
        """Return the variable of this name in the current variable scope."""
        return variable_in_scope(name, shape, 0.0, is_trained=True)

    def make_statistic(self, name, shape, initial):
        """Return the tower's own variable, also where the towers share their parameters."""
        if get_current_tower_context().has_own_variables:
            return variable_in_scope(name, shape, initial, is_trained=False)
        return make_variable(shape, initial)


def variable_in_scope(name, shape, initial, is_trained):
    """Return the resource variable of this name in the current variable scope, on the device that the scope chooses."""
    initializer = tf.constant_initializer(initial)
    return tf.get_variable(name, shape, initializer=initializer, trainable=is_trained, use_resource=True)


class WeightDecay(GradientProcessor):
    """Adds the weight decay to the mean gradients: g ← g + w·θ.

    Args:
        decays: Parameter → w.
    """

    def __init__(self, decays):
        self._decays = decays

    def _process(self, grads):
        decays = [self._decays[variable.op.name.rpartition("/")[2]] for _, variable in grads]
        return [(g + w * v if w else g, v) for w, (g, v) in zip(decays, grads)]


class Model(ModelDesc):
    """A trainer's network, loss and optimizer, as tensorpack's trainers take them.

    Args:
        trainer: The `TensorpackTrainer`.
    """

    def __init__(self, trainer):
        self._trainer = trainer

    def inputs(self):
        """Return shape, type and name of each input of a tower."""
        batch = self._trainer.host_batches()[0]
        return [tf.TensorSpec(v.shape, tf.as_dtype(v.dtype), name) for name, v in batch.items()]

    def build_graph(self, *inputs):
        """Return the loss of a tower."""
        return self._trainer.add_tower(dict(zip(self.input_names, inputs)))

    def optimizer(self):
        """Return the optimizer: SGD with momentum, and weight decay as a gradient processor."""
        numbers = self._trainer.request.optimizer
        if numbers["kind"] != "sgd":
            raise ValueError("the tensorpack plugin has no optimizer %r" % numbers["kind"])
        entries = self._trainer.request.parameters
        decays = {entry["name"]: numbers["weight_decay"] * bool(entry["decay"]) for entry in entries}
        momentum = tf.train.MomentumOptimizer(self._trainer.rate, numbers["momentum"])
        return apply_grad_processors(momentum, [WeightDecay(decays)])
