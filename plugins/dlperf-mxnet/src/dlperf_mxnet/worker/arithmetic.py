"""Arithmetic written out because that of MXNet's own operators is less exact: see the README."""


def negative_log_softmax(F, logits):
    """Return -log softmax of `logits`, (…, K), over the last axis: an array or a symbol of the same shape.

    MXNet's own operator computes it, because the float32 log-softmax of oneDNN is off by 2e-6. `F` is MXNet's module of
    operators for the type of `logits`: `mx.nd` or `mx.sym`.
    """
    return -F.log_softmax(logits, temperature=1.0)
