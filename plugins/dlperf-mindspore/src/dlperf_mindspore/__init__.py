"""MindSpore for dlperf-sdk: ResNet-50 v1.5 and BERT-Base."""
