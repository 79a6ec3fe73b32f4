"""Controller half: what the plugin offers, and a model that it brings."""

from attrs import frozen

from dlperf_sdk import Capabilities, EnvironmentSpec, Framework, Input, Model, Optimizer, Parameter, Term


class NumPy(Framework):
    name = "numpy"
    runtime = "dlperf_numpy.worker:Runtime"
    trainers = {"linear": "dlperf_numpy.worker:Linear"}
    capabilities = Capabilities(strategies={"all_reduce", "independent"}, data={"synthetic"})

    def environment(self, device, strategy, model):
        return EnvironmentSpec(python=">=3.7", requirements=("numpy>=1.17",))


@frozen
class LinearOptions:
    features: int = 16
    learning_rate: float = 0.1


class Linear(Model):
    """Least squares: y = x w."""

    name = "linear"
    Options = LinearOptions
    data = frozenset({"synthetic"})

    def parameters(self, options):
        return (Parameter("weight", (options.features, 1), {"kind": "normal", "std": 1.0}),)

    def inputs(self, options):
        normal = {"kind": "normal", "mean": 0.0, "std": 1.0}
        return (Input("x", (options.features,), "float32", normal), Input("y", (1,), "float32", normal))

    def flops(self, options):
        return (Term("x w", options.features, passes=2),)

    def optimizer(self, options, global_batch_size):
        return Optimizer("sgd", {"learning_rate": options.learning_rate}, "plain gradient descent")
