"""The framework-neutral workloads, each described once.

Each module holds one model: its options, its manifest of trainable parameters, its inputs, the arithmetic of its
training step, its optimizer. The module's docstring defines what a plugin has to compute.
"""
