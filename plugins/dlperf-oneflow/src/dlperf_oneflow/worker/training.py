"""What every OneFlow trainer shares: parameters, the step, the static graph, input, evidence for the precision.

A model's own file has its network, its loss, and nothing else.
"""

import contextlib
import itertools

import numpy as np
import oneflow as flow
from oneflow import nn
from oneflow.nn.parallel import DistributedDataParallel

from dlperf_oneflow.worker.optimizers import optimizer, warm_up
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer, Unsupported
from dlperf_sdk.worker.schedule import learning_rate


class OneFlowTrainer(Trainer):
    """One replica of a network, and how to train it. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.device = runtime.device
        self.names = [entry["name"] for entry in request.inputs]
        self.network = self._placed(self.build(request.model_options))
        if runtime.meets:
            # Replicas start from the canonical weights, not from a copy of rank 0's, and keep their own batch
            # norm statistics: so equal digests at the end mean something.
            self.network = DistributedDataParallel(
                self.network, broadcast_buffers=False, broadcast_parameters=False
            )
        self.optimizer = optimizer(self.network, request)
        self.graph = None
        if request.compiler == "graph":
            if request.optimizer.get("clip_norm") is not None:
                raise Unsupported(
                    "nn.Graph clips the gradients of each group of parameters by a norm of its own, and here weights "
                    "with and without decay are two groups; set clip_norm to 0, or choose the compiler none."
                )
            self.graph = TrainingGraph(self)
        self._steps = 0
        self._loader = None
        self._seen = set()

    # What a model implements. The bodies here are no gaps: a model that lacks one is told which.

    def build(self, options):
        """The network, on the CPU. Its `named_parameters()` have the manifest's names and shapes."""
        raise NotImplementedError("a OneFlow model implements build()")

    def outputs(self, network, batch):
        """The outputs of the network for a batch: a tuple of tensors, logits."""
        raise NotImplementedError("a OneFlow model implements outputs()")

    def loss(self, outputs, batch):
        """The loss of those outputs, a scalar: the mean over the batch."""
        raise NotImplementedError("a OneFlow model implements loss()")

    # The network and where it is.

    def _placed(self, network):
        request = self.request
        parameters = dict(network.named_parameters())
        with flow.no_grad():
            for name, values in canonical.weights(request.parameters, request.seed):
                parameters.pop(name).copy_(flow.from_numpy(values))
        if parameters:
            raise ValueError("the manifest of %s lacks %s" % (request.model, ", ".join(sorted(parameters))))
        return network.to(self.device).train()

    def _place(self, batch):
        """NumPy arrays as tensors on this replica's device."""
        return {name: flow.from_numpy(values).to(self.device) for name, values in batch.items()}

    # Input.

    def _canonical_host_batch(self):
        request = self.request
        shard = canonical.shard(self.runtime.replica)
        return canonical.batch(request.inputs, request.batch_size, shard, request.seed)

    def canonical_batch(self):
        """The canonical shard of this replica, on its device."""
        return self._place(self._canonical_host_batch())

    def batches(self):
        """The data source's batches, on the device, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            return map(self._place, itertools.repeat(self._canonical_host_batch()))
        if source == "images":
            from dlperf_oneflow.worker import images as loaders
        else:
            from dlperf_oneflow.worker import text as loaders
        self._loader = loaders.batches(self.request, self.process)
        return map(self._place, self._loader)

    def prefetched_batches(self):
        """What the loaders hold ready; synthetic data needs none."""
        return 0 if self._loader is None else self._loader.prefetched

    # The step.

    def step(self, batch):
        """One optimisation step; OneFlow's virtual machine works on while it returns."""
        loss = self._eager(batch) if self.graph is None else self._compiled(batch)
        self._steps += 1
        with flow.no_grad():
            # What is read of the first parameter, which gets its gradient last, is there when the step is done.
            trace = next(self.network.parameters()).flatten()[:1].clone()
        return Step((loss, trace), self.request.batch_size)

    def _eager(self, batch):
        numbers = self.request.optimizer
        rate = learning_rate(numbers, numbers["policy"], self._steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # To zero, not to None: DistributedDataParallel adds to what its buckets hold.
        self.optimizer.zero_grad()
        loss = self.loss(self.outputs(self.network, batch), batch)
        loss.backward()
        if numbers.get("clip_norm") is not None:
            clip_(list(self.network.parameters()), numbers["clip_norm"])
        self.optimizer.step()
        return loss.detach()

    def _compiled(self, batch):
        """The learning rate is inside the graph. Its outputs are few buffers, which later steps write to."""
        return self.graph(*[batch[name] for name in self.names]).clone()

    # What is read when the clock has stopped.

    def read_loss(self, loss):
        """The loss of this process's one replica."""
        return [loss[0].item()]

    def parameters(self, replica):
        """The network's parameters under the manifest's names: OneFlow has the manifest's layout already."""
        parameters = dict(self.network.named_parameters())
        for entry in self.request.parameters:
            yield entry["name"], np.ascontiguousarray(parameters[entry["name"]].detach().numpy())

    def running_means(self, replica):
        """Of every batch norm."""
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, values.numpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch.

        y comes from the network as `step` calls it: eager, or in a graph with the same settings; y32 from the
        network, eager, in fp32. In both dropout is off, batch norm uses the batch's statistics, and no trace
        stays.
        """
        batch = self.canonical_batch()
        with undisturbed(self.network):
            if self.graph is None:
                values = self.outputs(self.network, batch)
            else:
                values = EvidenceGraph(self)(*[batch[name] for name in self.names])
            self._seen.update(str(value.dtype).replace("oneflow.", "") for value in values)
            values = [value.detach().numpy().astype(np.float64) for value in values]
            with flow.no_grad():
                references = [value.numpy().astype(np.float64) for value in self.outputs(self.network, batch)]
        apart = sum(np.square(y - y32).sum() for y, y32 in zip(values, references))
        return float((apart / sum(np.square(y32).sum() for y32 in references)) ** 0.5)

    def observed(self):
        """What was in effect: from the types seen in `deviation`, and from the state of OneFlow's objects."""
        compiled = self.graph is not None and self.graph.is_compiled
        found = {"compiler": "graph" if compiled else "none"}
        fp32 = "tf32" if self.request.precision == "tf32" else "fp32"
        if self._seen:
            found["precision"] = "+".join(sorted({"float32": fp32}.get(name, name) for name in self._seen))
        if any(parameter.dim() == 4 for parameter in self.network.parameters()):
            found["layout"] = "nchw"
        if hasattr(self.network, "_buckets"):
            found["strategy"] = "all_reduce"
        if self._loader is not None:
            found["data"] = self._loader.facts
        return found


class TrainingGraph(nn.Graph):
    """Forward, backward and update as one static graph, with OneFlow's fusions."""

    def __init__(self, trainer):
        super().__init__()
        self.network = trainer.network
        self.trainer = trainer
        _fuse(self.config)
        numbers = trainer.request.optimizer
        scheduler = warm_up(trainer.optimizer, numbers) if numbers["policy"] == "warmup" else None
        self.add_optimizer(trainer.optimizer, lr_sch=scheduler)

    def build(self, *values):
        """The model's inputs in the manifest's order → the loss."""
        batch = dict(zip(self.trainer.names, values))
        loss = self.trainer.loss(self.trainer.outputs(self.network, batch), batch)
        loss.backward()
        return loss


class EvidenceGraph(nn.Graph):
    """The forward pass alone, with the same settings."""

    def __init__(self, trainer):
        super().__init__()
        self.network = trainer.network
        self.trainer = trainer
        _fuse(self.config)

    def build(self, *values):
        """The model's inputs in the manifest's order → the logits."""
        return self.trainer.outputs(self.network, dict(zip(self.trainer.names, values)))


def _fuse(config):
    """The fusions that OneFlow's own recipes switch on."""
    config.allow_fuse_add_to_output(True)
    config.allow_fuse_model_update_ops(True)


def surprise(logits):
    """-log p over the last axis, written out: the fp32 of oneDNN's log-softmax is off by 2e-6."""
    shifted = logits - flow.max(logits, dim=-1, keepdim=True)[0].detach()
    return shifted.exp().sum(dim=-1, keepdim=True).log() - shifted


def surprise_at(logits, labels):
    """-log p[label]: (N, K), (N,) → (N,)."""
    return flow.gather(surprise(logits), 1, labels.unsqueeze(-1)).squeeze(-1)


def clip_(parameters, norm):
    """g ← g · min(1, norm / ‖g‖), the norm being that of all gradients; nothing here waits for the device."""
    gradients = [parameter.grad for parameter in parameters]
    squares = flow.stack([(gradient * gradient).sum() for gradient in gradients])
    shrink = flow.clamp(norm / squares.sum().sqrt(), max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink)


@contextlib.contextmanager
def undisturbed(network):
    """Dropout off, and the buffers (batch norm's running statistics) put back at the end."""
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    dropouts = [(module, module.p) for module in network.modules() if isinstance(module, nn.Dropout)]
    for module, _ in dropouts:
        module.p = 0.0
    try:
        yield
    finally:
        for module, p in dropouts:
            module.p = p
        for name, buffer in network.named_buffers():
            buffer.copy_(buffers[name])
