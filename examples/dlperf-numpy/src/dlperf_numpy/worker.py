"""Worker half: runs in the framework's environment. Standard library, NumPy and dlperf_sdk.worker; Python 3.7."""

import itertools
from multiprocessing.connection import Client, Listener

import numpy as np

from dlperf_sdk.worker import canonical, interface


class Runtime(interface.Runtime):
    """Replicas meet over sockets: rank 0 adds up what the others send."""

    # The clock stays "blocking": NumPy has finished when it returns. So `synchronize` has nothing to wait for.

    # Who and where everybody is, `cluster` says: one process per device, which is what the core lays out.
    def start(self):
        self.rank, self.peers, others = self.process.rank, [], self.cluster.world_size - 1
        if self.request.strategy == "independent" or not others:
            return
        # Ports of a node are free and reserved for this case; nobody needs to guess one.
        address = (self.cluster.nodes[0].host, int(self.cluster.nodes[0].ports[0]))
        if self.rank == 0:
            with Listener(address, backlog=others) as listener:
                self.peers = [listener.accept() for _ in range(others)]
        # The agents end a worker that waits in vain: no timeout of our own.
        while not self.peers:
            try:
                self.peers = [Client(address)]
            except ConnectionRefusedError:
                pass  # rank 0 does not listen yet

    def mean(self, array):
        """The mean over all replicas; the same bytes on each, so that their digests are equal."""
        if not self.peers:
            return array
        if self.rank:
            self.peers[0].send_bytes(array.tobytes())
            return np.frombuffer(self.peers[0].recv_bytes(), array.dtype).reshape(array.shape)
        theirs = [np.frombuffer(peer.recv_bytes(), array.dtype).reshape(array.shape) for peer in self.peers]
        result = (sum(theirs, array) / (len(theirs) + 1)).astype(array.dtype)
        for peer in self.peers:
            peer.send_bytes(result.tobytes())
        return result

    # What was observed goes into the record: the version at least.
    def facts(self):
        return {"framework_version": np.__version__}


class Trainer(interface.Trainer):
    """What both models share; `gradients` is theirs."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        # Every framework starts from the same numbers: a function of seed and name.
        self.weights = dict(canonical.weights(request.parameters, request.seed))

    def canonical_batch(self):
        shard = canonical.shard(self.process.replicas[0])
        return canonical.batch(self.request.inputs, self.request.batch_size, shard, self.request.seed)

    # `synthetic` is the only data source that the plugin offers.
    def batches(self):
        return itertools.repeat(self.canonical_batch())

    # One optimisation step: the loss handle (here simply the number), and how many samples it took.
    def step(self, batch):
        loss, gradients = self.gradients(batch)
        for name, gradient in gradients.items():
            rate = np.float32(self.request.optimizer["learning_rate"])
            self.weights[name] = self.weights[name] - rate * self.runtime.mean(gradient)
        return interface.Step(loss, len(batch["x"]))

    # Called when the clock has stopped: one loss per replica of this process.
    def read_loss(self, loss):
        return [float(loss)]

    # In the manifest's order, names, shapes; the core compares replicas and models by these.
    def parameters(self, replica):
        return self.weights.items()

    # The evidence for the precision: plain fp32 against plain fp32.
    def deviation(self):
        return 0.0

    # What was really in effect, under the names of the request.
    def observed(self):
        return {"precision": str(self.weights["weight"].dtype).replace("float", "fp")}


class Linear(Trainer):
    def gradients(self, batch):
        error = batch["x"] @ self.weights["weight"] - batch["y"]
        return (error**2).mean(), {"weight": 2 * batch["x"].T @ error / len(error)}


class Softmax(Trainer):
    def gradients(self, batch):
        logits = batch["x"] @ self.weights["weight"].T + self.weights["bias"]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        rows = np.arange(len(p))
        loss = -np.log(p[rows, batch["label"]]).mean()
        # The gradient with respect to the logits: p, less one at the label.
        p[rows, batch["label"]] -= 1
        return loss, {"weight": p.T @ batch["x"] / len(p), "bias": p.mean(axis=0)}
