"""Faulty torch trainers, each a few changed lines of a correct one, and a program that records the parity steps of all.

    python -I torch_faults.py DIRECTORY

It runs in torch's environment, all trainers in one process, because starting torch for each would take longer.
"""

import itertools
import json
import math
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

import torch
import torch.distributed as dist
import torch.nn.functional as F
from dlperf_torch.worker import bert_base, resnet50
from torch import nn

# -- ResNet-50


class Right(resnet50.ResNet50Trainer):
    pass


class V1Stride(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for stage in (network.layer2, network.layer3, network.layer4):
            stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
        return network


class SamePadding(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d) and layer.stride == (2, 2) and layer.kernel_size[0] > 1:
                layer.padding, least = (0, 0), (layer.kernel_size[0] - 2) // 2
                edges = (least, least + 1) * 2
                layer.register_forward_pre_hook(lambda _, given, edges=edges: (F.pad(given[0], edges),))
        network.forward = lambda x: forward(network, x)
        return network


def forward(network, x):
    x = F.relu(network.bn1(network.conv1(x)))
    x = F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 3, stride=2)
    x, _ = network.layer4(network.layer3(network.layer2(network.layer1((x, x)))))
    return network.fc(x.mean((2, 3)))


class BatchNormEpsilon(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eps = 1e-3
        return network


class BatchNormMomentum(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = 0.9
        return network


class FrozenResiduals(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Conv2d) and ".conv" in name:
                layer.weight.register_hook(torch.zeros_like)
        return network


class FirstRate(resnet50.ResNet50Trainer):
    def set_learning_rate(self, rate):
        self.first_rate = getattr(self, "first_rate", rate)
        super().set_learning_rate(self.first_rate)


class NoLabelSmoothing(resnet50.ResNet50Trainer):
    def loss(self, outputs, batch):
        return F.cross_entropy(outputs[0], batch["label"])


class SummedLoss(resnet50.ResNet50Trainer):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch) * len(batch["label"])


def decays_everywhere(trainer):
    for group in trainer.optimizer.param_groups:
        group["weight_decay"] = trainer.request.optimizer["weight_decay"]


class DecaysEveryParameter(resnet50.ResNet50Trainer):
    def __init__(self, *given):
        super().__init__(*given)
        decays_everywhere(self)


class BackwardEverySecondStep(resnet50.ResNet50Trainer):
    def update(self):
        self.turn = not getattr(self, "turn", False)
        if self.turn:
            super().update()


class SynchronizedBatchNorm(resnet50.ResNet50Trainer):
    def build(self, options):
        network = super().build(options)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.forward = lambda x, layer=layer: synchronized(layer, x)
        return network


class Mean(torch.autograd.Function):
    """The mean over the replicas; its gradient is the mean of theirs."""

    @staticmethod
    def forward(context, x):
        x = x.clone()
        dist.all_reduce(x)
        return x / dist.get_world_size()

    backward = forward


def synchronized(layer, x):
    mean = Mean.apply(x.mean((0, 2, 3)))
    variance = Mean.apply(x.square().mean((0, 2, 3))) - mean.square()
    with torch.no_grad():
        layer.running_mean.lerp_(mean, layer.momentum)
    scale = layer.weight * (variance + layer.eps).rsqrt()
    return x * scale[:, None, None] + (layer.bias - mean * scale)[:, None, None]


# -- BERT


class RightBert(bert_base.BertBaseTrainer):
    pass


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


class TanhGelu(bert_base.BertBaseTrainer):
    def outputs(self, network, batch):
        right, bert_base.F = bert_base.F, _Functions(gelu=tanh_gelu)
        try:
            return super().outputs(network, batch)
        finally:
            bert_base.F = right


class _Functions:
    """torch.nn.functional with other functions in it."""

    def __init__(self, **others):
        self.__dict__.update(others)

    def __getattr__(self, name):
        return getattr(F, name)


class LayerNormEpsilon(bert_base.BertBaseTrainer):
    def build(self, options):
        network = super().build(options)
        for layer in network.modules():
            if isinstance(layer, nn.LayerNorm):
                layer.eps = 1e-5
        return network


class AdamEpsilon(bert_base.BertBaseTrainer):
    def __init__(self, *given):
        super().__init__(*given)
        for group in self.optimizer.param_groups:
            group["eps"] = 1e-8


class CoupledDecay(bert_base.BertBaseTrainer):
    def __init__(self, *given):
        super().__init__(*given)
        for group in self.optimizer.param_groups:
            group["decoupled_weight_decay"] = False


class DecaysEveryParameterBert(bert_base.BertBaseTrainer):
    def __init__(self, *given):
        super().__init__(*given)
        decays_everywhere(self)


class NoClipping(bert_base.BertBaseTrainer):
    def __init__(self, *given):
        super().__init__(*given)
        self.request.optimizer["clip_norm"] = None


class FirstMicroBatch(bert_base.BertBaseTrainer):
    def micro_batches(self, batch):
        return super().micro_batches(batch)[:1]


class DropoutOn(bert_base.BertBaseTrainer):
    def build(self, options):
        return super().build(dict(options, dropout=0.1))


class NoNextSentence(bert_base.BertBaseTrainer):
    def loss(self, outputs, batch):
        words, follows = outputs
        return super().loss((words, 0 * follows), batch) - math.log(2)


class SilentlyFp32(bert_base.BertBaseTrainer):
    """For the precision amp-bf16."""

    def autocast(self):
        return torch.autocast("cpu", enabled=False)


# -- the window: correct to step 7, faulty from step 8 on


class ForwardOnlyResNet(resnet50.ResNet50Trainer):
    def train(self, batch, rate):
        return super().train(batch, rate) if self.steps <= 8 else self.forward(batch).detach()


class BatchNormEvalEverySecondStep(resnet50.ResNet50Trainer):
    def train(self, batch, rate):
        if self.steps <= 8:
            return super().train(batch, rate)
        for layer in self.network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()
        return super().train(batch, rate) if self.steps % 2 else self.forward(batch).detach()


class BackwardEveryFourthStep(resnet50.ResNet50Trainer):
    """Takes eight correct steps at the start and after a reset."""

    def train(self, batch, rate):
        skips = self.steps - self.first_step > 8 and self.steps % 4
        return self.forward(batch).detach() if skips else super().train(batch, rate)


class ZeroLearningRateResNet(resnet50.ResNet50Trainer):
    def train(self, batch, rate):
        return super().train(batch, rate if self.steps <= 8 else 0.0)


class ForwardOnlyEverySecondStepBert(bert_base.BertBaseTrainer):
    def train(self, batch, rate):
        skips = self.steps > 8 and self.steps % 2
        return self.forward(batch).detach() if skips else super().train(batch, rate)


class FrozenWordEmbeddings(bert_base.BertBaseTrainer):
    def train(self, batch, rate):
        self.network.embeddings.word.weight.requires_grad_(self.steps <= 8)
        return super().train(batch, rate)


class EvalModeBert(bert_base.BertBaseTrainer):
    def train(self, batch, rate):
        self.network.train(self.steps <= 8)
        return super().train(batch, rate)


# -- the data source: canonical batches first, other batches after them


class RepeatedFirstImages(resnet50.ResNet50Trainer):
    def batches(self):
        return itertools.repeat(next(super().batches()))


class RepeatedFirstText(bert_base.BertBaseTrainer):
    def batches(self):
        return itertools.repeat(next(super().batches()))


class RepeatedWarmUpText(bert_base.BertBaseTrainer):
    def batches(self):
        return itertools.cycle(itertools.islice(super().batches(), self.request.protocol["warmup"]))


class SameTextOnBothReplicas(bert_base.BertBaseTrainer):
    def load(self, dataset):
        self.loaders = [self.loader(dataset(self.request, 0, self.layout), self.request, 0)]
        return (self.receive([batch]) for batch in self.loaders[0])


def follow_all(directory):
    """Write the parity records of each trainer in `plan.json` to `answers.json`."""
    from dlperf_sdk.worker import parity
    from dlperf_sdk.worker.processes import Cluster, Node, one_per_device
    from dlperf_sdk.worker.progress import Progress
    from dlperf_sdk.worker.request import Request, resolve

    plan = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
    answers = {}
    for name, plain in plan.items():
        request = Request.from_dict(plain)
        cluster = Cluster((Node("127.0.0.1", ("0",), ("cpu:0",)),), "cpu", "independent")
        process = one_per_device(cluster)[0]
        runtime = resolve(request.runtime)(request, cluster, process)
        runtime.start()
        trainer = globals()[name](runtime, request, process)
        progress = Progress(str(directory / "progress"))
        answers[name] = parity.follow(runtime, trainer, request, process, progress)
        runtime.stop()
    (directory / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    follow_all(Path(sys.argv[1]))
