"""The base of MXNet's trainers: batches, the step, evidence. A batch is a list with a dict for each replica."""

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.contrib import amp

from dlperf_mxnet.precisions import PRECISIONS
from dlperf_mxnet.worker import evidence, mixed
from dlperf_mxnet.worker.compilers import COMPILERS
from dlperf_mxnet.worker.images import load_images
from dlperf_mxnet.worker.loading import Loader
from dlperf_mxnet.worker.master_weights import to_float32
from dlperf_mxnet.worker.optimizers import clip, reset, update, updates_of
from dlperf_mxnet.worker.parameters import configure, map_parameters
from dlperf_mxnet.worker.state import ReplicaState
from dlperf_sdk.worker.sources import replace_sources


class MXNetTrainer(ReplicaState):
    """The replicas of a network that one process owns, and their training.

    A model's subclass implements `build`, `build_criterion`, `outputs` and `loss`; `build` returns a hybrid block.
    """

    precisions, compilers, layouts = PRECISIONS, COMPILERS, ("nchw", "nhwc")
    loader = Loader
    sources = replace_sources(images=load_images)

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.contexts = runtime.contexts
        # Mixed precision replaces MXNet's operators for good, so what it is compared with comes first.
        plain = self.place_network(self.contexts[:1], "float32")
        batch = self.place(self.host_batches()[:1])
        self._references = evidence.widen_outputs(self._first_outputs(plain, batch))
        mixed.switch_on(self.precision)
        self.network = self.place_network(self.contexts, self.precision.weights)
        self.criterion = self.build_criterion(request.model_options)
        parameters = map_parameters(self.network)
        configure(parameters, self.masters.named, request)
        self.trained = [parameters[entry["name"]] for entry in request.parameters]
        # Gradients meet in the runtime's kvstore, before this, which updates each replica's weights.
        self.updates = updates_of(self.masters.named.values(), request.optimizer, self.scales_loss)
        for block in (self.network, self.criterion):
            self.compiler(block)

    def build_criterion(self, options):
        """Return a hybrid block of gluon that computes the loss; a model implements this.

        The constructor keeps the block as `criterion`, for `loss`. `options` is a dict of the model's options.
        """
        raise NotImplementedError("a model's trainer implements build_criterion()")

    # Batches.

    def stage(self, batches):
        """Return `batches`, a list of dicts of NumPy arrays, as float32, indices included: they are exact up to 2²⁴."""
        return [{name: values.astype(np.float32) for name, values in batch.items()} for batch in batches]

    def place(self, batches):
        """Return a list with the batch of each replica: a dict from input name to float32 array on its device.

        `batches` has one dict per replica of this process, in order: the input's name → a NumPy array.
        """
        return [
            {name: mx.nd.array(values, ctx=context, dtype="float32") for name, values in batch.items()}
            for context, batch in zip(self.contexts, batches)
        ]

    def receive(self, batches):
        """Return `batches`, a list with a dict of MXNet arrays per replica, moved to each replica's device."""
        return [
            {name: values.as_in_context(context) for name, values in batch.items()}
            for context, batch in zip(self.contexts, batches)
        ]

    def slice_batch(self, batch, start, stop):
        """Return `batch`, a list that `place` returned, with only the samples `start` to `stop` - 1 of each replica."""
        return [{name: values[start:stop] for name, values in shard.items()} for shard in batch]

    def labels(self, batch):
        """Return a list of each replica's labels in `batch`, on its device; None if no input is marked `is_label`."""
        return None if self.label_name is None else [shard[self.label_name] for shard in batch]

    def read_labels(self, labels):
        """Return each replica's labels as a list of NumPy arrays; `labels` is what the method `labels` returned."""
        return [shard.asnumpy() for shard in labels]

    # The step.

    def train(self, batch, rate):
        """Enqueue one step with the learning rate `rate`; return a pair of lists with an array per replica.

        The first has the losses; the second an element of the first parameter after the update, for `Runtime.wait`.
        `batch` is what `place` returned. With a loss scaler, this waits until the gradients were checked.
        """
        losses = super().train(batch, rate)
        # The first parameter's update is the last that the engine does: its gradient comes last.
        return losses, [weight.reshape((-1,))[:1] * 1.0 for weight in self.trained[0].list_data()]

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate`."""
        self.updates.set_learning_rate(rate)

    def clear_gradients(self):
        """Set gradients to zero if micro-batches are accumulated; otherwise the backward pass overwrites them."""
        if self.request.accumulation > 1:
            for parameter in self.trained:
                parameter.zero_grad()

    def backward(self, piece, parts, is_last):
        """Add all replicas' gradients for the micro-batch `piece` to those of the step so far; return their losses.

        The result is a list of the replicas' losses, divided by `parts`, the number of micro-batches in a step. `piece`
        is a part that `micro_batches` returned. `is_last` is not used: `update` exchanges gradients.
        """
        with autograd.record():
            losses = [self.loss(to_float32(self.outputs(self.network, shard)), shard) for shard in piece]
            if self.scales_loss:
                with amp.scale_loss(losses, self.updates) as scaled:
                    autograd.backward(scaled)
            else:
                autograd.backward([self.scale_loss(loss) for loss in losses])
        # Sums have memory of their own, which no later step of a static graph writes to.
        return [loss.detach() / parts + 0.0 for loss in losses]

    def add_losses(self, loss, other):
        """Return a list with each replica's loss in `loss` plus that in `other`, two lists that `backward` returned."""
        return [value + addend for value, addend in zip(loss, other)]

    def update(self):
        """Average the gradients over the replicas, clip them, update all weights; a loss scaler may skip the update."""
        parts = self.runtime.sum_gradients(self.trained) * self.request.accumulation * self.loss_scale
        self.masters.receive_gradients()
        if self.request.optimizer.get("clip_norm") is not None:
            clip(self.updates, self.masters.named.values(), parts)
        self.skipped += update(self.updates, parts)
        self.masters.round_into_network()

    def reset_optimizer(self):
        """Set the moments and counts to zero, and the loss scaler to its state before the first step."""
        reset(self.updates)

    def read_loss(self, loss):
        """Return a list of floats, the loss of each replica; `loss` is the pair of lists that `train` returned."""
        return [float(total.asscalar()) for total in loss[0]]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Both are lists with a float64 NumPy array per head, of the process's first replica. The fp32 logits were
        computed in the constructor, before mixed precision. Batch norm's running statistics are restored.
        """
        with evidence.preserve_state(self.network):
            outputs = self._first_outputs(self.network, self.canonical_batch())
        self.product_types += map(evidence.type_of, outputs)
        return evidence.widen_outputs(outputs), self._references

    def _first_outputs(self, network, batch):
        """Return the logits of the first replica's first micro-batch, with gradients recorded, as in a step."""
        # Without dropout, in inference mode, nothing else differs in a model that has it.
        with autograd.record(train_mode=not self.request.model_options.get("dropout")):
            return self.outputs(network, self.micro_batches(batch)[0][0])

    def widen(self, value):
        """Return `value`, an item of `outputs_and_references`, unchanged: it is a float64 NumPy array."""
        return value

    def observe_settings(self):
        """Return a dict of the effective `precision`, `compiler`, `layout` and `strategy`; the last two may be None."""
        return {
            "precision": self.name_precision(evidence.weight_types(self.trained), tf32=False),
            "compiler": "graph" if self.network._active else "none",
            "layout": self.layout if any(len(p.shape) == 4 for p in self.trained) else None,
            "strategy": self.runtime.strategy_in_effect(),
        }
