"""The framework-neutral workloads: what is trained, described once, without any framework.

Each module holds one model: its options, its manifest of trainable parameters, its inputs, the arithmetic of
its training step, its optimizer. What a plugin has to compute is in the module's docstring.
"""
