"""Constants of the published architectures, in one place for the core's models and every framework's networks.

Sources: `dlperf_sdk.models.resnet50` and `dlperf_sdk.models.bert_base` name the papers.
"""

# ResNet-50 v1.5.

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width (channels of the 3×3 convolutions) and number of bottlenecks of each stage."""
EXPANSION = 4
"""Channels of a bottleneck's output, as a multiple of its width."""
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1
"""Share of a micro-batch's statistics in the running statistics."""

# BERT-Base.

POSITIONS = 512
"""Rows of the position embeddings: the longest sequence."""
SEGMENTS = 2
LAYER_NORM_EPSILON = 1e-12
