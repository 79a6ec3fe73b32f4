"""Documents: reading, positions in files, schemas, and messages about mistakes."""
