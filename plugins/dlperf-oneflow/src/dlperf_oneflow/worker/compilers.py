"""Define each compiler for OneFlow."""

from dlperf_oneflow.worker.graphs import TrainingGraph

COMPILERS = {"none": None, "graph": TrainingGraph}
"""Compiler → the class that runs a trainer's step; None for an eager step."""
