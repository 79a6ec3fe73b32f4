"""What every MXNet trainer shares: parameters, input, the step, what was in effect.

A model's own file has its network, its loss, and nothing else. A process may own several replicas: a batch is
a list with a dict of arrays for each, and so are losses.
"""

import itertools

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.contrib import amp

from dlperf_mxnet.worker import evidence, mixed
from dlperf_mxnet.worker.optimizers import optimizer
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate


class MXNetTrainer(Trainer):
    """The replicas of a network that one process owns. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.contexts = runtime.contexts
        self.layout = "NHWC" if request.layout == "nhwc" else "NCHW"
        # Mixed precision replaces MXNet's operators for good, so what it is compared with comes first.
        self._references = self._plain_outputs()
        mixed.switch_on(request.precision)
        self.network, self.criterion = self._placed(self.contexts)
        self.named = _named(self.network)
        for entry in request.parameters:
            self.named[entry["name"]].wd_mult = 1.0 if entry["decay"] else 0.0
        if request.accumulation > 1:
            for parameter in self.named.values():
                parameter.grad_req = "add"
        self.optimizer = optimizer(request.optimizer)
        # Gradients meet in the runtime's kvstore, before this; the Trainer updates each replica's weights.
        trained = [self.named[entry["name"]] for entry in request.parameters]
        self.trained = trained
        # SGD updates four parameters in one loop over the largest one's elements: its threads share the work
        # evenly where the four are of a size.
        by_size = sorted(trained, key=lambda parameter: np.prod(parameter.shape))
        self.updates = gluon.Trainer(by_size, self.optimizer, kvstore=None)
        if request.precision == "amp-fp16":
            amp.init_trainer(self.updates)
        self.compiled = request.compiler == "graph"
        if self.compiled:
            self.network.hybridize(static_alloc=True, static_shape=True)
            self.criterion.hybridize(static_alloc=True, static_shape=True)
        self._steps = 0
        self._skipped = 0
        self._loaders = None
        self._seen = evidence.Seen()

    # What a model implements. The bodies here are no gaps: a model that lacks one is told which.

    def build(self, options):
        """The network and its loss, hybrid blocks. Parameters have the manifest's names, but for gluon's
        `gamma` and `beta`, and its shapes."""
        raise NotImplementedError("an MXNet model implements build()")

    def outputs(self, network, batch):
        """The outputs of the network for one replica's batch: a tuple of arrays, logits."""
        raise NotImplementedError("an MXNet model implements outputs()")

    def loss(self, criterion, outputs, batch):
        """The loss of those outputs, (1,): the mean over the batch."""
        raise NotImplementedError("an MXNet model implements loss()")

    # The network and where it is.

    def _placed(self, contexts):
        """Network and loss on these devices, with the canonical weights."""
        request = self.request
        network, criterion = self.build(request.model_options)
        network.initialize(ctx=contexts)
        parameters = _named(network)
        for name, values in canonical.weights(request.parameters, request.seed):
            parameters.pop(name).set_data(mx.nd.array(self._laid_out(values)))
        if parameters:
            raise ValueError("the manifest of %s lacks %s" % (request.model, ", ".join(sorted(parameters))))
        return network, criterion

    def _laid_out(self, values):
        """Images and the weights of convolutions in the network's layout."""
        if self.layout == "NHWC" and values.ndim == 4:
            return np.ascontiguousarray(values.transpose(0, 2, 3, 1))
        return values

    # Input.

    def _canonical_host_batch(self):
        return [
            self.host_arrays(canonical.batch_of(self.request, replica)) for replica in self.process.replicas
        ]

    def host_arrays(self, arrays):
        """NumPy arrays as MXNet takes them: in its layout, and float32, indices as well (exact to 2²⁴)."""
        return {name: self._laid_out(values).astype(np.float32) for name, values in arrays.items()}

    def _place(self, batch):
        """A host batch on the replicas' devices."""
        return [
            {name: mx.nd.array(values, ctx=context) for name, values in arrays.items()}
            for context, arrays in zip(self.contexts, batch)
        ]

    def canonical_batch(self):
        """The canonical shards of this process's replicas, on their devices."""
        return self._place(self._canonical_host_batch())

    def batches(self):
        """The data source's batches, on the devices, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            return map(self._place, itertools.repeat(self._canonical_host_batch()))
        if source == "images":
            from dlperf_mxnet.worker import images as loaders
        else:
            from dlperf_mxnet.worker import text as loaders
        self._loaders = [loaders.batches(self.request, replica) for replica in self.process.replicas]
        return map(self._moved, zip(*self._loaders))

    def _moved(self, batch):
        """Loaded arrays on the replicas' devices; on a CPU they are there."""
        return [
            {name: values.as_in_context(context) for name, values in arrays.items()}
            for context, arrays in zip(self.contexts, batch)
        ]

    def prefetched_batches(self):
        """What the loaders hold ready; synthetic data needs none."""
        return 0 if self._loaders is None else self._loaders[0].prefetched

    # The step.

    def step(self, batch):
        """One optimisation step over all micro-batches; the engine works on while it returns.

        With `amp-fp16` MXNet itself waits in each step, to see whether the gradients are finite.
        """
        self._set_learning_rate()
        pieces = [self._micro_batches(arrays) for arrays in batch]
        totals = [None] * len(batch)
        for micro in zip(*pieces):
            with autograd.record():
                losses = [
                    self.loss(self.criterion, self.outputs(self.network, piece), piece) for piece in micro
                ]
                self._backward(losses)
            # Sums have memory of their own, which no later step of a static graph writes to.
            totals = [
                loss.detach() / len(pieces[0]) + (0.0 if total is None else total)
                for loss, total in zip(losses, totals)
            ]
        self.runtime.meet(self.trained)
        self._update(self.runtime.cluster.world_size if self.runtime.kvstore is not None else 1)
        # The first parameter's update is the last that the engine does: its gradient comes last.
        traces = [weight.reshape((-1,))[:1] * 1.0 for weight in self.trained[0].list_data()]
        return Step((totals, traces), self.request.batch_size * len(batch))

    def _set_learning_rate(self):
        numbers = self.request.optimizer
        self.updates.set_learning_rate(learning_rate(numbers, numbers["policy"], self._steps))
        self._steps += 1

    def _micro_batches(self, arrays):
        count = self.request.accumulation
        if count == 1:
            return [arrays]
        size = self.request.batch_size // count
        return [
            {name: values[i * size : (i + 1) * size] for name, values in arrays.items()} for i in range(count)
        ]

    def _backward(self, losses):
        if self.request.precision == "amp-fp16":
            with amp.scale_loss(losses, self.updates) as scaled:
                autograd.backward(scaled)
        else:
            autograd.backward(losses)

    def _update(self, replicas):
        """Update all weights with the mean over replicas and micro-batches."""
        parts = replicas * self.request.accumulation
        if self.request.optimizer.get("clip_norm") is not None:
            self.optimizer.rescale_grad = self.updates._scale / parts
            for i in range(len(self.contexts)):
                self.optimizer.clip([parameter.list_grad()[i] for parameter in self.trained])
        before = self.optimizer.num_update
        self.updates.update(parts)
        # The loss scale is no witness: what is not finite halves the one after the next.
        if self.optimizer.num_update == before:
            self._skipped += 1
        if self.request.accumulation > 1:
            for parameter in self.trained:
                parameter.zero_grad()

    def skipped_steps(self):
        """Steps whose scaled gradients were not finite."""
        return self._skipped

    # What is read when the clock has stopped.

    def read_loss(self, loss):
        """The loss of each replica."""
        return [float(total.asscalar()) for total in loss[0]]

    def parameters(self, replica):
        """One replica's parameters under the manifest's names and in its layout."""
        for entry in self.request.parameters:
            values = self.named[entry["name"]].list_data()[replica].asnumpy()
            if self.layout == "NHWC" and values.ndim == 4:
                values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
            yield entry["name"], values

    def running_means(self, replica):
        """Of every batch norm."""
        for name, parameter in self.network._collect_params_with_prefix().items():
            if name.endswith("running_mean"):
                yield name, parameter.list_data()[replica].asnumpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch.

        y comes from the very network that `step` calls, hybridized as it is; y32 from a second one of the
        same weights, imperative, in fp32, before mixed precision was switched on. Where the model has
        dropout, both are in inference mode, which differs by nothing else there.
        """
        with evidence.undisturbed(self.network):
            values = self._evidence(self.network, self.canonical_batch()[0])
        for value in values:
            self._seen.note(value)
        return evidence.apart(evidence.wide(values), self._references)

    def _evidence(self, network, arrays):
        """The logits of the first micro-batch, with gradients recorded, as in a step."""
        training = not self.request.model_options.get("dropout")
        with autograd.record(train_mode=training):
            return self.outputs(network, self._micro_batches(arrays)[0])

    def _plain_outputs(self):
        """y32, as float64 NumPy arrays."""
        network, _ = self._placed(self.contexts[:1])
        (arrays,) = self._place(self._canonical_host_batch()[:1])
        return evidence.wide(self._evidence(network, arrays))

    def observed(self):
        """What was in effect: from the types seen in `deviation`, and from the state of MXNet's objects."""
        found = {
            "compiler": "graph" if self.network._active else "none",
            "accumulation": self.request.accumulation,
        }
        if self._seen.dtypes:
            found["precision"] = self._seen.precision()
        if any(parameter.shape and len(parameter.shape) == 4 for parameter in self.trained):
            found["layout"] = self.layout.lower()
        if self.runtime.kvstore is not None:
            distributed = self.runtime.kvstore.type.startswith("dist")
            found["strategy"] = "parameter_server" if distributed else "all_reduce"
        if self._loaders is not None:
            found["data"] = self._loaders[0].facts
        return found


def surprise(F, logits):
    """-log p over the last axis.

    With a temperature, be it 1, MXNet takes its own operator instead of oneDNN's, whose fp32 is off by 2e-6.
    """
    return -F.log_softmax(logits, temperature=1.0)


def _named(network):
    """The network's trainable parameters under the manifest's names; one that is shared, once."""
    renamed = {"gamma": "weight", "beta": "bias"}
    found, seen = {}, set()
    for path, parameter in network._collect_params_with_prefix().items():
        stem, _, last = path.rpartition(".")
        if parameter.grad_req != "null" and id(parameter) not in seen:
            found[(stem + "." if stem else "") + renamed.get(last, last)] = parameter
            seen.add(id(parameter))
    return found
