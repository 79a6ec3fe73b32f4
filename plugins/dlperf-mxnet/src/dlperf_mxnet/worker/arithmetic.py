"""Arithmetic that is written out because MXNet's own is another: see the README."""


def negative_log_softmax(F, logits):
    """Return -log p of logits over the last axis, of the same shape.

    With a temperature, be it 1, MXNet takes its own operator instead of oneDNN's, whose fp32 is off by 2e-6.
    """
    return -F.log_softmax(logits, temperature=1.0)
