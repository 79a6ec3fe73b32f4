"""The worker half: runs inside the environment that has MegEngine, and imports nothing of the controller."""
