"""ResNet-50 v1.5 in tensorpack: the network and the loss of the TensorFlow 1 plugin, trained by tensorpack."""

from dlperf_tensorflow1.worker import resnet50

from dlperf_tensorpack.worker.training import TensorpackTrainer


class ResNet50Trainer(TensorpackTrainer, resnet50.ResNet50Trainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""
