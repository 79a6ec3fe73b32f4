"""Arithmetic that is written out because OneFlow's own is another: see the README."""

import oneflow as flow


def negative_log_softmax(logits):
    """Return -log p of logits over the last axis, of the same shape.

    It is written out, because the fp32 of oneDNN's log-softmax is off by 2e-6.
    """
    shifted = logits - flow.max(logits, dim=-1, keepdim=True)[0].detach()
    return shifted.exp().sum(dim=-1, keepdim=True).log() - shifted


def negative_log_likelihood(logits, labels):
    """Return -log p[label]: (N, K), (N,) → (N,)."""
    return flow.gather(negative_log_softmax(logits), 1, labels.unsqueeze(-1)).squeeze(-1)
