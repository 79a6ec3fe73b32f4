"""The worker half: runs inside the environment that has OneFlow, and imports nothing of the controller."""
