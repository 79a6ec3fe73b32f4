"""Logs of other programs, written line by line in their formats, with throughputs that are known."""

import json
from datetime import UTC, datetime

TF_CNN = """\
TensorFlow:  1.15
Model:       resnet50_v1.5
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  256 global
             64 per device
Num batches: 100
Num epochs:  0.02
Devices:     ['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']
NUMA bind:   False
Data format: NCHW
Optimizer:   sgd
Variables:   replicated
AllReduce:   nccl
==========
Generating training model
Initializing graph
W0921 11:22:33.444444 140000000000000 deprecation.py:323] a warning of TensorFlow's
Running warm up
Done warm up
Step\tImg/sec\ttotal_loss
1\timages/sec: 1421.1 +/- 0.0 (jitter = 0.0)\t8.220
10\timages/sec: 1418.8 +/- 1.7 (jitter = 4.1)\t7.880
100\timages/sec: 1419.6 +/- 0.6 (jitter = 3.9)\t7.912
----------------------------------------------------------------
total images/sec: 1418.42
----------------------------------------------------------------
"""

BEGIN = 1597933900.0
"""Seconds since 1970."""


def _date(seconds, separator="."):
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}{separator}{int(seconds % 1 * 1000):03d}"


def _glog(seconds):
    return f"{datetime.fromtimestamp(seconds, UTC):%m%d %H:%M:%S.%f}"


def _steps(last, step_time):
    return [(i, BEGIN + 3 + i * step_time) for i in range(last + 1)]


def oneflow(step_time=0.125):
    head = "model = resnet50\nbatch_size_per_device = 128\ngpu_num_per_node = 8\nnum_nodes = 2\n"
    return head + "".join(
        f"train: epoch 0, iter {i}, loss: 7.0, top_1: 0.000000, top_k: 0.000000, samples/s: 3988.891 {at!r}\n"
        for i, at in _steps(120, step_time)
        if i % 20 == 0
    )


def oneflow_bert(step_time=0.125):
    head = "batch_size_per_device = 24\ngpu_num_per_node = 1\nnum_nodes = 1\n"
    return head + "".join(
        f"step: {i}, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, throughput: 54.982 {at!r}\n"
        for i, at in _steps(119, step_time)
        if i % 20 == 19
    )


def pytorch(step_time=0.125):
    return "=> creating model 'resnet50'\n" + "".join(
        f"Epoch: [0][{i:3}/5005]\tTime {step_time:6.3f} ({step_time:6.3f})\tData  0.002 ( 0.001)\tLoss 6.9e+00\n"
        for i, _ in _steps(130, step_time)
    )


def dll_text(step_time=0.125):
    return "".join(
        f"DLL {_date(at)} - Epoch: 0 Iteration: {i}  train.loss : 7.09304  train.total_ips : 267.44 img/s\n"
        for i, at in _steps(130, step_time)
    )


def time_history(step_time=0.125):
    return "".join(
        f"I{_glog(BEGIN + 100 * (i + 1) * step_time)} 140405777909504 keras_utils.py:133] TimeHistory: "
        f"{100 * step_time:.2f} seconds, 1.0 examples/second between steps {100 * i} and {100 * i + 100}\n"
        for i in range(6)
    )


def tf_bert(step_time=0.125):
    return "".join(
        f"I{_glog(at)} 1400 model_training_utils.py:450] Train Step: {i}/900000  / loss = 9.9\n"
        for i, at in _steps(130, step_time)
    )


def gluon(rate=2048.0):
    return "".join(
        f"Epoch[0] Batch [{i}]\tSpeed: {rate:f} samples/sec\taccuracy=0.001\tlr=0.1\n"
        for i in range(19, 140, 20)
    )


def gluon_nlp(step_time=0.125):
    return "".join(
        f"INFO:root:[step {i}]\tmlm_loss=7.9\tmlm_acc=5.1\tthroughput=28.8K tks/s\tlr=0.1 time=2.50, "
        f"latency={1000 * step_time:.1f} ms/batch\n"
        for i in range(20, 140, 20)
    )


def paddle(step_time=0.125):
    return "".join(
        f"{_date(at, ',')}-INFO: [Pass 0, train batch {i}] \tloss 7.0, acc1 0.0, acc5 0.0, lr 0.1, "
        f"elapse {step_time:.4f} sec\n"
        for i, at in _steps(130, step_time)
    )


