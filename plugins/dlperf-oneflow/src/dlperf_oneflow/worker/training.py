"""What every OneFlow trainer shares: parameters, the step, input, evidence for the precision.

A model's own file has its network, its loss, and nothing else.
"""

import itertools

import numpy as np
import oneflow as flow
from oneflow.nn.parallel import DistributedDataParallel

from dlperf_oneflow.worker import evidence
from dlperf_oneflow.worker.graphs import EvidenceGraph, TrainingGraph, own, placement, spread
from dlperf_oneflow.worker.optimizers import clip_, optimizer
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate


class OneFlowTrainer(Trainer):
    """One replica of a network, and how to train it. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.device = runtime.device
        self.names = [entry["name"] for entry in request.inputs]
        compiled = request.compiler == "graph"
        # Only where replicas meet in a graph are there global tensors, and one batch of all of them.
        self.placement = placement(request.device, runtime.replicas) if compiled and runtime.meets else None
        self.replicas = 1 if self.placement is None else runtime.replicas
        """How many replicas' samples are in a batch, one after the other, as `outputs` and `loss` see it."""
        self.network = self._placed(self.build(request.model_options))
        # DistributedDataParallel averages in every backward pass what is there: the first micro-batches' average again.
        self.meets_at_the_end = runtime.meets and not compiled and request.accumulation > 1
        if runtime.meets and not compiled and not self.meets_at_the_end:
            self.network = DistributedDataParallel(
                self.network, broadcast_buffers=False, broadcast_parameters=False
            )
        self.optimizer = optimizer(self.network, request)
        self.graph = TrainingGraph(self) if compiled else None
        self._steps = 0
        self._averaged = False
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
        """The loss of those outputs, a scalar: the mean over the batch, and over `replicas` of what each has alone."""
        raise NotImplementedError("a OneFlow model implements loss()")

    # The network and where it is.

    def _placed(self, network):
        """On the device, with the canonical weights.

        Replicas start from these instead of a copy of rank 0's, which is what `to_global` gives them: so equal
        digests at the end mean something.
        """
        request = self.request
        network = network.to(self.device)
        if self.placement is not None:
            network = network.to_global(placement=self.placement, sbp=flow.sbp.broadcast)
        parameters = dict(network.named_parameters())
        with flow.no_grad():
            for name, values in canonical.weights(request.parameters, request.seed):
                own(parameters.pop(name)).copy_(flow.from_numpy(values).to(self.device))
        if parameters:
            raise ValueError("the manifest of %s lacks %s" % (request.model, ", ".join(sorted(parameters))))
        return network.train()

    def _place(self, batch):
        """NumPy arrays as tensors on this replica's device."""
        placed = {name: flow.from_numpy(values).to(self.device) for name, values in batch.items()}
        return placed if self.placement is None else spread(placed, self.placement)

    # Input.

    def _canonical_host_batch(self):
        return canonical.batch_of(self.request, self.runtime.replica)

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
        """One optimisation step over all micro-batches; OneFlow's virtual machine works on while it returns."""
        loss = self._eager(batch) if self.graph is None else self._compiled(batch)
        self._steps += 1
        with flow.no_grad():
            # What is read of the first parameter, which gets its gradient last, is there when the step is done.
            trace = own(next(self.network.parameters())).flatten()[:1].clone()
        return Step((loss, trace), self.request.batch_size)

    def _eager(self, batch):
        numbers = self.request.optimizer
        rate = learning_rate(numbers, numbers["policy"], self._steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # To zero, not to None: DistributedDataParallel adds to what its buckets hold.
        self.optimizer.zero_grad()
        pieces = self._micro_batches(batch)
        total = None
        for piece in pieces:
            loss = self.loss(self.outputs(self.network, piece), piece)
            if len(pieces) > 1:
                loss = loss / len(pieces)
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        if self.meets_at_the_end:
            self._average()
        if numbers.get("clip_norm") is not None:
            clip_(list(self.network.parameters()), numbers["clip_norm"])
        self.optimizer.step()
        return total

    def _micro_batches(self, batch):
        count = self.request.accumulation
        if count == 1:
            return [batch]
        size = self.request.batch_size // count
        return [
            {name: value[i * size : (i + 1) * size] for name, value in batch.items()} for i in range(count)
        ]

    def _average(self):
        """The gradients of all micro-batches become their mean over the replicas, the last layers' first."""
        for parameter in reversed(list(self.network.parameters())):
            flow.comm.all_reduce(parameter.grad)
            parameter.grad.mul_(1 / self.runtime.replicas)
        self._averaged = True

    def _compiled(self, batch):
        """The learning rate is inside the graph. Its outputs are few buffers, which later steps write to."""
        share = own(self.graph(*[batch[name] for name in self.names]))
        return share * self.replicas

    # What is read when the clock has stopped.

    def read_loss(self, loss):
        """The loss of this process's one replica."""
        return [loss[0].item()]

    def parameters(self, replica):
        """The network's parameters under the manifest's names: OneFlow has the manifest's layout already."""
        parameters = dict(self.network.named_parameters())
        for entry in self.request.parameters:
            yield entry["name"], np.ascontiguousarray(own(parameters[entry["name"]]).detach().numpy())

    def running_means(self, replica):
        """Of every batch norm."""
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, own(values).numpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch.

        y comes from the network as `step` calls it: eager, or in a graph with the same settings; y32 from the
        network, eager, in fp32. In both dropout is off, batch norm uses the batch's statistics, and no trace
        stays.
        """
        batch = self.canonical_batch()
        with evidence.undisturbed(self.network):
            if self.graph is None:
                values = self.outputs(self.network, batch)
            else:
                values = EvidenceGraph(self)(*[batch[name] for name in self.names])
            self._seen.update(str(value.dtype).replace("oneflow.", "") for value in values)
            with flow.no_grad():
                references = self.outputs(self.network, batch)
        return evidence.apart(values, references)

    def observed(self):
        """What was in effect: from the types seen in `deviation`, and from the state of OneFlow's objects."""
        compiled = self.graph is not None and self.graph.is_compiled
        found = {"compiler": "graph" if compiled else "none", "accumulation": self.request.accumulation}
        fp32 = "tf32" if self.request.precision == "tf32" else "fp32"
        if self._seen:
            found["precision"] = "+".join(sorted({"float32": fp32}.get(name, name) for name in self._seen))
        if any(parameter.dim() == 4 for parameter in self.network.parameters()):
            found["layout"] = "nchw"
        meets = hasattr(self.network, "_buckets") or next(self.network.parameters()).is_global
        if meets or self._averaged:
            found["strategy"] = "all_reduce"
        if self._loader is not None:
            found["data"] = self._loader.facts
        return found
