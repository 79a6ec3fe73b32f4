"""BERT's encoder with the Triton kernels of `fused_attention` and `fused_add_norm` between its matrix products."""

import torch
import torch.nn.functional as F

from dlperf_torch.worker.bert_base import Bert, compute_type
from dlperf_torch.worker.dropout import draw_seeds
from dlperf_torch.worker.fused_add_norm import add_norm, gelu
from dlperf_torch.worker.fused_attention import attend

DROPOUTS = 3
"""Dropouts in a layer: of the attention's probabilities, and before both residual sums."""


class FusedBert(Bert):
    """BERT whose encoder is computed by fused kernels if its products are in fp16 or bf16, else as `Bert` does it.

    Between layers, values have the type of the products, also under autocast, where torch's layer norm would return
    float32. Statistics, sums and parameters are float32. The arguments are those of `Bert`.
    """

    def encode(self, x, attention_mask):
        """Return the encoder's output, (B, S, H), for the embeddings x, (B, S, H).

        There are B sequences of S tokens with H features. `attention_mask`, (B, S), is 1 for tokens and 0 for padding.
        """
        dtype = compute_type(x)
        if dtype == torch.float32:
            return super().encode(x, attention_mask)
        x = shortcut = x.to(dtype)
        seeds = draw_seeds(DROPOUTS * len(self.encoder), x.device).unflatten(0, (-1, DROPOUTS))
        for layer, of_layer in zip(self.encoder, seeds.unbind(), strict=True):
            x, shortcut = _apply_layer(layer, x, shortcut, attention_mask, of_layer.unbind())
        return x


def _apply_layer(layer, x, shortcut, mask, seeds):
    """Return a layer's output twice, once for each use in the next layer, as `add_norm` does."""
    attention, p = layer.attention, layer.dropout.p if layer.training else 0.0
    projections = attention.query, attention.key, attention.value
    weight, bias = (torch.cat([getattr(item, name) for item in projections]) for name in ("weight", "bias"))
    context = attend(F.linear(x, weight, bias.detach()), bias, mask, attention.heads, p, seeds[0])
    x = F.linear(context, attention.output.weight)
    x, shortcut = add_norm(x, attention.output.bias, shortcut, attention.norm, p, seeds[1])
    x = gelu(F.linear(x, layer.intermediate.weight), layer.intermediate.bias)
    return add_norm(F.linear(x, layer.output.weight), layer.output.bias, shortcut, layer.norm, p, seeds[2])
