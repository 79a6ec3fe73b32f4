"""The worker half: runs inside the environment that has torch, and imports nothing of the controller."""
