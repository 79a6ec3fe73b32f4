"""ResNet-50 v1 in tensorpack: the network of the trainer for TensorFlow 1, trained by tensorpack."""

from dlperf_tensorpack.worker.training import TensorpackTrainer

from dlperf_models_2017.worker import resnet50_v1_tensorflow1


class ResNet50V1Trainer(TensorpackTrainer, resnet50_v1_tensorflow1.ResNet50V1Trainer):
    """The trainer of ResNet-50 v1: that of TensorFlow 1 in tensorpack's loop."""
