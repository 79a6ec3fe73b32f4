"""Worker half: NumPy as a framework. Standard library, NumPy and dlperf_sdk.worker only; Python 3.7."""

import itertools
from multiprocessing.connection import Client, Listener

import numpy as np

from dlperf_sdk.worker import canonical, interface


class Runtime(interface.Runtime):
    """Replicas meet over sockets: rank 0 adds up what the others send."""

    def start(self):
        self.rank, self.size, self.peers = self.process.rank, self.cluster.world_size, []
        if self.request.strategy == "independent" or self.size == 1:
            return
        first = self.cluster.nodes[0]
        address = (first.host, int(first.ports[0]))
        if self.rank == 0:
            with Listener(address, backlog=self.size) as listener:
                self.peers = [listener.accept() for _ in range(self.size - 1)]
            return
        while not self.peers:
            try:
                self.peers = [Client(address)]
            except ConnectionRefusedError:
                pass  # rank 0 does not listen yet

    def mean(self, array):
        """The mean over all replicas."""
        if self.rank == 0:
            total = array + sum(
                np.frombuffer(peer.recv_bytes(), array.dtype).reshape(array.shape) for peer in self.peers
            )
            result = (total / (len(self.peers) + 1)).astype(array.dtype)
            for peer in self.peers:
                peer.send_bytes(result.tobytes())
            return result
        self.peers[0].send_bytes(array.tobytes())
        return np.frombuffer(self.peers[0].recv_bytes(), array.dtype).reshape(array.shape)

    def facts(self):
        return {"framework_version": np.__version__}


class Linear(interface.Trainer):
    """Least squares by gradient descent."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.weights = dict(canonical.weights(request.parameters, request.seed))
        self.rate = request.optimizer["learning_rate"]

    def canonical_batch(self):
        shard = canonical.shard(self.process.replicas[0])
        return canonical.batch(self.request.inputs, self.request.batch_size, shard, self.request.seed)

    def batches(self):
        return itertools.repeat(self.canonical_batch())

    def step(self, batch):
        error = batch["x"] @ self.weights["weight"] - batch["y"]
        gradient = 2 * batch["x"].T @ error / len(error)
        if self.runtime.peers:
            gradient = self.runtime.mean(gradient)
        self.weights["weight"] = self.weights["weight"] - np.float32(self.rate) * gradient
        return interface.Step(float((error**2).mean()), len(error))

    def read_loss(self, loss):
        return [loss]

    def parameters(self, replica):
        return self.weights.items()

    def deviation(self):
        return 0.0

    def observed(self):
        return {"precision": str(self.weights["weight"].dtype).replace("float", "fp")}
