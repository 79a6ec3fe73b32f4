"""A framework plugin for NumPy: the smallest that is complete."""
