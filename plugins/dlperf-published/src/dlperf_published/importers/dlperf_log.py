"""The importer of DLPerf's logs: one run of one framework's training script.

DLPerf states the case in a log's path (`…/2n8g/rn50_b128_fp32_1.log`), OneFlow also in lines of the log
(`batch_size_per_device = 128`). The window is DLPerf's: 20 iterations skipped, 100 measured. A log of a case with
several devices may hold the lines of one rank, of the ranks of one node, or of all ranks, as MXNet's and PyTorch's
do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlperf_published.importers.dlperf_formats import FORMATS, Format
from dlperf_published.importers.window import STEPS, WARMUP, LogWindow
from dlperf_sdk.errors import UsageError
from dlperf_sdk.interfaces.importer import Importer, Log, Reading
from dlperf_sdk.spec.values import TopologySpec

_CASE = re.compile(r"([1-9][0-9]{0,3})n([1-9][0-9]{0,2})g")
_NAME = re.compile(r"([a-z0-9.-]+?)_b([1-9][0-9]{0,6})_(fp32|fp16|amp)_[0-9]+\.log", re.IGNORECASE)
_MODELS = {
    "rn50": "resnet50",
    "resnet50": "resnet50",
    "resnet50v1.5": "resnet50",
    "rn50v1b": "resnet50-v1b",
    "bert": "bert-base",
}
_PRECISIONS = {"fp32": "fp32", "amp": "amp-fp16"}
"""Word in a file's name → precision. `fp16` is missing: DLPerf writes it for mixed and for half precision, so the
user has to state which."""
_LONGEST = 4096
"""Length in characters above which a line is not matched with the formats."""
_MESSAGE = re.compile(r"(model|batch_size_per_device|gpu_num_per_node|num_nodes) = ([A-Za-z0-9_.-]{1,40})\s*")


class DlperfLog(Importer):
    """The importer of the logs of DLPerf's OneFlow, TensorFlow, PyTorch, MXNet and PaddlePaddle scripts.

    It measures over a window of iterations.
    """

    name = "dlperf-log"
    version = "2"
    has_window = True

    def read(self, log: Log, stated: Mapping[str, Any]) -> Reading:
        """Return the throughput over a window of the first epoch's iterations, and the facts in the path and the log.

        The format of the log is the first one of `FORMATS` that fits a line. The facts are the implementation, the
        framework if the format has only one, the window, and the device, model, batch size, precision and topology as
        far as the path or the log states them.

        Args:
            log: The log; its path is read for facts, too.
            stated: Facts that the user states: field of a run spec → value. `warmup` and `steps` set the window;
                `topology` and `batch_size` take precedence over the log.

        Raises:
            DocumentError: No line has a known format, a line is malformed, the log ends before the window or holds
                several runs, the window lacks iterations, rates or lines of some ranks, or the window took no time.
            UsageError: The topology or the batch size is neither in the path or the log nor in `stated`.
            SpecError: The stated topology is malformed.
        """
        window = LogWindow(log, stated.get("warmup", WARMUP), stated.get("steps", STEPS))
        known = {**_parse_path(log.path), **stated}
        lines: dict[str, str] = {}
        chosen: Format | None = None
        first_epoch = ""
        for line, text in log:
            if chosen is None and (match := _MESSAGE.fullmatch(text)):
                lines[match[1]] = match[2]
            for candidate in FORMATS if chosen is None else (chosen,):
                if candidate.holds not in text or len(text) > _LONGEST:
                    continue
                size, topology = _case(log.path, {**known, **_parse_lines(log, line, lines), **stated})
                try:
                    epoch_tick = candidate.tick(text, size * topology.devices)
                except ValueError as error:
                    raise log.error_at(line, f"{error}, in a line of {candidate.implementation}") from None
                if epoch_tick is None:
                    continue
                epoch, tick = epoch_tick
                if chosen is None:
                    chosen, first_epoch = candidate, epoch
                    window.ranks = frozenset({1, topology.devices_per_node, topology.devices})
                if epoch == first_epoch:
                    window.take(line, tick)
                break
        if chosen is None:
            raise log.error_missing("a line about an iteration in any of the formats of DLPerf's frameworks")
        facts = {
            **_parse_path(log.path),
            **_parse_lines(log, log.line_count, lines),
            "implementation": chosen.implementation,
        }
        if chosen.framework:
            facts["framework"] = chosen.framework
        size, topology = _case(log.path, {**facts, **stated})
        estimate = window.estimate(size * topology.devices)
        facts |= {"warmup": window.warmup, "steps": window.steps}
        return Reading(
            chosen.implementation, facts, estimate.throughput, estimate.estimator, estimate.description
        )


def _parse_path(path: Path) -> dict[str, Any]:
    """Return the facts in the names of the directory and the file."""
    facts: dict[str, Any] = {"device": "cuda"}
    if match := _CASE.fullmatch(path.absolute().parent.name):
        facts["topology"] = f"{match[1]}n{match[2]}d"
    if match := _NAME.fullmatch(path.name):
        model = match[1].lower()
        facts |= {"model": _MODELS.get(model, model), "batch_size": int(match[2])}
        if match[3].lower() in _PRECISIONS:
            facts["precision"] = _PRECISIONS[match[3].lower()]
    return facts


def _parse_lines(log: Log, line: int, lines: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts in OneFlow's own lines."""
    facts: dict[str, Any] = {}
    numbers = {name: value for name, value in lines.items() if name != "model"}
    for name, value in numbers.items():
        if not value.isdecimal() or not int(value):
            raise log.error_at(line, f"{name} is {value!r} above")
    if "model" in lines:
        facts["model"] = _MODELS.get(lines["model"].lower(), lines["model"].lower())
    if "batch_size_per_device" in numbers:
        facts["batch_size"] = int(numbers["batch_size_per_device"])
    if "num_nodes" in numbers and "gpu_num_per_node" in numbers:
        facts["topology"] = f"{int(numbers['num_nodes'])}n{int(numbers['gpu_num_per_node'])}d"
    return facts


def _case(path: Path, known: Mapping[str, Any]) -> tuple[int, TopologySpec]:
    """Return the batch size per device, and the topology."""
    for name in ("topology", "batch_size"):
        if name not in known:
            raise UsageError(
                f"Neither {path} nor its name contains the {name.replace('_', ' ')}: add --set {name}=…, or name it as "
                "DLPerf does, 2n8g/rn50_b128_fp32_1.log."
            )
    return known["batch_size"], TopologySpec.parse(known["topology"])
