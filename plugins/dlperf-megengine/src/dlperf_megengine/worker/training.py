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
    """One replica of a network, and its training. A model implements `build`, `outputs` and `loss`."""

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
        """Return this replica's batch of NumPy arrays as tensors on its device, by the input's name.

        MegEngine has no 64-bit types: whole numbers become int32. `batches` has one batch per replica of this process:
        the inputs by name, as NumPy arrays.
        """
        (batch,) = batches
        return {name: mge.Tensor(values) for name, values in batch.items()}

    def read_labels(self, labels):
        """Return the labels behind the handle `labels`, of this process's one replica: a list of one NumPy array."""
        return [labels.numpy()]

    # The step.

    def train(self, batch, rate):
        """Enqueue one step; return the handle of the loss.

        The handle is a pair of tensors with memory of their own: this replica's loss, and an element of the first
        parameter after the update, for which `Runtime.wait` waits. `batch` is what `place` or `receive` returned;
        `rate` is the learning rate of the step.
        """
        loss = super().train(batch, rate)
        # The first parameter gets its gradient last: when it is updated, the step is done.
        return loss, self.trained[0].flatten()[:1] * 1.0

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update in all groups of parameters."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def clear_gradients(self):
        """Set gradients to None, which releases their memory."""
        self.optimizer.clear_grad()

    def backward(self, piece, parts, is_last):
        """Add the gradients of one micro-batch to those of the step's others; return its loss divided by `parts`.

        `piece` is a part that `micro_batches` returned, and `parts` their number in a step. `is_last` is not used:
        `update` averages the gradients, or the backward pass does if there is one micro-batch.
        """
        with self.gradients:
            loss = self.loss(self.outputs(self.network, piece), piece)
            if parts > 1:
                loss = loss / parts
            self.gradients.backward(self.scale_loss(loss))
        return loss

    def update(self):
        """Average the gradients over the replicas, clip them, and update all weights.

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
        """Set the moments and the count of updates to zero."""
        optimizers.reset(self.optimizer)

    def read_loss(self, loss):
        """Return the loss behind the handle `loss`, of this process's one replica: a list of one float."""
        return [float(loss[0].item())]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return two sequences of arrays, the logits of `step` and float32 references, for a canonical micro-batch.

        Both come from the operations that `step` enqueues, since fp32 and eager are all that there is. Batch norm's
        running statistics are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]

        with evidence.preserve_state(self.network):
            outputs = list(self.outputs(self.network, batch))
            for value in outputs:
                self.note_output(value)
            return outputs, list(self.outputs(self.network, batch))

    def widen(self, value):
        """Return `value`, one of the arrays of `outputs_and_references`, as a float64 NumPy array."""
        return value.numpy().astype(np.float64)

    def note_output(self, output):
        """Note an output's data type, a NumPy type, as `BaseTrainer.note_output`."""
        self.product_types.append(np.dtype(output.dtype))

    def observe_settings(self):
        """Return `precision`, `compiler`, `layout` and `strategy` in effect, by key, from MegEngine's objects."""
        matrices = [parameter for parameter in self.trained if parameter.ndim > 1]
        exchange = self.runtime.exchange
        return {
            "precision": self.name_precision({np.dtype(matrix.dtype) for matrix in matrices}, tf32=False),
            "compiler": "none",
            "layout": "nchw" if any(len(entry["shape"]) == 4 for entry in self.request.parameters) else None,
            "strategy": "all_reduce" if exchange is not None and exchange.count else None,
        }
