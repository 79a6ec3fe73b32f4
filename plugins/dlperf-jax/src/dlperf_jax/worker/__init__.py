"""The worker half: runs inside the environment that has JAX, and imports nothing of the controller."""
