"""The worker half: runs inside the environment that has tensorpack, and imports nothing of the controller."""
