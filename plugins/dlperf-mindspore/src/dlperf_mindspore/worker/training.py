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
    """One replica of a network, and its training. A model implements `build`, `outputs` and `loss`.

    The compiler `graph` translates the source code of these methods and of the network to one graph, with the
    backward pass. The exchange and the update are outside of it, as they are in eager mode.
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
        """Return this replica's batch as tensors, by the input's name.

        `batches` has one batch per replica of this process: the inputs by name, as NumPy arrays.
        """
        (batch,) = batches
        return {name: ms.Tensor(values) for name, values in batch.items()}

    def read_labels(self, labels):
        """Return the labels behind the handle `labels`, of this process's one replica: a list of one NumPy array."""
        return [labels.asnumpy()]

    # The step.

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update."""
        self.rate = rate

    def clear_gradients(self):
        """Forget the gradients of the last step."""
        self.gradients = None

    def backward(self, piece, parts, is_last):
        """Add the gradients of one micro-batch to those of the step's others; return its loss divided by `parts`.

        `piece` is a part that `micro_batches` returned, and `parts` their number in a step. `is_last` is not used:
        `update` averages the gradients.
        """
        loss, gradients = self.differentiate(piece)
        if parts > 1:
            loss, gradients = loss / parts, [gradient / parts for gradient in gradients]
        if self.gradients is not None:
            gradients = [total + gradient for total, gradient in zip(self.gradients, gradients)]
        self.gradients = tuple(gradients)
        return loss

    def update(self):
        """Average the gradients over the replicas, clip them, and update all weights."""
        if self.exchange is not None:
            self.gradients = self.exchange.average(self.gradients)
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            self.gradients = ops.clip_by_global_norm(self.gradients, clip)
        self.optimizer.update(self.rate, self.gradients)

    def reset_optimizer(self):
        """Set the moments and the count of updates to zero."""
        self.optimizer.reset()

    def read_loss(self, loss):
        """Return the loss behind the handle `loss`, of this process's one replica: a list of one float."""
        return [float(loss.asnumpy())]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return two lists of tensors, the logits of `step` and float32 references, for a canonical micro-batch.

        Both have one tensor per head. The logits are compiled as the step's are; the references are eager. Batch norm's
        running statistics are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]
        with evidence.preserve_state(self.network):
            outputs = self.compiler(computed(self))(batch)
            for value in outputs:
                self.note_output(value)
            return list(outputs), list(self.outputs(self.network, batch))

    def widen(self, value):
        """Return `value`, one of the tensors of `outputs_and_references`, as a float64 NumPy array."""
        return value.asnumpy().astype(np.float64)

    def note_output(self, output):
        """Note the name of an output's data type, such as `float32`, as `BaseTrainer.note_output`."""
        self.product_types.append(str(output.dtype).lower())

    def observe_settings(self):
        """Return `precision`, `compiler`, `layout` and `strategy` in effect, by key, from MindSpore's objects."""
        matrices = [parameter for parameter in self.trained if parameter.ndim > 1]
        return {
            "precision": self.name_precision({str(matrix.dtype).lower() for matrix in matrices}, tf32=False),
            "compiler": evidence.compiler("compute_loss_and_gradients"),
            "layout": "nchw" if any(matrix.ndim == 4 for matrix in matrices) else None,
            "strategy": "all_reduce" if self.exchange is not None and self.exchange.count else None,
        }


def differentiated(trainer):
    """Return the function batch → (loss, gradients in the order of `trainer.trained`) for one micro-batch.

    It is made of plain functions around the trainer, a `MindSporeTrainer`, since MindSpore compiles no methods of other
    objects than cells.
    """

    def compute_loss(batch):
        return trainer.loss(trainer.outputs(trainer.network, batch), batch)

    compute_both = ms.value_and_grad(compute_loss, None, trainer.trained)

    def compute_loss_and_gradients(batch):
        return compute_both(batch)

    return compute_loss_and_gradients


def computed(trainer):
    """Return the function batch → logits, a tuple of tensors, for one micro-batch of a `MindSporeTrainer`."""

    def compute_outputs(batch):
        return trainer.outputs(trainer.network, batch)

    return compute_outputs
