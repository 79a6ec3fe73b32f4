"""The worker half: runs inside the environment that has TensorFlow 1, and imports nothing of the controller."""
