"""The base of torch's trainers: wrapping, batches, the step, evidence. A model's own file has its network and loss."""

import torch
from torch import nn

from dlperf_torch.precisions import PRECISIONS
from dlperf_torch.worker import evidence, levers, optimizers
from dlperf_torch.worker.compilers import COMPILERS
from dlperf_torch.worker.loading import GeneratorFeed, Loader
from dlperf_torch.worker.master_weights import MasterWeights
from dlperf_torch.worker.state import ReplicaState
from dlperf_torch.worker.step_graph import StepGraph


class TorchTrainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`."""

    precisions, compilers, layouts = PRECISIONS, COMPILERS, ("nhwc", "nchw")
    loader, generator_feed = Loader, GeneratorFeed

    def __init__(self, runtime, request, process):
        request = levers.settle(request)
        super().__init__(runtime, request, process)
        self.device, self.dtype = runtime.device, getattr(torch, self.precision.products)
        self.channels_last = self.layout == "nhwc"
        self.network = self.build(request.model_options)
        self.load_canonical_weights(dict(self.network.named_parameters()))
        order = torch.channels_last if self.channels_last else torch.preserve_format
        self.network = self.network.to(self.device, memory_format=order).train()
        self.masters = MasterWeights(self.network, getattr(torch, self.precision.weights))
        self.named = self.assigned = self.masters.named
        self.exchange = runtime.exchange(self.network, request)
        self.trained = self.compiler(self.exchange.replicated, request)
        self.criterion = self.compiler(self._fp32_loss, request)
        self.optimizer = optimizers.optimizer(self.named, request)
        self.scaler = optimizers.LossScaler(self.device, self.scales_loss)
        self.skipped = self.scaler.skipped
        self.image_layouts = set()
        if request.framework_options["cuda_graph"]:
            self.enqueue = StepGraph(self.enqueue)

    # Batches.

    def stage(self, batches):
        """Return `batches`, a list of dicts of NumPy arrays, with page-locked tensors instead; on a CPU, unchanged."""
        if self.device.type != "cuda":
            return batches
        return [{name: torch.from_numpy(v).pin_memory() for name, v in batch.items()} for batch in batches]

    def place(self, batches):
        """Return the inputs of this process's one replica: a dict from input name to tensor on the device.

        `batches` is a list of one such dict, of NumPy arrays or tensors of `stage`. Images become (B, C, H, W).
        """
        (batch,) = batches
        placed = {n: torch.as_tensor(v).to(self.device, non_blocking=True) for n, v in batch.items()}
        if self.channels_last:
            placed.update((n, v.permute(0, 3, 1, 2)) for n, v in placed.items() if v.dim() == 4)
        return placed

    def read_labels(self, labels):
        """Return the tensor `labels` as a list of one NumPy array: the labels of this process's one replica."""
        return [labels.cpu().numpy()]

    # The step.

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate` in all groups of the optimizer's parameters."""
        optimizers.set_learning_rate(self.optimizer, rate)

    def clear_gradients(self):
        """Set the gradients of all parameters to None, which releases their memory."""
        self.network.zero_grad(set_to_none=True)

    def forward(self, piece):
        """Return the unscaled mean loss of the micro-batch `piece`, a dict from input name to tensor, as a scalar."""
        with self.autocast():
            return self.criterion(self.outputs(self.trained, piece), piece)

    def _fp32_loss(self, outputs, piece):
        return self.loss(self.widen_outputs(outputs), piece)

    def widen_outputs(self, outputs):
        """Return the tensors of logits in `outputs`, a sequence, as a list of float32 tensors for `loss`."""
        return [value.float() for value in outputs]

    def autocast(self):
        """Return a context manager: in it, convolutions and matrix products are computed in the precision's type."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.precision.casts)

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the loss scale; return it unchanged if the precision needs none."""
        return self.scaler.scale(super().scale_loss(loss))

    def defer_synchronization(self):
        """Return a context manager: in it, backward passes do not average gradients."""
        return self.exchange.defer()

    def update(self):
        """Clip gradients to `clip_norm`, if set, and update weights; a loss scaler skips this if one is not finite."""
        self.exchange.finish()
        self.masters.receive_gradients(self.loss_scale)
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.named.values(), clip)
        self.scaler.step(self.optimizer)
        self.masters.round_into_network()
        self.scaler.update()

    def gradient_exchange(self):
        """Return the `GradientExchange` of the strategy; one or two training steps are taken to find its buffers.

        Raises:
            NotImplementedError: The replicas do not synchronize.
        """
        batch = self.canonical_batch()
        return self.exchange.gradient_exchange(lambda: self.step(batch))

    def reset_optimizer(self):
        """Set the optimizer's moments and counts of updates to zero, and the loss scale to its first value."""
        for state in self.optimizer.state.values():
            for values in state.values():
                values.zero_()
        self.scaler.reset()

    def reset(self):
        """Set weights, their copies of narrower type, optimizer and learning rate to those before the first step."""
        super().reset()
        self.masters.round_into_network()

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return the logits of the canonical batch's first micro-batch twice, as a pair: as in `step`, and in fp32.

        Each is a sequence of one tensor per head. The fp32 logits are computed eagerly from the master weights.
        The others have autograd on, so that a `step` without dropout reuses their compiled code. Buffers are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]
        eager = self.request.compiler == "none"  # compiled, the layers' own outputs are hidden
        with evidence.preserve_state(self.network):
            with (
                evidence.watch_products(self.network if eager else nn.Module(), self.note_output),
                self.autocast(),
            ):
                outputs = self.outputs(self.trained, batch)
            for value in outputs:
                self.note_output(value)
            # Without their gradients, or this would be the moment that takes the most memory.
            outputs = [value.detach() for value in outputs]
            with torch.no_grad(), evidence.use_plain_fp32():
                return outputs, self.outputs(self.masters, batch)

    def note_output(self, output):
        """Append the tensor's type to `product_types`; add the layout of images above 1×1 pixels to `image_layouts`."""
        super().note_output(output)
        if output.dim() == 4 and output.shape[2:].numel() > 1:  # a single pixel lies the same in both
            self.image_layouts.add(evidence.layout_of(output))

    def widen(self, value):
        """Return `value`, a tensor of `outputs_and_references`, as a float64 tensor on its device."""
        return value.double()

    def observe_settings(self):
        """Return a dict of the `precision`, `compiler`, `layout` (None if unknown) and `strategy` (or None) in effect.

        Its booleans are `fused_optimizer`, `cuda_graph` (one was replayed) and `triton_kernels` (layers run in them).
        """
        weights = evidence.weight_types(self.network)
        layouts = self.image_layouts or evidence.layouts_of_weights(self.network)
        return {
            "precision": self.name_precision(weights, evidence.allows_tf32(self.device)),
            "compiler": "inductor" if isinstance(self.trained, torch._dynamo.OptimizedModule) else "none",
            "layout": "+".join(sorted(layouts)) or None,
            "strategy": self.exchange.strategy,
            "fused_optimizer": bool(self.optimizer.defaults["fused"]),
            "cuda_graph": isinstance(self.enqueue, StepGraph) and self.enqueue.replays > 0,
            "triton_kernels": any(".fused_" in type(m).__module__ for m in self.network.modules()),
        }
