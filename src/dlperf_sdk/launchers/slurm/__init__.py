"""Slurm: a step of an allocation, or a separate job."""
