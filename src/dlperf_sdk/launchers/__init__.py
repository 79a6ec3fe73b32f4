"""Launchers: they start one agent per node and return agent 0's event stream."""
