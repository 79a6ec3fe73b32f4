"""The controller half of the NumPy plugin: what it offers, and its two models. It does not import NumPy."""

from pathlib import Path

from attrs import frozen

from dlperf_sdk import Capabilities, EnvironmentSpec, Framework, Input, Model, Optimizer, Parameter, Term

# The core has the code of these, for every trainer that is a `BaseTrainer`.
DATA_SOURCES = {"synthetic", "python-queue", "zmq", "zmq-tcp"}


class NumPy(Framework):
    """The plugin for NumPy: fp32 on a CPU, alone or with gradients averaged over sockets."""

    # What users type; the entry point in pyproject.toml carries the same.
    name = "numpy"
    # Where the worker half is, as text: it is imported on the nodes and nowhere else.
    runtime = "dlperf_numpy.worker:Runtime"
    trainers = {"linear": "dlperf_numpy.worker:Linear", "softmax": "dlperf_numpy.worker:Softmax"}
    # Everything that is not listed is refused before anything is started: another precision, a compiler, …
    capabilities = Capabilities(
        strategies={"all_reduce", "independent"},
        data=DATA_SOURCES,
        parts={"communication"},
    )

    # What workers run in. The core makes such an environment, or finds that an existing one will do.
    def environment(self, device, strategy, model):
        return EnvironmentSpec(python=">=3.7", requirements=("numpy>=1.17",))


class Linear(Model):
    """Least squares: z = x Wᵀ, with the mean of (z - y)² over the batch as the loss."""

    name = "linear"
    outputs, target = 1, Input("y", (1,), "float32", {"kind": "normal"}, is_label=True)
    # Trajectories in float64, made by references.py: every run's first steps are held against them.
    references = property(lambda self: Path(__file__).with_name("references") / f"{self.name}.json")

    # Each attribute is an option of the command line: `--set features=32`.
    @frozen
    class Options:
        features: int = 16
        learning_rate: float = 0.1

    # The manifest. A linear layer's weight is (out, in); `init` says how the canonical weights are drawn.
    def parameters(self, options):
        return (Parameter("weight", (self.outputs, options.features), {"kind": "normal", "std": 1.0}),)

    # What one sample consists of, and how the canonical batch is drawn.
    def inputs(self, options):
        return (Input("x", (options.features,), "float32", {"kind": "normal"}), self.target)

    # The arithmetic of one step and sample. Two passes, not three: x needs no gradient.
    def flops(self, options):
        return (Term("x Wᵀ", options.features * self.outputs, passes=2),)

    # Any kind that the trainers understand; the numbers reach them in `request.optimizer`.
    def optimizer(self, options, global_batch_size):
        return Optimizer("sgd", {"learning_rate": options.learning_rate}, "plain gradient descent")


class Softmax(Linear):
    """Softmax regression: z = x Wᵀ, with the mean of -log softmax(z)[y] over the batch as the loss."""

    name = "softmax"
    outputs, target = 10, Input("y", (), "int64", {"kind": "integers", "low": 0, "high": 10}, is_label=True)
