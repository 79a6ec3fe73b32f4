"""The worker half of the NumPy plugin: standard library, NumPy and `dlperf_sdk.worker` only; Python 3.7."""

import contextlib
from multiprocessing.connection import Client, Listener, wait

import numpy as np

from dlperf_sdk.worker import canonical, interface, precision, processes
from dlperf_sdk.worker.base_trainer import BaseTrainer
from dlperf_sdk.worker.exchange import ArrayExchange


class Runtime(interface.Runtime):
    """The runtime of NumPy: replicas exchange gradients over sockets, through rank 0."""

    # The clock stays "blocking": NumPy has finished when it returns. So `synchronize` has nothing to wait for.

    # Both have one process per device, which the core lays out. Any other strategy is refused by its name.
    strategies = dict.fromkeys(("all_reduce", "independent"), processes.one_per_device)

    # Who and where everybody is, `cluster` says: one process per device, which is what the core lays out.
    def start(self):
        peer_count = self.cluster.world_size - 1 if self.syncs_gradients else 0
        # A node's ports are free and this case's own; nobody needs to guess one.
        self.peers, address = [], (self.cluster.nodes[0].host, int(self.cluster.nodes[0].ports[0]))
        if peer_count and self.process.rank == 0:
            with Listener(address, backlog=peer_count) as listener:
                self.peers = [listener.accept() for _ in range(peer_count)]
        # Until rank 0 listens, asked now and then. No limit of our own: the agents end a worker that waits in vain.
        while peer_count and not self.peers:
            wait([], 0.005)
            with contextlib.suppress(ConnectionRefusedError):
                self.peers = [Client(address)]

    def mean(self, array):
        """Return the mean of an array over all replicas: the same bytes on each, so that their digests are equal.

        Rank 0 receives the arrays of all replicas, and sends the mean back. A replica without peers gets its own
        array.
        """
        if self.peers and self.process.rank:
            self.peers[0].send_bytes(array.tobytes())
            return np.frombuffer(self.peers[0].recv_bytes(), array.dtype).reshape(array.shape)
        arrays = [np.frombuffer(peer.recv_bytes(), array.dtype).reshape(array.shape) for peer in self.peers]
        mean = np.mean([array, *arrays], axis=0)
        for peer in self.peers:
            peer.send_bytes(mean.tobytes())
        return mean

    # What was observed goes into the record: the version at least.
    def facts(self):
        return {"framework_version": np.__version__}


class Trainer(BaseTrainer):
    """The part of a trainer that both models share. A model's subclass implements `loss`.

    `loss(z, y)` takes outputs (B, K) and targets; it returns the mean loss, and its gradient for z times B, (B, K).
    """

    # The data types behind each precision's name; training and evidence read them here.
    precisions = {"fp32": precision.Precision("float32", "float32")}

    # Every framework starts from the same numbers: a function of the seed and the parameter's name.
    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.reset()

    # In the manifest's layout: the core compares replicas, and frameworks, by these.
    def read_parameter(self, name, replica):
        return self.weights[name]

    # After the window it has to take its first steps again. Plain gradient descent keeps nothing but the weights.
    def reset(self):
        self.weights = dict(canonical.weights(self.request.parameters, self.request.seed))

    # One batch per replica of this process, which has one; NumPy's device is the host.
    def place(self, batches):
        return batches[0]

    # One optimization step. It returns the loss handle, here simply the number: it is read when the clock has stopped.
    def train(self, batch, rate):
        loss, slope = self.loss(batch["x"] @ self.weights["weight"].T, batch["y"])
        self.weights["weight"] -= rate * self.runtime.mean(slope.T @ batch["x"] / len(slope))
        return loss

    # What `--only communication` measures. The other parts of a step need nothing of ours.
    def gradient_exchange(self):
        return ArrayExchange(self.runtime.mean, self.weights["weight"])

    # The evidence for the precision: the outputs in the types that `train` uses, and in plain fp32.
    def outputs_and_references(self):
        x, weight = self.canonical_batch()["x"], self.weights["weight"]
        return [x @ weight.T], [np.float32(x) @ np.float32(weight).T]

    # What was really in effect, under the names of the request.
    def observe_settings(self):
        return {"precision": str(self.weights["weight"].dtype).replace("float", "fp")}


class Linear(Trainer):
    """The trainer of `linear`."""

    def loss(self, z, y):
        """Return the mean of (z - y)² over all elements, and 2 (z - y): z and y are (B, 1)."""
        return ((z - y) ** 2).mean(), 2 * (z - y)


class Softmax(Trainer):
    """The trainer of `softmax`."""

    def loss(self, z, y):
        """Return the mean of -log softmax(z)[y], and softmax(z) - one-hot(y): z is (B, 10), y (B,)."""
        log_p, hot = z - np.logaddexp.reduce(z, axis=1, keepdims=True), np.eye(z.shape[1], dtype=z.dtype)[y]
        return -(log_p * hot).sum(axis=1).mean(), np.exp(log_p) - hot
