"""TensorFlow 1.15 for dlperf-sdk: ResNet-50 v1.5 and BERT-Base, on CPUs and NVIDIA GPUs."""
