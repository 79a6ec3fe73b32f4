"""From a run spec to a plan and a bundle."""
