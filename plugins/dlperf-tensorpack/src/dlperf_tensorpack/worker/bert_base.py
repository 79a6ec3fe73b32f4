"""BERT-Base in tensorpack: the network and the loss of the TensorFlow 1 plugin, trained by tensorpack."""

from dlperf_tensorflow1.worker import bert_base

from dlperf_tensorpack.worker.training import TensorpackTrainer


class BertBaseTrainer(TensorpackTrainer, bert_base.BertBaseTrainer):
    """The trainer of BERT-Base: predicts masked words, and whether a sequence's second part follows the first."""
