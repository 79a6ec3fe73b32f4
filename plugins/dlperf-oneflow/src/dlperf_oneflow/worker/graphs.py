"""Static graphs: forward, backward and update in one, and how replicas meet in it.

They meet through global tensors: the parameters are whole on every replica (`broadcast`), and the samples of one
large batch are spread over them (`split`). Batch norm stays with each replica's samples, and so do its statistics,
whatever `broadcast` says of them. A loss that is a mean over all samples is a `partial_sum`: each replica holds its
own loss ÷ replicas.
"""

import oneflow as flow
from oneflow import nn

from dlperf_oneflow.worker.optimizers import clip_, warm_up


def placement(device, replicas):
    """Return the placement of all replicas on this kind of device."""
    return flow.placement(device, list(range(replicas)))


def spread(batch, placement):
    """Return one global batch on the placement, of which each replica's batch is its part."""
    return {
        name: value.to_global(placement=placement, sbp=flow.sbp.split(0)) for name, value in batch.items()
    }


def to_local(value):
    """Return this replica's part of a global tensor, as a view of its memory; return any other tensor unchanged."""
    return value.to_local() if value.is_global else value


class TrainingGraph(nn.Graph):
    """Forward, backward and update as one static graph, with OneFlow's fusions."""

    def __init__(self, trainer):
        super().__init__()
        self.network = trainer.network
        self.trainer = trainer
        self.parameters = list(trainer.network.parameters())
        _fuse(self.config)
        numbers = trainer.request.optimizer
        self.clip_norm = numbers.get("clip_norm")
        scheduler = warm_up(trainer.optimizer, numbers) if numbers["policy"] == "warmup" else None
        self.add_optimizer(trainer.optimizer, lr_sch=scheduler)

    def moments(self):
        """Yield the tensors that OneFlow's optimizer keeps inside the graph."""
        for name, value in self.state_dict().items():
            if isinstance(value, flow.Tensor):
                yield name, value

    def build(self, *values):
        """Compute the loss of the model's inputs, which are in the manifest's order."""
        batch = dict(zip(self.trainer.names, values))
        loss = self.trainer.loss(self.trainer.outputs(self.network, batch), batch)
        loss.backward()
        if self.clip_norm is not None:
            for parameter in self.parameters:
                # The norm is that of the average: were this left to the update, gradients would meet twice.
                if parameter.is_global:
                    parameter.grad = parameter.grad.to_global(sbp=flow.sbp.broadcast)
            clip_(self.parameters, self.clip_norm)
        return loss


class EvidenceGraph(nn.Graph):
    """The forward pass alone, with the same settings."""

    def __init__(self, trainer):
        super().__init__()
        self.network = trainer.network
        self.trainer = trainer
        _fuse(self.config)

    def build(self, *values):
        """Return the logits, one tensor per head, of the model's inputs in the manifest's order."""
        return self.trainer.outputs(self.network, dict(zip(self.trainer.names, values)))


def _fuse(config):
    """Enable the fusions that OneFlow's own recipes enable."""
    config.allow_fuse_add_to_output(True)
    config.allow_fuse_model_update_ops(True)
