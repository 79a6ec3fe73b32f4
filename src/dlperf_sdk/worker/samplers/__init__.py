"""Sample quantities on a node for its agent: each module holds a `Sampler`.

A sampler is built with the identifiers of the node's devices (`cpu:0`, a GPU's UUID). `open()` returns True if there
is anything to sample here. `sample()` returns one tuple (name, device, unit, kind, value) per quantity that can be
read now, and never raises. `kind` is `gauge`, or `counter`, of which only the growth means something. The agent
leaves out a value that is not finite. `close()` releases what `open()` took.
"""
