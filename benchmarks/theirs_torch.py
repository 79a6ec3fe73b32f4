"""The models of transformers and timm in a plain loop; `reference_torch.py` says what makes the work equal."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple


class Theirs:
    """A model of transformers or timm in a plain loop.

    Args:
        model: The module.
        request: Our request; `precision`, `device` and `optimizer` are read.
        batch: The batch, by name.
        loss: Function of the model and the batch that returns the loss.

    Attributes:
        last: The loss of the last step, a tensor; None before the first.
    """

    def __init__(
        self, model: Any, request: Any, batch: dict[str, Any], loss: Callable[[Any, dict[str, Any]], Any]
    ):
        self.model, self.request, self.batch, self.loss = model.train(), request, batch, loss
        self.optimizer: Any = None
        self.last: Any = None

    def step(self) -> None:
        """Take one step of the loop that torch's documentation teaches; call `prepare` first."""
        import torch

        dtype = {"amp-bf16": torch.bfloat16}.get(self.request.precision)
        self.optimizer.zero_grad()
        with torch.autocast(self.request.device, dtype=dtype, enabled=dtype is not None):
            loss = self.loss(self.model, self.batch)
        loss.backward()
        clip = self.request.optimizer["clip_norm"]
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        self.last = loss.detach()

    def prepare(self, *, channels_last: bool, fused: bool) -> Theirs:
        """Move the model to the device, lay it out, make the optimizer, and return this object.

        Args:
            channels_last: True for the memory format `channels_last`.
            fused: True for torch's fused optimizer, False for its default one.

        Raises:
            KeyError: The optimizer lacks a number.
        """
        import torch

        self.model.to(self.request.device)
        if channels_last:
            self.model.to(memory_format=torch.channels_last)
            self.batch = dict(
                self.batch, image=self.batch["image"].contiguous(memory_format=torch.channels_last)
            )
        numbers = self.request.optimizer
        parameters = list(self.model.parameters())
        # In both models exactly the weights of convolutions, linear layers and embeddings decay.
        groups = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": numbers["weight_decay"]},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
        ]
        rate, way = numbers["learning_rate"], {"fused": True} if fused else {}
        if numbers["kind"] == "sgd":
            self.optimizer = torch.optim.SGD(groups, lr=rate, momentum=numbers["momentum"], **way)
        else:
            betas = (numbers["beta1"], numbers["beta2"])
            self.optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, eps=numbers["epsilon"], **way)
        return self

    def compile(self) -> None:
        """Compile forward pass and loss from the next step on."""
        import torch

        self.loss = torch.compile(self.loss, dynamic=False)


def resnet50(request: Any, batch: dict[str, Any]) -> Theirs:
    """Return `ResNetForImageClassification`, whose default configuration is ResNet-50 v1.5, on a batch."""
    import transformers

    options = request.model_options
    model = transformers.ResNetForImageClassification(
        transformers.ResNetConfig(num_labels=options["num_classes"])
    )
    plain = {"image": batch["image"].contiguous(), "label": batch["label"]}
    return Theirs(
        model, request, plain, lambda model, batch: model(batch["image"], labels=batch["label"]).loss
    )


def bert_base(request: Any, batch: dict[str, Any]) -> Theirs:
    """Return `BertForPreTraining` with its default attention on a batch, decoding the masked positions only."""
    import torch
    import transformers
    from torch.nn.functional import cross_entropy

    options = request.model_options
    config = transformers.BertConfig(
        vocab_size=options["vocabulary_size"],
        hidden_size=options["hidden_size"],
        num_hidden_layers=options["layers"],
        num_attention_heads=options["heads"],
        intermediate_size=options["intermediate_size"],
        hidden_dropout_prob=options["dropout"],
        attention_probs_dropout_prob=options["dropout"],
    )
    first = torch.arange(request.batch_size, device=request.device)[:, None] * options["sequence_length"]
    masked = (first + batch["masked_positions"]).flatten()

    def loss(model: Any, batch: dict[str, Any]) -> Any:
        encoded = model.bert(
            batch["input_ids"], attention_mask=batch["attention_mask"], token_type_ids=batch["segment_ids"]
        )
        gathered = encoded.last_hidden_state.flatten(0, 1).index_select(0, masked)
        words, follows = model.cls(gathered, encoded.pooler_output)
        return cross_entropy(words, batch["masked_ids"].flatten()) + cross_entropy(
            follows, batch["next_sentence_label"]
        )

    return Theirs(transformers.BertForPreTraining(config), request, batch, loss)


def _timm_resnet50(request: Any, batch: dict[str, Any]) -> Theirs:
    """timm's `resnet50`, which is v1.5 as well, and torch's loss."""
    import timm
    from torch.nn.functional import cross_entropy

    model = timm.create_model("resnet50", num_classes=request.model_options["num_classes"])
    plain = {"image": batch["image"].contiguous(), "label": batch["label"]}
    return Theirs(
        model, request, plain, lambda model, batch: cross_entropy(model(batch["image"]), batch["label"])
    )


class Way(NamedTuple):
    """A model of theirs, and which of our levers its loop is given."""

    make: Callable[[Any, dict[str, Any]], Theirs]
    channels_last: bool = False
    fused: bool = False


PLAIN = "plain loop"
COMPILED = "plain loop, compiled"
THEIRS: dict[str, dict[str, Way]] = {
    "resnet50": {
        PLAIN: Way(resnet50),
        "plain loop, channels_last": Way(resnet50, channels_last=True),
        "channels_last, fused optimizer": Way(resnet50, channels_last=True, fused=True),
    },
    "bert-base": {PLAIN: Way(bert_base), "fused optimizer": Way(bert_base, fused=True)},
}
"""Model → the ways in which theirs is run; a plain loop is what a bound holds against."""
if find_spec("timm") is not None:
    THEIRS["resnet50"] |= {
        "plain loop, timm": Way(_timm_resnet50),
        "plain loop, timm, channels_last": Way(_timm_resnet50, channels_last=True),
    }
