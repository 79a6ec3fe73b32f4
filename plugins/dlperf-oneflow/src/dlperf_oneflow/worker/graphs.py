"""Static graphs of forward pass, backward pass and update, and the global tensors of synchronized replicas.

Parameters are whole on every replica (`broadcast`), and the samples of one large batch are spread over the replicas
(`split`). Batch norm uses each replica's own samples, and its running statistics are each replica's own, although
they are `broadcast`. A loss that is a mean over all samples is a `partial_sum`: each replica holds its own loss
divided by the number of replicas.
"""

import oneflow as flow
from oneflow import nn

from dlperf_oneflow.worker.optimizers import clip_, warm_up


def placement(device, replicas):
    """Return the `oneflow.placement` of all replicas on devices of the kind `device`, `cpu` or `cuda`.

    `replicas` is the number of replicas; their ranks are 0 to `replicas` - 1.
    """
    return flow.placement(device, list(range(replicas)))


def spread(batch, placement):
    """Return the global batch that joins the batches of all replicas: a dict from input name to global tensor.

    Each replica holds its own samples; none are copied to another replica. `batch` is a dict from input name to this
    replica's tensor; `placement` is what the function `placement` returned.
    """
    return {
        name: value.to_global(placement=placement, sbp=flow.sbp.split(0)) for name, value in batch.items()
    }


def to_local(value):
    """Return this replica's part of a global tensor `value`, a view of its memory; return a local tensor unchanged."""
    return value.to_local() if value.is_global else value


class TrainingGraph(nn.Graph):
    """The forward pass, backward pass and update of a `OneFlowTrainer` as one static graph, with OneFlow's fusions.

    A call with the model's inputs, tensors in the order of `Request.inputs`, runs one step and returns the loss. If the
    policy is `warmup`, the graph contains the learning rate schedule.

    Args:
        trainer: The trainer, whose `network`, `optimizer`, `names` and `request` are read.
    """

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
        """Yield (name, tensor) for each tensor of the graph's own state, such as the optimizer's moments.

        The network's tensors are left out. The names are the graph's own.
        """
        for name, value in self.state_dict().items():
            if isinstance(value, flow.Tensor):
                yield name, value

    def build(self, *values):
        """Return the loss, a scalar tensor, for `values`, the model's inputs in the order of `Request.inputs`.

        The inputs are tensors. OneFlow calls this when it traces the graph. The backward pass and clipping are traced,
        too; OneFlow adds the update.
        """
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
    """The forward pass of a `OneFlowTrainer` as a static graph, with the fusions of `TrainingGraph`.

    A call with the model's inputs, tensors in the order of `Request.inputs`, returns the logits, one tensor per head.

    Args:
        trainer: The trainer, whose `network` and `names` are read.
    """

    def __init__(self, trainer):
        super().__init__()
        self.network = trainer.network
        self.trainer = trainer
        _fuse(self.config)

    def build(self, *values):
        """Return a sequence of the logits, one tensor per head, for `values`, the model's inputs.

        `values` are tensors in the order of `Request.inputs`. OneFlow calls this when it traces the graph.
        """
        return self.trainer.outputs(self.network, dict(zip(self.trainer.names, values)))


def _fuse(config):
    """Enable the fusions that OneFlow's own recipes enable."""
    config.allow_fuse_add_to_output(True)
    config.allow_fuse_model_update_ops(True)
