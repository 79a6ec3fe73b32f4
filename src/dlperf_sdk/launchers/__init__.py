"""The built-in launchers."""
