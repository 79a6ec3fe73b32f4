"""What plugin authors implement: a framework, a model, a topology, a measurer."""
