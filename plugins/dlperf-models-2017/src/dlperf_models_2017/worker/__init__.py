"""Trainers of the models, one module per framework and model."""
