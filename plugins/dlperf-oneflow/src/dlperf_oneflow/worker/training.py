"""The base of OneFlow's trainers: batches, the step, eager or as a graph, evidence."""

import numpy as np
import oneflow as flow
from oneflow.nn.parallel import DistributedDataParallel

from dlperf_oneflow.precisions import PRECISIONS
from dlperf_oneflow.worker import evidence
from dlperf_oneflow.worker.compilers import COMPILERS
from dlperf_oneflow.worker.graphs import EvidenceGraph, placement, spread, to_local
from dlperf_oneflow.worker.loading import Loader
from dlperf_oneflow.worker.mixed import LossScale, autocast
from dlperf_oneflow.worker.optimizers import clip_, moments, optimizer
from dlperf_oneflow.worker.state import ReplicaState


class OneFlowTrainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`.

    A batch holds the samples of `self.replicas` replicas: `loss` must return the mean of these replicas' losses.
    """

    precisions, compilers, loader = PRECISIONS, COMPILERS, Loader

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.device = runtime.device
        self.names = [entry["name"] for entry in request.inputs]
        compiled = self.compiler is not None
        # Only where replicas meet in a graph are there global tensors, and one batch of all of them.
        self.placement = (
            placement(request.device, runtime.replicas) if compiled and runtime.syncs_gradients else None
        )
        self.replicas = 1 if self.placement is None else runtime.replicas
        """Number of replicas whose samples are in a batch of `outputs` and `loss`, one replica after the other."""
        self.network = self.build(request.model_options).to(self.device).train()
        if self.placement is not None:
            # This gives all replicas rank 0's values, so the canonical weights come after it.
            self.network = self.network.to_global(placement=self.placement, sbp=flow.sbp.broadcast)
        self.named = dict(self.network.named_parameters())
        self.load_canonical_weights(self.named)
        # DistributedDataParallel averages in every backward pass what is there: the first micro-batches' average again.
        self.averages_at_the_end = runtime.syncs_gradients and not compiled and request.accumulation > 1
        if runtime.syncs_gradients and not compiled and not self.averages_at_the_end:
            self.network = DistributedDataParallel(
                self.network, broadcast_buffers=False, broadcast_parameters=False
            )
        self.optimizer = optimizer(self.named, request)
        self.graph = self.compiler(self) if compiled else None
        self.scale = LossScale(self.scales_loss)
        self._averaged = False

    # Batches.

    def place(self, batches):
        """Return the inputs of this process's one replica: a dict from input name to tensor on the device.

        `batches` is a list of one such dict, of NumPy arrays. If a graph synchronizes the replicas, the tensors are
        OneFlow's global tensors, of which the samples in `batches` are this replica's part.
        """
        (batch,) = batches
        placed = {name: flow.from_numpy(values).to(self.device) for name, values in batch.items()}
        return placed if self.placement is None else spread(placed, self.placement)

    def read_labels(self, labels):
        """Return the tensor `labels` as a list of one NumPy array: the labels of this process's one replica."""
        return [to_local(labels).numpy()]

    # The step.

    def train(self, batch, rate):
        """Enqueue one step, eager or as a graph; return a pair of tensors, for `read_loss` and for `Runtime.wait`.

        The first is this replica's loss; the second is an element of the first parameter after the update. `batch` is
        what `place` returned; `rate` is the learning rate, which a graph ignores: it has its own schedule.
        """
        if self.graph is None:
            loss = super().train(batch, rate)
        else:
            loss = to_local(self.graph(*[batch[name] for name in self.names])) * self.replicas
        with flow.no_grad():
            # What is read of the first parameter, which gets its gradient last, is there when the step is done.
            trace = to_local(next(self.network.parameters())).flatten()[:1].clone()
        return loss, trace

    def set_learning_rate(self, rate):
        """Set the learning rate of the next update to `rate` in all groups of the optimizer's parameters."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def clear_gradients(self):
        """Set gradients to zero, not to None, since DistributedDataParallel adds to the gradients in its buckets."""
        self.optimizer.zero_grad()

    def forward(self, piece):
        """Return the unscaled mean loss of the micro-batch `piece`, a dict from input name to tensor, as a scalar."""
        with autocast(self.precision):
            outputs = self.outputs(self.network, piece)
        return self.loss([value.float() for value in outputs] if self.precision.casts else outputs, piece)

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the loss scale; return it unchanged if the precision needs none."""
        return self.scale.scale(loss)

    def update(self):
        """Average the gradients over the replicas, clip them to `clip_norm` if that is set, and update the weights.

        With one micro-batch per step, `backward` has averaged them. If one is not finite, only add 1 to `skipped`.
        """
        if self.averages_at_the_end:
            self._average()
        if not self.scale.unscale_([parameter.grad for parameter in self.network.parameters()]):
            self.skipped += 1
            return
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            clip_(list(self.network.parameters()), clip)
        self.optimizer.step()

    def _average(self):
        """Average the gradients of all micro-batches over the replicas, the last layers' first."""
        for parameter in reversed(list(self.network.parameters())):
            flow.comm.all_reduce(parameter.grad)
            parameter.grad.mul_(1 / self.runtime.replicas)
        self._averaged = True

    def reset_optimizer(self):
        """Set the moments and the count of updates to zero, and the loss scale to its first value.

        Raises:
            NotImplementedError: The case has a graph and the policy `warmup`: the graph's schedule cannot be restarted.
        """
        if self.graph is not None and self.request.optimizer["policy"] == "warmup":
            raise NotImplementedError("the schedule of a graph cannot be begun again")
        for _, values in moments(self.optimizer, self.graph):
            to_local(values).zero_()
        self.optimizer._state["step"] = 0
        self.scale.reset()

    def read_loss(self, loss):
        """Return a list of one float, the loss of the one replica; `loss` is the pair that `train` returned."""
        return [loss[0].item()]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Each is a sequence of one tensor per head. The former come from the network that a step calls; if a step uses a
        graph, they are computed in another graph with the same fusions. The fp32 logits are eager. The network's
        buffers are restored.
        """
        batch = self.micro_batches(self.canonical_batch())[0]
        with evidence.preserve_state(self.network):
            if self.graph is None:
                with autocast(self.precision):
                    outputs = self.outputs(self.network, batch)
            else:
                outputs = EvidenceGraph(self)(*[batch[name] for name in self.names])
            for value in outputs:
                self.note_output(value)
            with flow.no_grad():
                return outputs, self.outputs(self.network, batch)

    def widen(self, value):
        """Return this replica's part of `value`, a tensor of `outputs_and_references`, as a float64 NumPy array."""
        return to_local(value).detach().numpy().astype(np.float64)

    def observe_settings(self):
        """Return a dict of the effective `precision`, `compiler`, `layout` and `strategy`; the last two may be None."""
        compiled = self.graph is not None and self.graph.is_compiled
        parameters = list(self.network.parameters())
        syncs_gradients = hasattr(self.network, "_buckets") or parameters[0].is_global or self._averaged
        return {
            "precision": self.name_precision([flow.float32], self.precision.tf32),
            "compiler": "graph" if compiled else "none",
            "layout": "nchw" if any(parameter.dim() == 4 for parameter in parameters) else None,
            "strategy": "all_reduce" if syncs_gradients else None,
        }
