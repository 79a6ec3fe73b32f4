"""Define the interfaces for plugin authors: a framework, a model, a topology, a measurer."""
