"""A package whose oldest Python shows only where its relative imports are followed."""

from .trainer import Linear

__all__ = ["Linear"]
