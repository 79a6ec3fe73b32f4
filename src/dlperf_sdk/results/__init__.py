"""Store results and compute their verdicts."""
