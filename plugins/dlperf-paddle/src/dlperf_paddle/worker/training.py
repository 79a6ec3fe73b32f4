"""What every Paddle trainer shares: wrapping, the step, input, parameters, evidence for the precision.

A model's own file has its network, its loss, and nothing else.
"""

import contextlib
import itertools

import numpy as np
import paddle
from paddle import nn

from dlperf_paddle.worker import evidence
from dlperf_paddle.worker.optimizers import optimizer, rounding_of_adamw
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate

AUTOCAST = {"amp-fp16": "float16", "amp-bf16": "bfloat16"}
"""Precision → the type that auto_cast computes convolutions and matrix products in; the others do not cast."""
COMPILED = {"graph": None, "cinn": "CINN"}
"""Compiler → the backend of `to_static`."""


class PaddleTrainer(Trainer):
    """One replica of a network, and how to train it. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.layout = "NHWC" if request.layout == "nhwc" else "NCHW"
        self.network = self.build(request.model_options)
        self.network.train()
        # Paddle lists batch norm's statistics among the parameters; they have no gradient.
        self._parameters = {
            name: value for name, value in self.network.named_parameters() if not value.stop_gradient
        }
        self._transposed = {
            name + ".weight"
            for name, layer in self.network.named_sublayers()
            if isinstance(layer, nn.Linear)  # (in, out) in Paddle, (out, in) in the manifest
        }
        self.trained = self._trained()
        self._load_canonical_weights()
        self.optimizer = optimizer(self._parameters, request)
        numbers = request.optimizer
        self._rate_factors = (
            rounding_of_adamw(numbers["beta1"], numbers["beta2"])
            if numbers["kind"] == "adamw"
            else itertools.repeat(1.0)
        )
        self._rate_factor = next(self._rate_factors)
        # Only fp16's narrow exponent needs a loss scale; without it the scaler hands everything through.
        self.scaler = paddle.amp.GradScaler(enable=request.precision == "amp-fp16")
        self._skipped = 0
        self._steps = 0
        self._loader = None
        self._seen = evidence.Seen()

    # What a model implements. The bodies here are no gaps: a model that lacks one is told which.

    def build(self, options):
        """The network. Its trainable `named_parameters()` have the manifest's names."""
        raise NotImplementedError("a paddle model implements build()")

    def outputs(self, network, batch, dropout):
        """The outputs of `network` (this model's, or it wrapped) for a batch: a tuple of tensors, logits.

        `dropout` says whether there is any. It must reach the network as an argument: what `to_static` has
        compiled it reuses for equal arguments, whatever has changed inside the layers.
        """
        raise NotImplementedError("a paddle model implements outputs()")

    def loss(self, outputs, batch):
        """The loss of those outputs, a scalar in float32: the mean over the batch."""
        raise NotImplementedError("a paddle model implements loss()")

    # The network.

    def _trained(self):
        """The network as `step` calls it: compiled, and with gradients averaged over the replicas."""
        trained = self.network
        if self.request.compiler in COMPILED:
            trained = paddle.jit.to_static(trained, backend=COMPILED[self.request.compiler], full_graph=True)
        if self.runtime.meets:
            megabytes = self.request.framework_options["comm_buffer_mb"]
            trained = paddle.DataParallel(trained, comm_buffer_size=megabytes)
        return trained

    def _load_canonical_weights(self):
        """Behind DataParallel, which gives all replicas rank 0's values when it is made: each sets its own."""
        missing = set(self._parameters)
        for name, values in canonical.weights(self.request.parameters, self.request.seed):
            missing.remove(name)
            self._parameters[name].set_value(values.T if name in self._transposed else values)
        if missing:
            raise ValueError("the manifest of %s lacks %s" % (self.request.model, ", ".join(sorted(missing))))

    # Input.

    def _canonical_host_batch(self):
        arrays = canonical.batch_of(self.request, self.runtime.replica)
        if self.layout == "NHWC" and "image" in arrays:
            arrays["image"] = np.ascontiguousarray(arrays["image"].transpose(0, 2, 3, 1))
        return arrays

    def canonical_batch(self):
        """The canonical shard of this replica, on its device."""
        return _placed(self._canonical_host_batch())

    def batches(self):
        """The data source's batches, on the device, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            return map(_placed, itertools.repeat(self._canonical_host_batch()))
        if source == "images":
            from dlperf_paddle.worker import images as loaders
        else:
            from dlperf_paddle.worker import text as loaders
        self._loader = loaders.batches(self.request, self.process)
        return self._loader

    def prefetched_batches(self):
        """What the loaders hold ready; synthetic data needs none."""
        return 0 if self._loader is None else self._loader.prefetched

    # The step.

    def step(self, batch):
        """One optimisation step over all micro-batches.

        Nothing in it waits for the device, but with `amp-fp16` Paddle's optimizer itself, to see whether the
        gradients are finite.
        """
        numbers = self.request.optimizer
        rate = learning_rate(numbers, numbers["policy"], self._steps)
        self.optimizer.set_lr(rate * self._rate_factor)
        self._steps += 1
        pieces = self._micro_batches(batch)
        total = None
        for i, piece in enumerate(pieces):
            with self._gradients_meet(i == len(pieces) - 1):
                with self._autocast():
                    outputs = self.outputs(self.trained, piece, dropout=True)
                loss = self.loss(outputs, piece)
                if len(pieces) > 1:
                    loss = loss / len(pieces)
                self.scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        self.scaler.step(self.optimizer)
        # The optimizer has waited for this, and leaves it on the host; `state_dict`, the public way to see the
        # scale fall, would wait for the updates as well.
        skipped = self.scaler.is_enable() and bool(self.scaler._cache_found_inf)
        self.scaler.update()
        if skipped:
            self._skipped += 1
        else:
            self._rate_factor = next(self._rate_factors)  # AdamW's powers of beta have moved on
        self.optimizer.clear_grad()
        return Step(total, self.request.batch_size)

    def _micro_batches(self, batch):
        count = self.request.accumulation
        if count == 1:
            return [batch]
        pieces = {name: value.chunk(count) for name, value in batch.items()}
        return [{name: pieces[name][i] for name in batch} for i in range(count)]

    def _autocast(self):
        dtype = AUTOCAST.get(self.request.precision)
        return paddle.amp.auto_cast(enable=dtype is not None, dtype=dtype or "float16", level="O1")

    def _gradients_meet(self, last):
        """Replicas exchange gradients in the last micro-batch's backward pass only."""
        return contextlib.nullcontext() if last or not self.runtime.meets else self.trained.no_sync()

    def skipped_steps(self):
        """Steps whose scaled gradients were not finite."""
        return self._skipped

    # What is read when the clock has stopped.

    def read_loss(self, loss):
        """The loss of this process's one replica."""
        return [float(loss)]

    def parameters(self, replica):
        """In the manifest's order; linear layers are turned back."""
        for entry in self.request.parameters:
            name = entry["name"]
            values = self._parameters[name].numpy()
            yield name, np.ascontiguousarray(values.T if name in self._transposed else values)

    def running_means(self, replica):
        """Of every batch norm."""
        for name, values in self.network.named_parameters():
            if name.endswith("._mean"):
                yield name[: -len("_mean")] + "running_mean", values.numpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch.

        y comes from the very network that `step` calls, wrapped and compiled as it is; y32 from the plain
        network, eager, in fp32 without TF32. In both dropout is off, batch norm uses the batch's statistics,
        and no trace stays.
        """
        batch = self._micro_batches(self.canonical_batch())[0]
        visible = self.request.compiler == "none"  # compiled, the layers' own outputs are hidden
        with evidence.undisturbed(self.network):
            with evidence.watched(self.network if visible else nn.Layer(), self._seen), self._autocast():
                values = self.outputs(self.trained, batch, dropout=False)
            for value in values:
                self._seen.note(value)
            with paddle.no_grad(), evidence.plain_fp32(self.request.device), evidence.eager(self.network):
                references = self.outputs(self.network, batch, dropout=False)
        return evidence.apart(values, references)

    def observed(self):
        """What was in effect, from the types seen in `deviation` and from the state of Paddle."""
        found = {"compiler": evidence.compiler(self.network), "accumulation": self.request.accumulation}
        if self._seen.dtypes:
            found["precision"] = self._seen.precision(self.request.device)
        layouts = evidence.layouts(self.network)
        if layouts:
            found["layout"] = "+".join(sorted(layouts))
        if isinstance(self.trained, paddle.DataParallel):
            found["strategy"] = "all_reduce"
        if self._loader is not None:
            found["data"] = self._loader.facts
        return found


def _placed(arrays):
    """Host arrays on this replica's device."""
    return {name: paddle.to_tensor(values) for name, values in arrays.items()}
