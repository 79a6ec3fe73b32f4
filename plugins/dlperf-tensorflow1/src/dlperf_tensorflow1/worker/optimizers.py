"""The models' optimizers in TensorFlow's fused kernels."""

import numpy as np
import tensorflow.compat.v1 as tf

from dlperf_tensorflow1.worker.weights import make_variable


def make_optimizer(numbers, weights, parameters):
    """Return a `Momentum` or `AdamW` of this module with the request's hyperparameters.

    The manifest says which parameters have weight decay.

    Args:
        numbers: `Request.optimizer`: a dict of the kind, `sgd` or `adamw`, and its hyperparameters.
        weights: The `Weights` of the network, or another object with its `variables` and `scopes`.
        parameters: `Request.parameters`: the manifest.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    kinds = {"sgd": Momentum, "adamw": AdamW}
    if numbers["kind"] in kinds:
        return kinds[numbers["kind"]](numbers, weights, parameters)
    raise ValueError("the tensorflow1 plugin has no optimizer %r" % numbers["kind"])


class Optimizer:
    """The parameters with their weight decay and moments, each on the device of its variable.

    Subclasses implement `update(variable, moments, decay, gradient, rate)` for one parameter.

    Args:
        numbers: `Request.optimizer`: a dict of hyperparameters.
        weights: An object with the dicts `variables` and `scopes` of `Weights`.
        parameters: `Request.parameters`: the manifest.
    """

    moments_per_parameter = 1

    def __init__(self, numbers, weights, parameters):
        self.numbers, self.weights = numbers, weights
        self.names = [entry["name"] for entry in parameters]
        self.decays = [numbers["weight_decay"] * bool(entry["decay"]) for entry in parameters]
        self.steps = None
        """Variable that counts updates; None: nothing counts them."""
        self.moments = {}
        """Parameter → its list of moments."""
        for name in self.names:
            with tf.device(weights.scopes[name]):
                shape = weights.variables[name].shape
                self.moments[name] = [make_variable(shape) for _ in range(self.moments_per_parameter)]

    def state(self):
        """Return a list of all variables of the optimizer; zero is the value of each before the first step."""
        moments = [moment for moments in self.moments.values() for moment in moments]
        return moments if self.steps is None else [*moments, self.steps]

    def apply(self, gradients, rate):
        """Add the update of all parameters to the graph, and return its operation.

        Args:
            gradients: List of a tensor per parameter, in the manifest's order.
            rate: The learning rate, a scalar tensor.
        """
        updates = []
        for name, decay, gradient in zip(self.names, self.decays, gradients):
            with tf.device(self.weights.scopes[name]):
                updates.append(
                    self.update(self.weights.variables[name], self.moments[name], decay, gradient, rate)
                )
        return tf.group(*updates)


class Momentum(Optimizer):
    """SGD with momentum and weight decay w: g ← g + w·θ;  v ← momentum·v + g;  θ ← θ - rate·v.

    The arguments are those of `Optimizer`.
    """

    def update(self, variable, moments, decay, gradient, rate):
        """Add the update of one parameter to the graph, and return its operation.

        Args:
            variable: The parameter's variable.
            moments: List of the parameter's one moment, the velocity, which is updated as well.
            decay: The parameter's weight decay; 0 for none.
            gradient: The parameter's gradient, a tensor.
            rate: The learning rate, a scalar tensor.
        """
        return tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=moments[0].handle,
            lr=rate,
            grad=gradient + decay * variable if decay else gradient,
            momentum=self.numbers["momentum"],
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay w: θ ← θ - rate · (m̂ / (√v̂ + ε) + w·θ).

    Here m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g²; m̂ and v̂ are corrected for bias. TensorFlow's kernel adds ε
    to √v before the bias correction; with ε·√(1 - β₂ᵗ) in place of ε, it computes this formula. The kernel rounds β₁
    and β₂ to float32, so the bias corrections are computed from the rounded values. The arguments are those of
    `Optimizer`.
    """

    moments_per_parameter = 2

    def __init__(self, numbers, weights, parameters):
        super().__init__(numbers, weights, parameters)
        with tf.device(weights.scopes[self.names[0]]):
            self.steps = make_variable((), dtype=tf.float64)
        self._beta1, self._beta2 = np.float32(numbers["beta1"]), np.float32(numbers["beta2"])

    def apply(self, gradients, rate):
        """Add the update of all parameters, and of the count of updates, to the graph; return the update's operation.

        Args:
            gradients: List of a tensor per parameter, in the manifest's order.
            rate: The learning rate, a scalar tensor.
        """
        with tf.control_dependencies(gradients):
            steps = self.steps.assign_add(1.0)
        root = tf.sqrt(1.0 - tf.pow(tf.constant(float(self._beta2), tf.float64), steps))
        bias = 1.0 - tf.pow(tf.constant(float(self._beta1), tf.float64), steps)
        self._corrected = tf.cast(tf.cast(rate, tf.float64) * root / bias, tf.float32)
        self._epsilon = tf.cast(self.numbers["epsilon"] * root, tf.float32)
        return super().apply(gradients, rate)

    def update(self, variable, moments, decay, gradient, rate):
        """Add the update of one parameter to the graph, and return its operation; `apply` calls this.

        Args:
            variable: The parameter's variable.
            moments: List of the parameter's two moments, m and v, which are updated as well.
            decay: The parameter's weight decay; 0 for none.
            gradient: The parameter's gradient, a tensor.
            rate: The learning rate, a scalar tensor.
        """
        # After the gradient: the step that computes it reads the variable.
        with tf.control_dependencies([gradient]):
            decayed = [variable.assign_sub(rate * decay * variable)] if decay else []
        with tf.control_dependencies(decayed):
            return tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=moments[0].handle,
                v=moments[1].handle,
                beta1_power=0.0,
                beta2_power=0.0,
                lr=self._corrected,
                beta1=self._beta1,
                beta2=self._beta2,
                epsilon=self._epsilon,
                grad=gradient,
            )
