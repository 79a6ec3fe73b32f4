"""The average of gradients over the replicas, with MindSpore's all-reduce."""

from mindspore import ops


class Exchange:
    """The averaging of all gradients in one all-reduce, between backward pass and update.

    On a CPU each of MindSpore's all-reduces takes tens of milliseconds, however small it is, so one per parameter would
    take seconds per step.

    Args:
        parameters: List of MindSpore's parameters, in the order of the gradients.
        replicas: Number of replicas.
    """

    def __init__(self, parameters, replicas):
        self._shapes = [parameter.shape for parameter in parameters]
        self._sizes = [parameter.size for parameter in parameters]
        self._sum, self._replicas = ops.AllReduce(), replicas
        self.count = 0
        """Number of averages so far."""

    def average(self, gradients):
        """Return the means of `gradients` over the replicas, a tuple of tensors in the same order.

        `gradients` has a tensor per parameter, in the order of `parameters`. All replicas must call this. Each call
        adds 1 to `count`, the number of averages so far.
        """
        flat = self._sum(ops.concat([gradient.reshape(-1) for gradient in gradients])) / self._replicas
        self.count += 1
        parts = ops.split(flat, self._sizes)
        return tuple(part.reshape(shape) for part, shape in zip(parts, self._shapes))
