"""Installed plugins: entry points, their options and their capabilities."""
