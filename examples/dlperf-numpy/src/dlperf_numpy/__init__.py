"""NumPy as a framework: a complete plugin with two models. Both halves import this file, so it holds nothing."""
