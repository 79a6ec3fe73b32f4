"""The base of MindSpore's trainers: batches, the step, evidence.

A model's own file has its network, its loss, and nothing else.
"""

import mindspore as ms
import numpy as np
from mindspore import ops

from dlperf_mindspore.precisions import PRECISIONS
from dlperf_mindspore.worker import evidence, optimizers
from dlperf_mindspore.worker.compilers import COMPILERS
from dlperf_mindspore.worker.exchange import Exchange
from dlperf_mindspore.worker.state import ReplicaState, name_in_manifest
from dlperf_sdk.worker.loading import ThreadLoader


class MindSporeTrainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`.

    The compiler `graph` translates the source code of these three methods and of the network to one graph, which has
    the forward and the backward pass. The exchange and the update are outside of it, as they are in eager mode.
    """

    precisions, compilers, loader = PRECISIONS, COMPILERS, ThreadLoader

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.network = self.build(request.model_options)
        self.network.set_train()
        self.named = {
            name_in_manifest(name): parameter
            for name, parameter in self.network.parameters_and_names()
            if parameter.requires_grad
        }
        self.load_canonical_weights(self.named)
        self.trained = [self.named[entry["name"]] for entry in request.parameters]
        self.optimizer = optimizers.optimizer(self.trained, request)
        self.rate = 0.0
        """Learning rate of the next update."""
        self.gradients = None
        """The sums of the gradients of this step's micro-batches so far, in the order of `trained`."""
        self.differentiate = self.compiler(differentiated(self))
        self.exchange = None
        if runtime.syncs_gradients:
            self.exchange = Exchange(self.trained, runtime.cluster.world_size)

    # Batches.

    def place(self, batches):
        """Return the inputs of this process's one replica: a dict from input name to tensor.

        `batches` is a list of one such dict, of NumPy arrays.
        """
        (batch,) = batches
        return {name: ms.Tensor(values) for name, values in batch.items()}

    def read_labels(self, labels):
        """Return the labels of this process's one replica: a list with the tensor `labels` as a NumPy array."""
        return [labels.asnumpy()]

    # The step.

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate`."""
        self.rate = rate

    def clear_gradients(self):
        """Forget the gradients of the last step, so that `backward` starts from none."""
        self.gradients = None

    def backward(self, piece, parts, is_last):
        """Add the gradients of the micro-batch `piece` to those of the step so far; return its loss divided by `parts`.

        `piece` is a part that `micro_batches` returned, and `parts` the number of micro-batches in a step. The loss is
        a scalar tensor. `is_last` is not used: `update` averages the gradients.
        """
        loss, gradients = self.differentiate(piece)
        if parts > 1:
            loss, gradients = loss / parts, [gradient / parts for gradient in gradients]
        if self.gradients is not None:
            gradients = [total + gradient for total, gradient in zip(self.gradients, gradients)]
        self.gradients = tuple(gradients)
        return loss

    def update(self):
        """Average the gradients over the replicas, clip them to `clip_norm` if that is set, and update the weights."""
        if self.exchange is not None:
            self.gradients = self.exchange.average(self.gradients)
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            self.gradients = ops.clip_by_global_norm(self.gradients, clip)
        self.optimizer.update(self.rate, self.gradients)

    def reset_optimizer(self):
        """Set the optimizer's moments and its count of updates to zero."""
        self.optimizer.reset()

    def read_loss(self, loss):
        """Return the loss of this process's one replica, a list of one float; `loss` is what `train` returned."""
        return [float(loss.asnumpy())]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Both are lists with a tensor per head. The former are computed with the compiler of the step; the latter are
        eager. Batch norm's running statistics are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]
        with evidence.preserve_state(self.network):
            outputs = self.compiler(computed(self))(batch)
            for value in outputs:
                self.note_output(value)
            return list(outputs), list(self.outputs(self.network, batch))

    def widen(self, value):
        """Return `value`, a tensor of `outputs_and_references`, as a float64 NumPy array."""
        return value.asnumpy().astype(np.float64)

    def note_output(self, output):
        """Append the name of the data type of the tensor `output`, such as `float32`, to `product_types`."""
        self.product_types.append(str(output.dtype).lower())

    def observe_settings(self):
        """Return a dict of the settings in effect: `precision`, `compiler`, `layout` and `strategy`.

        `layout` is None if the model has no convolutions, and `strategy` if no gradients were averaged.
        """
        matrices = [parameter for parameter in self.trained if parameter.ndim > 1]
        return {
            "precision": self.name_precision({str(matrix.dtype).lower() for matrix in matrices}, tf32=False),
            "compiler": evidence.compiler("compute_loss_and_gradients"),
            "layout": "nchw" if any(matrix.ndim == 4 for matrix in matrices) else None,
            "strategy": "all_reduce" if self.exchange is not None and self.exchange.count else None,
        }


def differentiated(trainer):
    """Return a function of a micro-batch that returns a pair: the loss, and a tuple of the parameters' gradients.

    The gradients are in the order of `trainer.trained`. `trainer` is a `MindSporeTrainer`. A micro-batch is a dict from
    input name to tensor. The function is no method of the trainer, because MindSpore can compile a function, or a
    method of an `nn.Cell`, but no method of another class.
    """

    def compute_loss(batch):
        return trainer.loss(trainer.outputs(trainer.network, batch), batch)

    compute_both = ms.value_and_grad(compute_loss, None, trainer.trained)

    def compute_loss_and_gradients(batch):
        return compute_both(batch)

    return compute_loss_and_gradients


def computed(trainer):
    """Return a function of a micro-batch, a dict from input name to tensor, that returns a tuple of its logits.

    `trainer` is the `MindSporeTrainer` whose network is called. The tuple has a tensor per head.
    """

    def compute_outputs(batch):
        return trainer.outputs(trainer.network, batch)

    return compute_outputs
