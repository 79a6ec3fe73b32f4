"""tensorpack 0.11 on TensorFlow 1.15 for dlperf-sdk: its own trainers on ResNet-50, on CPUs and NVIDIA GPUs."""
