"""Sample quantities on a node for its agent: each module holds a `Sampler`.

A sampler is built with the identifiers of the node's devices (`cpu:0`, a GPU's UUID). `open()` says whether
there is anything to sample here; `sample()` gives (name, device, unit, kind, value) for each quantity that
answers now, where kind is `gauge` or `counter` (of which only the growth means something), and never raises;
a value that is not finite is left out. `close()` ends it.
"""
