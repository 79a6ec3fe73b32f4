"""Arithmetic written out because that of OneFlow's own operators is less exact: see the README."""

import oneflow as flow


def negative_log_softmax(logits):
    """Return -log softmax of the tensor `logits`, (…, K), over the last axis: a tensor of the same shape.

    The float32 log-softmax of oneDNN, which OneFlow would use, is off by 2e-6.
    """
    shifted = logits - flow.max(logits, dim=-1, keepdim=True)[0].detach()
    return shifted.exp().sum(dim=-1, keepdim=True).log() - shifted


def negative_log_likelihood(logits, labels):
    """Return -log p[label] for each of N rows: a tensor (N,), from `logits` (N, K) and `labels` (N,).

    Labels are indices from 0 to K - 1.
    """
    return flow.gather(negative_log_softmax(logits), 1, labels.unsqueeze(-1)).squeeze(-1)
