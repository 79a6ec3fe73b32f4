"""NVIDIA GPUs of one node."""
