"""Show the progress of a run: on a terminal, in a notebook, or by calling a function."""
