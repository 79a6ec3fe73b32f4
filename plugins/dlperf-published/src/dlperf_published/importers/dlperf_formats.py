"""The formats of lines about iterations in the logs of DLPerf's frameworks.

Sources: Oneflow-Inc/DLPerf at c89430b, the scripts `extract_*_logs*.py` of each implementation and the lines in its
READMEs, and TensorFlow's logs at e36df2e; for MXNet and PaddlePaddle, the format strings in the training scripts of
gluon-cv, gluon-nlp and PaddlePaddle, and lines that users have shown.

Each format has a text that all its lines contain, so that other lines are skipped quickly, and a pattern with named
groups: `iteration`, and any of `epoch`, `clock` (a stamp), `seconds`, `rate`, `since`, `milliseconds` and
`steps_per_second`. A pattern passes over a line once: each part is searched after the first place of the part before
it, and `(?>` prevents that an earlier part is searched again, which would take hours for a long line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from attrs import frozen

from dlperf_published.importers.window import Tick

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,12})?"
_COUNT = r"[0-9]{1,12}"


@frozen
class Format:
    """The format in which one implementation logs an iteration."""

    implementation: str
    """Name of the implementation."""
    framework: str
    """Name of the framework; empty if several frameworks use the format."""
    holds: str
    """A text that every line in this format contains."""
    line: re.Pattern[str]
    """Pattern of a line; see the groups in the module's documentation."""
    stamp: Callable[[str], float] | None = None
    """Function that converts the text of the group `clock` to seconds; None if lines have no stamp."""

    def tick(self, text: str, global_batch: int) -> tuple[str, Tick] | None:
        """Return (epoch, content) of a line of the log; None for a line in another format.

        The epoch is a text, as in the line, or empty if the line has none. The content is a `Tick`.

        Args:
            text: The line.
            global_batch: Samples of all devices in an iteration, with which steps per second or milliseconds per step
                are converted to samples per second.

        Raises:
            ValueError: The time stamp is not a date, or the step took 0 milliseconds.
        """
        match = self.line.match(text) if self.holds in text else None
        if match is None:
            return None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        iteration = int(groups["iteration"])
        seconds = float(groups["seconds"]) if "seconds" in groups else None
        rate = float(groups["rate"]) if "rate" in groups else None
        if "steps_per_second" in groups:
            rate = float(groups["steps_per_second"]) * global_batch
        if "milliseconds" in groups:
            if not float(groups["milliseconds"]):
                raise ValueError("a step that took no time")
            rate = 1000 * global_batch / float(groups["milliseconds"])
        covers = iteration - int(groups["since"]) if "since" in groups else 1
        stamp = None if self.stamp is None or "clock" not in groups else self.stamp(groups["clock"])
        return groups.get("epoch", ""), Tick(iteration, stamp, seconds, covers, rate)


def _date(text: str) -> float:
    """Parse `2020-08-17 13:02:37.529145`, or with a comma before the fraction."""
    return datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=UTC).timestamp()


