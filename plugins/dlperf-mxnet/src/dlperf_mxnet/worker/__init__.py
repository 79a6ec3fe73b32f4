"""The worker half: runs inside the environment that has MXNet, and imports nothing of the controller."""
