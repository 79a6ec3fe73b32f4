"""The built-in measurers."""