def paddle_bert(step_time=0.125):
    return "".join(
        f"epoch: 0, progress: 1/1, step: {i}, loss: 9.9, ppl: 1.0, next_sent_acc: 0.5, speed: "
        f"{1 / step_time:f} steps/s, file: part-0\n"
        for i in range(0, 140, 10)
    )


def dllogger(step_time=0.125, parameters=None):
    def line(**record):
        return "DLLL " + json.dumps(record) + "\n"

    requested = {"arch": "resnet50", "batch_size": 128, "amp": True, "world_size": 1, **(parameters or {})}
    lines = [
        line(timestamp=f"{BEGIN}", type="LOG", step="PARAMETER", data=requested),
        line(timestamp=f"{BEGIN}", type="METADATA", metric="train.total_ips", metadata={"unit": "img/s"}),
    ]
    for i, at in _steps(130, step_time):
        ips = {"train.loss": 7.0, "train.total_ips": 9.0}
        lines.append(line(timestamp=f"{at}", type="LOG", step=[0, i], data=ips))
        lines.append(line(timestamp=f"{at}", type="LOG", step=[0, i], data={"lr": 0.1}))
        lines.append(line(timestamp=f"{at}", type="LOG", step=[0, i, 0], data={"train.loss": 1.0}))
    lines.append(line(timestamp=f"{BEGIN + 99}", type="LOG", step=[], data={"train.total_ips": 1.0}))
    return "".join(lines)


REAL = {
    "TensorFlow-models": (
        "I0826 15:13:29.256277 140405777909504 keras_utils.py:133] TimeHistory: 39.13 seconds, 327.08 examples/second "
        "between steps 100 and 200",
        (200, 39.13, 327.08, 100),
    ),
    "NVIDIADeepLearningExamples": (
        "DLL 2020-09-15 14:29:14.427490 - Epoch: 0 Iteration: 2  train.loss : 6.93504  train.total_ips : 4294.91 img/s",
        (2, None, None, 1),
    ),
    "TensorFlow-models, of BERT": (
        "I0630 03:04:41.019742 139942479124288 model_training_utils.py:444] Train Step: 12271/12271  / loss = "
        "0.39529433846473694  test_accuracy = 0.856514",
        (12271, None, None, 1),
    ),
    "gluon-cv": (
        "INFO:root:Epoch[0] Batch [39]\tSpeed: 2052.376520 samples/sec\taccuracy=1.000000, top_k_accuracy_5=0.975000",
        (39, None, 2052.37652, 1),
    ),
    "gluon-cv, with a stamp": (
        "2019-08-21 12:24:33,668 INFO Epoch[0] Batch [50]\tSpeed: 590.59 samples/sec\taccuracy=0.211397",
        (50, None, 590.59, 1),
    ),
    "gluon-cv, of a node": (
        "2016-08-19 10:58:12,137 Node[0] Epoch[0] Batch [50]     Speed: 95.38 samples/sec        "
        "Train-accuracy=0.001016",
        (50, None, 95.38, 1),
    ),
    "PaddleNLP": (
        "epoch: 1, progress: 1/1, step: 30, loss: 10.540648, ppl: 19106.925781, next_sent_acc: 0.625000, speed: "
        "0.849662 steps/s, file: ./data/demo_train_set.gz, mask_type: mask_word",
        (30, None, 64 * 0.849662, 1),
    ),
}
"""Lines that the programs wrote, and what they say: iteration, seconds, samples per second with a global batch of 64,
iterations covered."""

FORMATTED = {
    "PaddleCV": (
        "2020-08-19 14:23:11,123-INFO: [Pass 0, train batch 30] \tloss 7.01234, acc1 0.00000, acc5 0.00781, "
        "lr 0.10000, elapse 0.3512 sec",
        (30, 0.3512, None, 1),
    ),
    "gluon-nlp": (
        "INFO:root:[step 20]\tmlm_loss=7.90000\tmlm_acc=5.10000\tnsp_loss=0.70000\tnsp_acc=52.000\t"
        "throughput=28.8K tks/s\tlr=0.0001000 time=2.50, latency=160.0 ms/batch",
        (20, None, 400.0, 1),
    ),
}
"""Lines as the format strings of the training scripts make them."""
