"""What is kept: results, their verdicts, and the store."""
