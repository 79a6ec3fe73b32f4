"""The agent: starts, watches and stops the workers of one node."""
