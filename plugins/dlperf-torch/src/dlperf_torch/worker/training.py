"""What every torch trainer shares: wrapping, the step, input, parameters, evidence for the precision.

A model's own file has its network, its loss, and nothing else.
"""

import contextlib
import functools
import inspect
import itertools

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate
from dlperf_torch.worker import evidence, levers

AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
"""Precision → the type that autocast computes convolutions and matrix products in; the others do not cast."""

# torch 2.11 knows only the second name, 2.13 warns of it.
_KNOWN = inspect.signature(DistributedDataParallel).parameters
_SYNC_BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers"


class TorchTrainer(Trainer):
    """One replica of a network, and how to train it. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        levers.check(request)
        self.device = runtime.device
        self.channels_last = request.layout in ("auto", "nhwc")
        self.network = self._place_network(self.build(request.model_options))
        self.trained = self._trained()
        self.optimizer = _optimizer(self.network, request)
        # Only fp16's narrow exponent needs a loss scale; without it the scaler hands everything through.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=request.precision == "amp-fp16")
        self._one = torch.ones((), device=self.device)
        self._scale = self.scaler.scale(self._one)
        self._skipped = torch.zeros((), dtype=torch.int64, device=self.device)
        self._steps = 0
        self._loader = None
        self._seen = evidence.Seen()
        self.criterion = self.loss
        if request.compiler == "inductor":
            # The mode that also captures graphs would give out losses that the next step overwrites.
            mode = "max-autotune-no-cudagraphs" if request.framework_options["max_autotune"] else None
            self.trained = torch.compile(self.trained, dynamic=False, mode=mode)
            self.criterion = torch.compile(self.loss, dynamic=False, mode=mode)

    # What a model implements. The bodies here are no gaps: a model that lacks one is told which.

    def build(self, options):
        """The network, on the CPU. Its `named_parameters()` have the manifest's names and shapes."""
        raise NotImplementedError("a torch model implements build()")

    def outputs(self, network, batch):
        """The outputs of `network` (this model's, or it wrapped) for a batch: a tuple of tensors, logits."""
        raise NotImplementedError("a torch model implements outputs()")

    def loss(self, outputs, batch):
        """The loss of those outputs, a scalar: the mean over the batch."""
        raise NotImplementedError("a torch model implements loss()")

    # The network and where it is.

    def _place_network(self, network):
        request = self.request
        with torch.no_grad():
            parameters = dict(network.named_parameters())
            for name, values in canonical.weights(request.parameters, request.seed):
                parameters.pop(name).copy_(torch.from_numpy(values))
        if parameters:
            raise ValueError("the manifest of %s lacks %s" % (request.model, ", ".join(sorted(parameters))))
        if self.channels_last:
            network = network.to(memory_format=torch.channels_last)
        return network.to(self.device).train()

    def _trained(self):
        """The network as `step` calls it: with gradients averaged over the replicas, where there are several.

        Batch norm's statistics stay each replica's own (no buffers are synchronised), and replicas start
        from the canonical weights, not from a copy of rank 0's (`init_sync=False`): so equal digests at the
        end mean something.
        """
        if not self.runtime.meets:
            return self.network
        return DistributedDataParallel(
            self.network,
            **{_SYNC_BUFFERS: False},
            init_sync=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self.request.framework_options["bucket_cap_mb"],
        )

    def _place(self, batch):
        """A host batch on this replica's device, images in the network's layout."""
        return {
            name: self._laid_out(value).to(self.device, non_blocking=True) for name, value in batch.items()
        }

    def _laid_out(self, value):
        if self.channels_last and value.dim() == 4:
            return value.contiguous(memory_format=torch.channels_last)
        return value

    # Input.

    @functools.cached_property
    def _canonical_host_batch(self):
        """Drawn once: for a thousand images that takes seconds."""
        arrays = canonical.batch_of(self.request, self.runtime.replica)
        return {name: self._laid_out(torch.from_numpy(values)) for name, values in arrays.items()}

    def canonical_batch(self):
        """The canonical shard of this replica, on its device."""
        return self._place(self._canonical_host_batch)

    def batches(self):
        """The data source's batches, on the device, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            # One batch in page-locked memory, copied to the device for every step; a CPU has it already.
            batch = self._canonical_host_batch
            if self.device.type == "cuda":
                batch = {name: value.pin_memory() for name, value in batch.items()}
            return map(self._place, itertools.repeat(batch))
        self._loader = self._open(source)
        return map(self._place, self._loader)

    def _open(self, source):
        if source == "images":
            from dlperf_torch.worker import images as loaders
        else:
            from dlperf_torch.worker import text as loaders
        return loaders.batches(self.request, self.process)

    def prefetched_batches(self):
        """What the loaders hold ready; synthetic data needs none."""
        return 0 if self._loader is None else self._loader.prefetched

    # The step.

    def step(self, batch):
        """One optimisation step over all micro-batches; nothing in it waits for the device."""
        self._set_learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        pieces = self._micro_batches(batch)
        total = None
        for i, piece in enumerate(pieces):
            with self._gradients_meet(i == len(pieces) - 1):
                with self._autocast():
                    loss = self.criterion(self.outputs(self.trained, piece), piece)
                if len(pieces) > 1:
                    loss = loss / len(pieces)
                self.scaler.scale(loss).backward()
            # The loss has memory of its own, which no later step writes to.
            total = loss.detach() if total is None else total + loss.detach()
        self._update()
        return Step(total, self.request.batch_size)

    def _set_learning_rate(self):
        optimizer = self.request.optimizer
        rate = learning_rate(optimizer, optimizer["policy"], self._steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._steps += 1

    def _micro_batches(self, batch):
        count = self.request.accumulation
        if count == 1:
            return [batch]
        pieces = {name: value.chunk(count) for name, value in batch.items()}
        return [{name: pieces[name][i] for name in batch} for i in range(count)]

    def _autocast(self):
        dtype = AUTOCAST.get(self.request.precision)
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def _gradients_meet(self, last):
        """Replicas exchange gradients in the last micro-batch's backward pass only."""
        return contextlib.nullcontext() if last or not self.runtime.meets else self._module().no_sync()

    def _update(self):
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.is_enabled():
            # A skipped step halves the scale, and nothing else lowers it. Counting on the device never waits.
            scale = self.scaler.scale(self._one)
            self._skipped += scale < self._scale
            self._scale = scale

    def skipped_steps(self):
        """Steps whose scaled gradients were not finite."""
        return int(self._skipped.item())

    # What is read when the clock has stopped.

    def read_loss(self, loss):
        """The loss of this process's one replica."""
        return [loss.item()]

    def parameters(self, replica):
        """The network's parameters under the manifest's names: torch has the manifest's layout already."""
        parameters = dict(self.network.named_parameters())
        for entry in self.request.parameters:
            values = parameters[entry["name"]].detach().to("cpu", torch.float32)
            yield entry["name"], values.contiguous().numpy()

    def running_means(self, replica):
        """Of every batch norm."""
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, values.cpu().numpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch.

        y comes from the very network that `step` calls, wrapped and compiled as it is, with gradients recorded: what
        is compiled here serves `step` as well, unless the model has dropout, which is off here. y32 comes from the
        plain network, eager, in fp32 without TF32. In both batch norm uses the batch's statistics, and no trace stays.
        """
        batch = self._micro_batches(self.canonical_batch())[0]
        eager = self.request.compiler == "none"  # compiled, the layers' own outputs are hidden
        with evidence.undisturbed(self.network):
            with evidence.watched(self.network if eager else nn.Module(), self._seen), self._autocast():
                values = self.outputs(self.trained, batch)
            for value in values:
                self._seen.note(value)
            # Without their gradients, or this would be the moment that takes the most memory.
            values = [value.detach() for value in values]
            with torch.no_grad(), evidence.plain_fp32():
                references = self.outputs(self.network, batch)
        return evidence.apart(values, references)

    def observed(self):
        """What was in effect, from the types and layouts seen in `deviation` and from the state of torch."""
        found = {
            "compiler": "inductor" if isinstance(self.trained, torch._dynamo.OptimizedModule) else "none",
            "accumulation": self.request.accumulation,
            "fused_optimizer": bool(self.optimizer.defaults["fused"]),
        }
        if self._seen.dtypes:
            found["precision"] = self._seen.precision(self.device)
        layouts = self._seen.layouts or {
            evidence.layout_of(weight)
            for weight in self.network.parameters()
            if weight.dim() == 4 and weight.shape[2] > 1
        }
        if layouts:
            found["layout"] = "+".join(sorted(layouts))
        if isinstance(self._module(), DistributedDataParallel):
            found["strategy"] = "all_reduce"
        if self._loader is not None:
            found["data"] = self._loader.facts
        return found

    def _module(self):
        """What `torch.compile` was given."""
        return getattr(self.trained, "_orig_mod", self.trained)


def _optimizer(network, request):
    """The torch optimizer with the request's numbers, and weight decay where the manifest says so."""
    numbers, fused = request.optimizer, request.framework_options["fused_optimizer"]
    parameters = dict(network.named_parameters())
    groups = [
        {
            "params": [parameters[entry["name"]] for entry in request.parameters if entry["decay"] is decays],
            "weight_decay": numbers["weight_decay"] if decays else 0.0,
        }
        for decays in (True, False)
    ]
    rate = numbers["learning_rate"]
    if numbers["kind"] == "sgd":
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=numbers["momentum"], fused=fused)
        # Left to torch it is made at the first step, of memory that the fused kernel never writes to if the loss
        # scaler skips that step.
        for parameter in parameters.values():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimizer
    if numbers["kind"] == "adamw":
        betas = (numbers["beta1"], numbers["beta2"])
        return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=numbers["epsilon"], fused=fused)
    raise ValueError("the torch plugin has no optimizer %r" % numbers["kind"])
