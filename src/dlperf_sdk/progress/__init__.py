"""The progress of a run: on a terminal, in a notebook, or as values."""
