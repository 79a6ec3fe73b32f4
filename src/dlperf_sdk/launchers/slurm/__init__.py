"""Slurm: a step of an allocation, or a job of its own."""
