"""Turn a run spec into a plan and a bundle."""
