"""The worker half: runs inside the environment that has TensorFlow, and imports nothing of the controller."""
