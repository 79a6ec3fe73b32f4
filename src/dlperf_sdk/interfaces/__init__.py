"""Interfaces that plugin authors implement: framework, model, topology, measurer, collection, importer, database."""
