"""The importer of the standard output of tf_cnn_benchmarks.

Source of the format: tensorflow/benchmarks at 8fb7907, scripts/tf_cnn_benchmarks/benchmark_cnn.py: `print_info`
writes the header, `benchmark_one_step` the lines of steps, `_benchmark_graph` the total. The total is workers × steps
× batch ÷ the time of this worker's loop after its warm-up. The lines of steps are not used: they have batch ÷ mean
step time so far.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dlperf_sdk.interfaces.importer import Importer, Log, Reading

_LABEL = re.compile(
    r"(TensorFlow|Model|Dataset|Mode|Batch size|Num batches|Devices|Data format|Variables|Sync):\s+(.*\S)"
)
_PER_DEVICE = re.compile(r"\s+([0-9]{1,12}) per device")
_GLOBAL = re.compile(r"([0-9]{1,12}) global")
_TOTAL = re.compile(r"total images/sec: ([0-9]{1,15}(?:\.[0-9]{1,9})?)")
_MODELS = {
    "inception3": "inception-v3",
    "resnet50": "resnet50-v1",
    "resnet50_v1.5": "resnet50",
    "resnet50_v2": "resnet50-v2",
}
"""Its `resnet50` is the first version: its blocks stride in the first 1 × 1 convolution."""
_STRATEGIES = {
    "parameter_server": "parameter_server",
    "distributed_replicated": "distributed_replicated",
    "replicated": "all_reduce",
    "distributed_all_reduce": "all_reduce",
    "collective_all_reduce": "all_reduce",
    "horovod": "horovod",
    "independent": "independent",
}
_ESTIMATOR = (
    "workers × steps × batch ÷ the time that the loop of the worker that wrote the log took after its warm-up"
)


class TfCnnBenchmarks(Importer):
    """The importer of a training run of tf_cnn_benchmarks: it reads the header and the total throughput in the log."""

    name = "tf-cnn-benchmarks"
    version = "3"
    unit = "img/s"

    def read(self, log: Log, stated: Mapping[str, Any]) -> Reading:
        """Return the total throughput of the training run in `log`, and the facts in the header.

        The facts are framework, implementation, model, topology, batch size and strategy; and layout, data, steps and
        device if the header has them. Horovod's processes are counted as devices of one node. `stated` is not used.

        Raises:
            DocumentError: The log lacks a line of the header or the total, holds several runs or no training, states
                batch sizes that do not fit the devices, or uses an unknown way to update variables.
        """
        header: dict[str, tuple[int, str]] = {}
        per_device: tuple[int, int] | None = None
        total: float | None = None
        for line, text in log:
            if match := _LABEL.fullmatch(text):
                if match[1] in header:
                    raise log.error_at(
                        line,
                        f"{match[1]!r} is there a second time, after line {header[match[1]][0]}: the log holds "
                        "several runs, or several workers' lines. Import those of one",
                    )
                header[match[1]] = line, match[2]
            elif match := _PER_DEVICE.fullmatch(text):
                per_device = line, int(match[1])
            elif match := _TOTAL.fullmatch(text):
                if total is not None:
                    raise log.error_at(
                        line, "a second total; the log holds several runs. Import those of one"
                    )
                total = float(match[1])
                if not total > 0:
                    raise log.error_at(line, f"a total of {match[1]} images a second")
        for label in ("Model", "Mode", "Batch size", "Devices", "Variables"):
            if label not in header:
                raise log.error_missing(f"the line '{label}:' of tf_cnn_benchmarks' header")
        if per_device is None:
            raise log.error_missing("the line with the batch size per device")
        if total is None:
            raise log.error_missing(
                "its line 'total images/sec': the run had not ended, or the log is cut short"
            )
        return Reading(
            program="tf_cnn_benchmarks",
            facts=_facts(log, header, per_device),
            throughput=total,
            estimator="loop-elapsed",
            estimator_description=_ESTIMATOR,
        )


def _facts(log: Log, header: Mapping[str, tuple[int, str]], per_device: tuple[int, int]) -> dict[str, Any]:
    line, mode = header["Mode"]
    if mode != "training":
        raise log.error_at(line, f"its mode is {mode!r}; only training can be imported")
    line, variables = header["Variables"]
    if variables not in _STRATEGIES:
        raise log.error_at(
            line, f"it updates variables by {variables!r}, of which this importer does not know"
        )
    strategy = _STRATEGIES[variables]
    if strategy == "parameter_server" and header.get("Sync", (0, "True"))[1] == "False":
        strategy = "parameter_server_async"
    line, model = header["Model"]
    facts: dict[str, Any] = {
        # It was written for TensorFlow 1, and later runs with TensorFlow 2 as well.
        "framework": "tensorflow" if header.get("TensorFlow", (0, ""))[1].startswith("2") else "tensorflow1",
        "implementation": "tf_cnn_benchmarks",
        "model": _MODELS.get(model, model.lower().replace("_", "-")),
        "topology": _topology(log, header, per_device),
        "batch_size": per_device[1],
        "strategy": strategy,
    }
    if "Data format" in header:
        facts["layout"] = header["Data format"][1].lower()
    if "Dataset" in header:
        facts["data"] = "synthetic" if header["Dataset"][1].endswith("(synthetic)") else "images"
    if "Num batches" in header and header["Num batches"][1].isdecimal():
        facts["steps"] = int(header["Num batches"][1])
    line, devices = header["Devices"]
    if kinds := set(re.findall(r"/(cpu|gpu):[0-9]+'", devices)):
        if len(kinds) > 1:
            raise log.error_at(line, "it names devices of two kinds")
        facts["device"] = {"cpu": "cpu", "gpu": "cuda"}[kinds.pop()]
    return facts


def _topology(log: Log, header: Mapping[str, tuple[int, str]], per_device: tuple[int, int]) -> str:
    """Derive the topology from the two batch sizes and the list of devices.

    Horovod's list has one device for each of its processes, wherever they are: they are taken for one node.
    """
    line, text = header["Batch size"]
    match = _GLOBAL.fullmatch(text)
    if match is None:
        raise log.error_at(line, f"the batch size is {text[:80]!r}; 'N global' was expected")
    if not per_device[1] or int(match[1]) % per_device[1]:
        raise log.error_at(per_device[0], f"{per_device[1]} per device do not divide {match[1]} in all")
    devices = int(match[1]) // per_device[1]
    line, text = header["Devices"]
    tasks = set(re.findall(r"/task:?([0-9]+)/", text))
    listed = len(re.findall(r"'[^']+'", text))
    per_task = listed // len(tasks) if tasks else listed
    if not per_task or devices % per_task or not devices:
        raise log.error_at(line, f"it lists {listed} devices, but the batch sizes make them {devices}")
    return f"{devices // per_task}n{per_task}d"
