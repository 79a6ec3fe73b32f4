"""Importers of other programs' logs."""
