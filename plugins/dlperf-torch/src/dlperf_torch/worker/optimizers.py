"""The models' optimizers in torch, and the loss scaler."""

import torch

from dlperf_sdk.worker.schedule import decay_groups


def optimizer(parameters, request):
    """Return an SGD or AdamW of `torch.optim` with the request's hyperparameters.

    The manifest in the request says which parameters have weight decay. With SGD, the momentum buffers are created at
    once.

    Args:
        parameters: Dict: a parameter's name in the manifest → its float32 tensor.
        request: The request; `parameters`, `framework_options` and `optimizer` are read.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    numbers, fused = request.optimizer, request.framework_options["fused_optimizer"]
    groups = [
        {"params": group, "weight_decay": decay}
        for group, decay in decay_groups(request.parameters, parameters, numbers["weight_decay"])
    ]
    rate, graph = numbers["learning_rate"], request.framework_options["cuda_graph"]
    if graph:  # a number would be a constant of the graph
        rate = torch.tensor(rate, device=next(iter(parameters.values())).device)
    if numbers["kind"] == "sgd":
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=numbers["momentum"], fused=fused)
        # Left to torch it is made at the first step, of memory that the fused kernel never writes to if the loss
        # scaler skips that step.
        for parameter in parameters.values():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimizer
    if numbers["kind"] == "adamw":
        betas = (numbers["beta1"], numbers["beta2"])
        return torch.optim.AdamW(
            groups, lr=rate, betas=betas, eps=numbers["epsilon"], fused=fused, capturable=graph
        )
    raise ValueError("the torch plugin has no optimizer %r" % numbers["kind"])


def set_learning_rate(optimizer, rate):
    """Set the learning rate of the next update to `rate`, a number, in all groups of the optimizer's parameters.

    `optimizer` is what the function `optimizer` returned. A learning rate that is a tensor is changed in place.
    """
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class LossScaler(torch.amp.GradScaler):
    """torch's GradScaler, with a count of the skipped steps: `skipped`, an int64 scalar tensor on the device.

    Counting does not wait for the device.

    Args:
        device: The `torch.device`.
        enabled: False if the scaler scales nothing and skips nothing.
    """

    def __init__(self, device, enabled):
        super().__init__(device.type, enabled=enabled)
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._unit = torch.ones((), device=device)
        self._last = self.scale(self._unit)
        self._first = self.state_dict()

    def reset(self):
        """Set the loss scale and its growth counter to their values before the first step; keep `skipped`."""
        self.load_state_dict(self._first)
        self._last.copy_(self.scale(self._unit))

    def update(self):
        """Set the scale for the next step, and add 1 to `skipped` if this step was skipped.

        A skipped step is recognized by its lower scale: nothing else lowers the scale.
        """
        super().update()
        if self.is_enabled():
            scale = self.scale(self._unit)
            self.skipped += scale < self._last
            self._last.copy_(scale)
