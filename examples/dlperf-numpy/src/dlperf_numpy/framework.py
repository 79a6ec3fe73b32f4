"""Controller half: what the plugin offers, and the two models that it brings. Nothing here imports NumPy."""

from attrs import frozen

from dlperf_sdk import Capabilities, EnvironmentSpec, Framework, Input, Model, Optimizer, Parameter, Term

NORMAL = {"kind": "normal", "mean": 0.0, "std": 1.0}


class NumPy(Framework):
    name = "numpy"
    # Where the worker half is, as text: it is imported on the nodes and nowhere else.
    runtime = "dlperf_numpy.worker:Runtime"
    trainers = {"linear": "dlperf_numpy.worker:Linear", "softmax": "dlperf_numpy.worker:Softmax"}
    # Everything that is not listed is refused before anything is started: another precision, a compiler, …
    capabilities = Capabilities(strategies={"all_reduce", "independent"}, data={"synthetic"})

    # What workers run in. The core makes such an environment, or finds that an existing one will do.
    def environment(self, device, strategy, model):
        return EnvironmentSpec(python=">=3.7", requirements=("numpy>=1.17",))


# Each attribute is an option of the command line: `--set features=32`.
@frozen
class LinearOptions:
    features: int = 16
    learning_rate: float = 0.1


class Linear(Model):
    """Least squares: ŷ = x w, and the loss is the mean of (ŷ - y)² over the batch."""

    name = "linear"
    Options = LinearOptions
    data = frozenset({"synthetic"})

    # The manifest. `init` says how the canonical weights are drawn, the same for every framework.
    def parameters(self, options):
        return (Parameter("weight", (options.features, 1), {"kind": "normal", "std": 1.0}),)

    # What one sample consists of, and how the canonical batch is drawn.
    def inputs(self, options):
        return (Input("x", (options.features,), "float32", NORMAL), Input("y", (1,), "float32", NORMAL))

    # The arithmetic of one step and sample. Two passes, not three: x needs no gradient.
    def flops(self, options):
        return (Term("x w", options.features, passes=2),)

    # Any kind that the trainers understand; the numbers reach them in `request.optimizer`.
    def optimizer(self, options, global_batch_size):
        return Optimizer("sgd", {"learning_rate": options.learning_rate}, "plain gradient descent")


@frozen
class SoftmaxOptions(LinearOptions):
    classes: int = 10


class Softmax(Linear):
    """Softmax regression: p = softmax(x Wᵀ + b), and the loss is the mean of -log p[label] over the batch."""

    name = "softmax"
    Options = SoftmaxOptions

    # Shapes as every framework's plugin must give them: a linear layer's weight is (out, in).
    def parameters(self, options):
        weight = Parameter("weight", (options.classes, options.features), {"kind": "normal", "std": 0.1})
        return (weight, Parameter("bias", (options.classes,), {"kind": "constant", "value": 0.0}))

    def inputs(self, options):
        label = Input("label", (), "int64", {"kind": "integers", "low": 0, "high": options.classes})
        return (Input("x", (options.features,), "float32", NORMAL), label)

    def flops(self, options):
        return (Term("x Wᵀ", options.features * options.classes, passes=2),)
