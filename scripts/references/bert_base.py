"""The reference of `bert-base`, from the page of the model: functions and plain arithmetic, no module, no optimizer.

`trajectory` says how to run `scripts/references/bert_base.py [small tiny full]`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import trajectory
from trajectory import Product, Setting, Storage, Tensors, as_is, exact

from dlperf_sdk.harness import in_process
from dlperf_sdk.models.bert_base import BertBase


@dataclass(frozen=True)
class Variant:
    """Variant of the computation. The defaults are correct; any other value is a mistake or a narrower format."""

    tanh_gelu: bool = False
    epsilon: float = 1e-12
    unscaled: bool = False
    next_sentence: bool = True
    decay: str = "marked"
    """`marked` in the manifest, `all`, `none`, or `coupled`: added to the gradient."""
    adam_epsilon: float | None = None
    corrected: str = "both"
    """`both` moments, `none`, or `epsilon-outside`: ε is added to the uncorrected √v."""
    clip: str = "global"
    """`global`, `none`, `tensor` (each by its own norm) or `replica` (before they are averaged)."""
    rates: str = "scheduled"
    """A word of `trajectory.rate_of`."""
    meet: str = "mean"
    """`mean` or `first`. A sum would not be a mistake: where gradients are clipped, it comes to the same update."""
    product: Product = exact
    """How a matrix product is computed: a narrower format can be put here."""
    stored: Storage = as_is
    """How what stands between two products is stored: a narrower format can be put here."""


RIGHT = Variant()
BOTH = ("alone", "pair")
MISTAKES: dict[str, tuple[tuple[str, ...], Variant]] = {
    "the tanh approximation of GELU": (BOTH, replace(RIGHT, tanh_gelu=True)),
    "layer norm epsilon 1e-3": (BOTH, replace(RIGHT, epsilon=1e-3)),
    "layer norm epsilon 1e-5": (BOTH, replace(RIGHT, epsilon=1e-5)),
    "layer norm epsilon 1e-6": (BOTH, replace(RIGHT, epsilon=1e-6)),
    "attention scores that are not divided by √(H/heads)": (BOTH, replace(RIGHT, unscaled=True)),
    "no next-sentence loss": (BOTH, replace(RIGHT, next_sentence=False)),
    "weight decay on layer norm and biases": (BOTH, replace(RIGHT, decay="all")),
    "no weight decay": (BOTH, replace(RIGHT, decay="none")),
    "weight decay coupled: added to the gradient": (BOTH, replace(RIGHT, decay="coupled")),
    "Adam epsilon 1e-8": (BOTH, replace(RIGHT, adam_epsilon=1e-8)),
    "Adam's epsilon outside the bias correction": (BOTH, replace(RIGHT, corrected="epsilon-outside")),
    "Adam without bias correction": (BOTH, replace(RIGHT, corrected="none")),
    "gradients are not clipped": (BOTH, replace(RIGHT, clip="none")),
    "each tensor's gradient clipped by its own norm": (BOTH, replace(RIGHT, clip="tensor")),
    "gradients clipped on each replica before they are averaged": (("pair",), replace(RIGHT, clip="replica")),
    "every replica updates with the first replica's gradients": (("pair",), replace(RIGHT, meet="first")),
}
RATE_MISTAKES: dict[str, tuple[tuple[str, ...], Variant]] = {
    "the learning rate of the first step at every step": (BOTH, replace(RIGHT, rates="first")),
    "the full learning rate from the first step on": (BOTH, replace(RIGHT, rates="full")),
}
SMALL = {
    "sequence_length": 32,
    "layers": 2,
    "predictions_per_sequence": 5,
    "vocabulary_size": 2048,
    "dropout": 0.0,
    "weight_decay": 0.1,
}
CASES = {
    "small": Setting(BertBase(), SMALL, 2),
    # For compilers, which take a minute for a network: the very network that tests train, and its batch.
    "tiny": Setting(BertBase(), {**in_process.SMALL["bert-base"], "weight_decay": 0.1}, 4),
    "full": Setting(BertBase(), {"dropout": 0.0}, 2),
    # The rate differs in the first three steps.
    "warmup": Setting(BertBase(), {**SMALL, "warmup_steps": 3}, 2, learning_rate_policy="warmup"),
}


class Network:
    """The forward pass of BERT with given parameters.

    Args:
        p: Name in the manifest → parameter.
        variant: Variant of the computation.
        heads: Number of attention heads.
    """

    def __init__(self, p: Tensors, variant: Variant, heads: int) -> None:
        self.p, self.v, self.heads = p, variant, heads

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of a linear layer: x (…, inputs) → (…, outputs). `name` is its name in the manifest."""
        product = self.v.product(lambda a, b: a @ b.T, x, self.p[f"{name}.weight"])
        return self.v.stored(product + self.p[f"{name}.bias"])

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the layer norm of x over its last axis, in the shape of x. `name` is its name in the manifest."""
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        scale, shift = self.p[f"{name}.weight"], self.p[f"{name}.bias"]
        return self.v.stored((x - mean) / (variance + self.v.epsilon).sqrt() * scale + shift)

    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        """Return the GELU of each element of x, in the shape of x."""
        if self.v.tanh_gelu:
            return self.v.stored(x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
        return self.v.stored(x / 2 * (1 + torch.erf(x / math.sqrt(2))))

    def attention(self, at: str, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return self-attention before its projection: x (B, S, H), mask (B, S) → (B, S, H).

        There are B sequences of S tokens with H features. `at` is the block's name in the manifest, such as
        `encoder.0.attention`; the mask is 0 for padding.
        """
        split = (self.linear(f"{at}.{part}", x) for part in ("query", "key", "value"))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in split)
        scores = self.v.product(lambda a, b: a @ b.transpose(-1, -2), q, k)
        if not self.v.unscaled:
            scores = scores / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -float("inf"))
        context = self.v.product(lambda a, b: a @ b, self.v.stored(scores.softmax(-1)), v)
        return context.transpose(1, 2).flatten(2)

    def layer(self, at: str, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the output of a layer of the encoder, (B, S, H), for x, (B, S, H).

        `at` is the layer's name in the manifest, such as `encoder.0`; `mask`, (B, S), is 0 for padding.
        """
        context = self.attention(f"{at}.attention", x, mask)
        x = self.norm(
            f"{at}.attention.norm", self.v.stored(x + self.linear(f"{at}.attention.output", context))
        )
        wide = self.gelu(self.linear(f"{at}.intermediate", x))
        return self.norm(f"{at}.norm", self.v.stored(x + self.linear(f"{at}.output", wide)))

    def loss(self, batch: Tensors, layers: int) -> torch.Tensor:
        """Return the loss of a batch, a scalar: masked language model, plus next sentence.

        Args:
            batch: Name of each input of the model → tensor.
            layers: Number of layers of the encoder.
        """
        p, ids = self.p, batch["input_ids"]
        x = self.v.stored(p["embeddings.word.weight"][ids] + p["embeddings.position.weight"][: ids.shape[1]])
        x = self.v.stored(x + p["embeddings.segment.weight"][batch["segment_ids"]])
        x = self.norm("embeddings.norm", x)
        for i in range(layers):
            x = self.layer(f"encoder.{i}", x, batch["attention_mask"])
        rows = torch.arange(len(ids))[:, None]
        y = self.gelu(self.linear("masked_lm.transform", x[rows, batch["masked_positions"]]))
        y = self.norm("masked_lm.norm", y)
        words = self.v.product(lambda a, b: a @ b.T, y, p["embeddings.word.weight"])
        words = self.v.stored(words + p["masked_lm.bias"])
        weights = batch["masked_weights"]
        loss = (weights * negative_log_likelihood(words, batch["masked_ids"])).sum() / weights.sum()
        follows = self.linear("next_sentence", self.v.stored(torch.tanh(self.linear("pooler", x[:, 0]))))
        if self.v.next_sentence:
            loss = loss + negative_log_likelihood(follows, batch["next_sentence_label"]).mean()
        return loss


def negative_log_likelihood(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return -log p of the truth: logits (…, K), truth (…), indices from 0 to K - 1 → (…)."""
    return torch.logsumexp(logits, -1) - logits.gather(-1, truth[..., None])[..., 0]


def forward(
    p: Tensors, batches: list[Tensors], setting: Setting, v: Variant
) -> list[tuple[torch.Tensor, Tensors]]:
    """Return for each replica its loss, a scalar, and an empty dict, since there are no running means.

    Args:
        p: Name in the manifest → parameter.
        batches: For each replica, name of the input → tensor.
        setting: The case.
        v: Variant of the computation.
    """
    options = setting.resolved
    network = Network(p, v, options.heads)
    return [(network.loss(batch, options.layers), {}) for batch in batches]


def clipped(g: Tensors, most: float, v: Variant) -> Tensors:
    """Return the clipped gradients g · min(1, most / ‖g‖), as name of the parameter → gradient.

    Args:
        g: Name of the parameter → gradient.
        most: Largest norm.
        v: Variant of the computation. If its `clip` is `tensor`, each gradient has its own norm, else all have one.
    """
    if v.clip == "tensor":
        return {name: value * min(1.0, most / float(value.norm() or 1)) for name, value in g.items()}
    norm = math.sqrt(sum(float((value.double() ** 2).sum()) for value in g.values()))
    return {name: value * min(1.0, most / norm) for name, value in g.items()}


def meet(gradients: list[Tensors], v: Variant, setting: Setting) -> Tensors:
    """Return the gradients that each replica updates with, the means over the replicas: name of the parameter → mean.

    Args:
        gradients: For each replica, of which there is at least one, name of the parameter → gradient.
        v: Variant of the computation.
        setting: The case.
    """
    if v.meet == "first":
        return gradients[0]
    if v.clip == "replica":
        gradients = [clipped(g, setting.numbers()["clip_norm"], v) for g in gradients]
    return {name: sum(of_one[name] for of_one in gradients) / len(gradients) for name in gradients[0]}


def update(
    p: Tensors,
    g: Tensors,
    state: dict[str, Any],
    step: int,
    setting: Setting,
    numbers: Mapping[str, Any],
    v: Variant,
) -> None:
    """Clip gradients by their global norm, then update parameters with Adam and decoupled weight decay.

    Args:
        p: Name → parameter, changed in place.
        g: Name of the parameter → gradient.
        state: Name of the parameter → its moments `m` and `v`, changed in place; empty at first.
        step: Number of the step, counted from 1.
        setting: The case.
        numbers: Numbers of the optimizer in this step.
        v: Variant of the computation.
    """
    rate, beta1, beta2 = trajectory.rate_of(setting, numbers, v.rates), numbers["beta1"], numbers["beta2"]
    epsilon = numbers["epsilon"] if v.adam_epsilon is None else v.adam_epsilon
    if v.clip in ("global", "tensor"):
        g = clipped(g, numbers["clip_norm"], v)
    first, second = 1 - beta1**step, 1 - beta2**step
    if v.corrected == "none":
        first = second = 1.0
    for name, marked in setting.decays.items():
        w = numbers["weight_decay"] if (marked and v.decay != "none") or v.decay == "all" else 0.0
        gradient = g[name] + w * p[name] if v.decay == "coupled" else g[name]
        of = state.setdefault(name, {"m": torch.zeros_like(p[name]), "v": torch.zeros_like(p[name])})
        of["m"] = beta1 * of["m"] + (1 - beta1) * gradient
        of["v"] = beta2 * of["v"] + (1 - beta2) * gradient**2
        if v.corrected == "epsilon-outside":
            direction = of["m"] / first * math.sqrt(second) / (of["v"].sqrt() + epsilon)
        else:
            direction = of["m"] / first / ((of["v"] / second).sqrt() + epsilon)
        p[name] -= rate * (direction + (0.0 if v.decay == "coupled" else w * p[name]))


if __name__ == "__main__":
    trajectory.main(
        "bert-base",
        CASES,
        forward,
        meet,
        update,
        RIGHT,
        MISTAKES,
        sys.argv[1:],
        heavy=("full",),
        rate_mistakes=RATE_MISTAKES,
    )
