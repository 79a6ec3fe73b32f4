"""Measurements by others: collections of published figures, and importers of other programs' logs."""
