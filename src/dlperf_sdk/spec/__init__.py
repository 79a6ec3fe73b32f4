"""The run spec: what is measured, as plain values."""
