"""The base of Paddle's trainers: wrapping, batches, the step, evidence.

A model's own file has its network, its loss, and nothing else.
"""

import contextlib
import itertools

import paddle
from paddle import nn

from dlperf_paddle.precisions import PRECISIONS
from dlperf_paddle.worker import evidence
from dlperf_paddle.worker.compilers import COMPILERS
from dlperf_paddle.worker.loading import Loader
from dlperf_paddle.worker.optimizers import optimizer, rounding_of_adamw
from dlperf_paddle.worker.state import ReplicaState


class PaddleTrainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`.

    The network must take the rate of dropout, `self.dropout`, as an argument. `to_static` compiles again only for
    other arguments, and would not notice that an attribute of a layer has changed.
    """

    precisions, compilers, layouts = PRECISIONS, COMPILERS, ("nchw", "nhwc")
    loader = Loader

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.network = self.build(request.model_options)
        self.network.train()
        # Paddle lists batch norm's statistics among the parameters; they have no gradient.
        self.named = {
            name: value for name, value in self.network.named_parameters() if not value.stop_gradient
        }
        self._transposed = {
            name + ".weight"
            for name, layer in self.network.named_sublayers()
            if isinstance(layer, nn.Linear)  # (in, out) in Paddle, (out, in) in the manifest
        }
        self.trained = self._wrap_network()
        # Behind DataParallel, which gives all replicas rank 0's values when it is made.
        self.load_canonical_weights(self.named)
        self.optimizer = optimizer(self.named, request)
        self._begin_updates()

    def _begin_updates(self):
        """Set what corrects AdamW's rounding, and the loss scaler, to the beginning."""
        numbers = self.request.optimizer
        self._rate_factors = (
            rounding_of_adamw(numbers["beta1"], numbers["beta2"])
            if numbers["kind"] == "adamw"
            else itertools.repeat(1.0)
        )
        self._rate_factor = next(self._rate_factors)
        self.scaler = paddle.amp.GradScaler(enable=self.scales_loss)

    def _wrap_network(self):
        """Return the network as `step` calls it: compiled, and with gradients averaged over the replicas."""
        trained = self.compiler(self.network)
        if self.runtime.syncs_gradients:
            megabytes = self.request.framework_options["comm_buffer_mb"]
            trained = paddle.DataParallel(trained, comm_buffer_size=megabytes)
        return trained

    # Batches.

    def place(self, batches):
        """Return the inputs of this process's one replica: a dict from input name to tensor on the device.

        `batches` is a list of one such dict, of NumPy arrays.
        """
        (batch,) = batches
        return {name: paddle.to_tensor(values) for name, values in batch.items()}

    def receive(self, batches):
        """Return the one item of `batches`: a dict from input name to tensor on the device, which the loader made."""
        return batches[0]

    # The step.

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate`.

        With AdamW, `rate` is first multiplied by the factor of `rounding_of_adamw` for this update, which corrects a
        rounding error of Paddle.
        """
        self.optimizer.set_lr(rate * self._rate_factor)

    def clear_gradients(self):
        """Set the gradients of all parameters to None, which releases their memory."""
        self.optimizer.clear_grad()

    def forward(self, piece):
        """Return the unscaled mean loss of the micro-batch `piece`, a dict from input name to tensor, as a scalar."""
        with self.autocast():
            outputs = self.outputs(self.trained, piece)
        return self.loss(outputs, piece)

    def autocast(self):
        """Return a context manager in which convolutions and matrix products are computed in the precision's type."""
        casts = self.precision.casts
        return paddle.amp.auto_cast(
            enable=casts, dtype=self.precision.products if casts else "float16", level="O1"
        )

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the loss scale; return it unchanged if the precision needs none."""
        return self.scaler.scale(loss)

    def defer_synchronization(self):
        """Return a context manager in which backward passes do not average gradients: DataParallel's `no_sync`."""
        return self.trained.no_sync() if self.runtime.syncs_gradients else contextlib.nullcontext()

    def update(self):
        """Update the weights with the gradients, clipped to `clip_norm` if set; the loss scaler may skip the update.

        The loss scaler skips the update, and 1 is added to `skipped`, if a gradient is not finite. If the precision
        needs a loss scaler, this method waits until the device has checked the gradients.
        """
        self.scaler.step(self.optimizer)
        # The optimizer has waited for this, and leaves it on the host; `state_dict`, the public way to see the
        # scale fall, would wait for the updates as well.
        skipped = self.scaler.is_enable() and bool(self.scaler._cache_found_inf)
        self.scaler.update()
        if skipped:
            self.skipped += 1
        else:
            self._rate_factor = next(self._rate_factors)  # AdamW's powers of beta have moved on

    def reset_optimizer(self):
        """Set moments, AdamW's powers of beta, and the loss scaler to their values before the first step."""
        for kind, values in self.optimizer._accumulators.items():
            first = self.request.optimizer[kind[: -len("_pow_acc")]] if kind.endswith("_pow_acc") else 0.0
            for value in values.values():
                value.set_value(paddle.full_like(value, first))
        self._begin_updates()

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Each is a sequence of one tensor per head. The fp32 logits are eager, of the same weights, without TF32. Batch
        norm's running statistics are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]
        eager = self.request.compiler == "none"  # compiled, the layers' own outputs are hidden
        with evidence.preserve_state(self.network):
            with (
                evidence.watch_products(self.network if eager else nn.Layer(), self.note_output),
                self.autocast(),
            ):
                outputs = self.outputs(self.trained, batch)
            for value in outputs:
                self.note_output(value)
            with paddle.no_grad(), evidence.use_plain_fp32(self.request.device), evidence.eager(self.network):
                return outputs, self.outputs(self.network, batch)

    def note_output(self, output):
        """Append the name of the data type of the tensor `output`, such as `float32`, to the list `product_types`."""
        self.product_types.append(str(output.dtype).rpartition(".")[2])

    def widen(self, value):
        """Return `value`, a tensor of `outputs_and_references`, as a float64 tensor on its device."""
        return value.astype("float64")

    def observe_settings(self):
        """Return a dict of the settings in effect: `precision`, `compiler`, `layout` and `strategy`.

        `layout` is None if the model has no convolutions, and `strategy` if no gradients are averaged.
        """
        return {
            "precision": self.name_precision(["float32"], evidence.allows_tf32(self.request.device)),
            "compiler": evidence.compiler(self.network),
            "layout": "+".join(sorted(evidence.layouts(self.network))) or None,
            "strategy": "all_reduce" if isinstance(self.trained, paddle.DataParallel) else None,
        }