def _glog(text: str) -> float:
    """Parse `0817 13:02:37.529145`: glog's stamps have no year. A run across New Year is refused later."""
    return datetime.strptime(f"2020{text}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


_DATE = r"(?P<clock>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{3,6})"
_GLOG = r"I(?P<clock>[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6})"

FORMATS = (
    # train: epoch 0, iter 20, loss: 7.087004, …, samples/s: 3988.891 1597933942.9863544
    Format(
        "OneFlow-Benchmark",
        "oneflow",
        "train: epoch ",
        re.compile(
            rf"(?>.*?train: epoch (?P<epoch>{_COUNT}), iter (?P<iteration>{_COUNT}), )"
            rf"(?>.*?samples/s: (?P<rate>{_NUMBER}) (?P<clock>{_NUMBER})\s*$)"
        ),
        float,
    ),
    # step: 19, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, throughput: 54.982 1598056519.8844702
    Format(
        "OneFlow-Benchmark",
        "oneflow",
        "total_loss: ",
        re.compile(
            rf"(?>.*?step: (?P<iteration>{_COUNT}), total_loss: )"
            rf"(?>.*?throughput: (?P<rate>{_NUMBER}) (?P<clock>{_NUMBER})\s*$)"
        ),
        float,
    ),
    # Epoch: [0][ 1/53]  Time  0.970 ( 6.512)  Data  0.002 ( 0.001)  …
    Format(
        "PyTorch-examples",
        "torch",
        "Epoch: [",
        re.compile(
            rf".*?Epoch: \[(?P<epoch>{_COUNT})\]\[ *(?P<iteration>{_COUNT})/{_COUNT}\]\s+Time +"
            rf"(?P<seconds>{_NUMBER}) "
        ),
    ),
    # DLL 2020-09-15 14:29:13.473765 - Epoch: 0 Iteration: 1  train.loss : 7.09304  train.total_ips : 267.44 img/s
    Format(
        "NVIDIADeepLearningExamples",
        "",
        "Iteration: ",
        re.compile(
            rf"(?>.*?DLL {_DATE} - (?:(?:Training )?Epoch: (?P<epoch>{_COUNT}) )?(?:Training )?Iteration: "
            rf"(?P<iteration>{_COUNT}) )(?!.*Validation Iteration: )"
        ),
        _date,
    ),
    # I0826 15:13:29.256277 140405777909504 keras_utils.py:133] TimeHistory: 39.13 seconds, 327.08 examples/second
    # between steps 100 and 200
    Format(
        "TensorFlow-models",
        "tensorflow",
        "TimeHistory: ",
        re.compile(
            rf"(?>.*?{_GLOG} )?(?>.*?TimeHistory: (?P<seconds>{_NUMBER}) seconds, (?P<rate>{_NUMBER}) "
            rf"examples/second between steps (?P<since>{_COUNT}) and (?P<iteration>{_COUNT}))"
        ),
        _glog,
    ),
    # I0821 07:10:28.123456 1400 model_training_utils.py:450] Train Step: 20/900000  / loss = 9.9…
    Format(
        "TensorFlow-models",
        "tensorflow",
        "Train Step: ",
        re.compile(rf"(?>.*?{_GLOG} )(?>.*?Train Step: (?P<iteration>{_COUNT})/{_COUNT})"),
        _glog,
    ),
    # Epoch[0] Batch [20]  Speed: 1389.12 samples/sec  …; NVIDIA's has the range: Batch [20-40]
    Format(
        "gluon-cv",
        "mxnet",
        "Speed: ",
        re.compile(
            rf"(?>.*?{_DATE})?(?>.*?Epoch\[(?P<epoch>{_COUNT})\] Batch ?\[(?:{_COUNT}-)?(?P<iteration>{_COUNT})\]\s+"
            rf"Speed: (?P<rate>{_NUMBER}) samples/sec)"
        ),
        _date,
    ),
    # [step 20]  mlm_loss=… throughput=28.8K tks/s  … latency=183.12 ms/batch
    Format(
        "gluon-nlp",
        "mxnet",
        "latency=",
        re.compile(
            rf"(?>.*?\[step (?P<iteration>{_COUNT})\])(?>.*?latency=(?P<milliseconds>{_NUMBER}) ms/batch)"
        ),
    ),
    # 2020-08-19 14:23:11,123-INFO: [Pass 0, train batch 20] loss 7.0, …, elapse 0.3512 sec
    Format(
        "PaddleCV",
        "paddle",
        "train batch ",
        re.compile(
            rf"(?>.*?{_DATE})?(?>.*?\[Pass (?P<epoch>{_COUNT}), train batch (?P<iteration>{_COUNT})\])"
            rf"(?>.*?elapse (?P<seconds>{_NUMBER}) sec)"
        ),
        _date,
    ),
    # epoch: 0, progress: 1/1, step: 20, loss: 9.9, …, speed: 0.163902 steps/s, file: …
    Format(
        "PaddleNLP",
        "paddle",
        " steps/s",
        re.compile(
            rf"(?>.*?epoch: (?P<epoch>{_COUNT}), )(?>.*?step: (?P<iteration>{_COUNT}), )"
            rf"(?>.*?speed: (?P<steps_per_second>{_NUMBER}) steps/s)"
        ),
    ),
)
"""All formats, in the order in which they are tried; a log has the first format that fits one of its lines."""
