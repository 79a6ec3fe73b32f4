"""The worker half: runs inside the environment that has Paddle, and imports nothing of the controller."""
