"""The base of MegEngine's trainers: batches, the step, evidence.

A model's own file has its network, its loss, and nothing else.
"""

import megengine as mge
import numpy as np
from megengine.autodiff import GradManager
from megengine.optimizer import clip_grad_norm

from dlperf_megengine.precisions import PRECISIONS
from dlperf_megengine.worker import evidence, optimizers
from dlperf_megengine.worker.state import ReplicaState
from dlperf_sdk.worker.loading import ThreadLoader


class MegEngineTrainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`."""

    precisions, loader = PRECISIONS, ThreadLoader

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.network = self.build(request.model_options)
        self.network.train()
        self.named = dict(self.network.named_parameters())
        self.load_canonical_weights(self.named)
        self.trained = [self.named[entry["name"]] for entry in request.parameters]
        exchange = runtime.exchange
        self.gradients = GradManager()
        self.gradients.attach(self.trained, None if exchange is None else list(exchange.callbacks))
        self.optimizer = optimizers.optimizer(self.named, request)

    # Batches.

    def place(self, batches):
        """Return the inputs of this process's one replica: a dict from input name to tensor on the device.

        `batches` is a list of one such dict, of NumPy arrays. MegEngine has no 64-bit types: whole numbers become
        int32.
        """
        (batch,) = batches
        return {name: mge.Tensor(values) for name, values in batch.items()}

    def read_labels(self, labels):
        """Return the labels of this process's one replica: a list with the tensor `labels` as a NumPy array."""
        return [labels.numpy()]

    # The step.

    def train(self, batch, rate):
        """Enqueue one step, and return a pair of tensors, for `read_loss` and for `Runtime.wait`.

        The first is this replica's loss. The second is an element of the first parameter after the update: the last
        value that the step computes. It is a copy, which later steps do not change. `batch` is what `place` returned;
        `rate` is the learning rate of the step.
        """
        loss = super().train(batch, rate)
        # The first parameter gets its gradient last: when it is updated, the step is done.
        return loss, self.trained[0].flatten()[:1] * 1.0

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate` in all groups of the optimizer's parameters."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def clear_gradients(self):
        """Set the gradients of all parameters to None, which releases their memory."""
        self.optimizer.clear_grad()

    def backward(self, piece, parts, is_last):
        """Add the gradients of the micro-batch `piece` to those of the step so far; return its loss divided by `parts`.

        `piece` is a part that `micro_batches` returned, and `parts` the number of micro-batches in a step. The loss is
        a scalar tensor. `is_last` is not used: `update` averages the gradients, or the backward pass does if there is
        one micro-batch.
        """
        with self.gradients:
            loss = self.loss(self.outputs(self.network, piece), piece)
            if parts > 1:
                loss = loss / parts
            self.gradients.backward(self.scale_loss(loss))
        return loss

    def update(self):
        """Average the gradients over the replicas, clip them to `clip_norm` if that is set, and update the weights.

        Raises:
            ConnectionError: On CPUs, a neighbor in the ring has ended.
        """
        if self.runtime.exchange is not None:
            self.runtime.exchange.average(self.trained)
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            clip_grad_norm(self.trained, clip)
        self.optimizer.step()

    def reset_optimizer(self):
        """Set the optimizer's moments and counts of updates to zero."""
        optimizers.reset(self.optimizer)

    def read_loss(self, loss):
        """Return the loss of this process's one replica, a list of one float; `loss` is what `train` returned."""
        return [float(loss[0].item())]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Both are lists with a tensor per head. The same operations compute both, because a step of this plugin is always
        in plain fp32 and without a compiler. Batch norm's running statistics are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]

        with evidence.preserve_state(self.network):
            outputs = list(self.outputs(self.network, batch))
            for value in outputs:
                self.note_output(value)
            return outputs, list(self.outputs(self.network, batch))

    def widen(self, value):
        """Return `value`, a tensor of `outputs_and_references`, as a float64 NumPy array."""
        return value.numpy().astype(np.float64)

    def note_output(self, output):
        """Append the data type of the tensor `output`, as a NumPy type, to `product_types`."""
        self.product_types.append(np.dtype(output.dtype))

    def observe_settings(self):
        """Return a dict of the settings in effect: `precision`, `compiler`, `layout` and `strategy`.

        `layout` is None if the model has no convolutions, and `strategy` if no gradients were averaged.
        """
        matrices = [parameter for parameter in self.trained if parameter.ndim > 1]
        exchange = self.runtime.exchange
        return {
            "precision": self.name_precision({np.dtype(matrix.dtype) for matrix in matrices}, tf32=False),
            "compiler": "none",
            "layout": "nchw" if any(len(entry["shape"]) == 4 for entry in self.request.parameters) else None,
            "strategy": "all_reduce" if exchange is not None and exchange.count else None,
        }
