"""The importer of NVIDIA's DLLogger: `DLLL {"type": "LOG", "step": [0, 20], "data": {…}, "timestamp": "…"}`.

Source of the format: NVIDIA/dllogger, dllogger/logger.py, `JSONStreamBackend`. Each program chooses the keys of
`data` and the form of `step`. A number or [epoch, iteration] is taken for an iteration; longer lists are validation,
[] and [epoch] are summaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_published.importers.window import STEPS, WARMUP, LogWindow, Tick
from dlperf_sdk.documents.reading import parse_json
from dlperf_sdk.errors import DocumentError, UsageError
from dlperf_sdk.interfaces.importer import Importer, Log, Reading
from dlperf_sdk.spec.values import TopologySpec

_PREFIX = "DLLL "
_PARAMETERS: tuple[tuple[str, str], ...] = (
    ("batch_size", "batch_size"),
    ("train_batch_size", "batch_size"),
    ("arch", "model"),
    ("model", "model"),
)
"""Parameter names of NVIDIA's DeepLearningExamples, each with its name in a run spec."""


class DlLogger(Importer):
    """The importer of the JSON lines of NVIDIA's DLLogger; it measures over a window of iterations."""

    name = "dllogger"
    version = "2"
    has_window = True

    def read(self, log: Log, stated: Mapping[str, Any]) -> Reading:
        """Return the throughput over a window of the first epoch's iterations, and the facts that the log states.

        The throughput is computed from the time stamps of the records. A program may log an iteration in several
        records. Only records with a certain metric are used: the first metric in the log's first record of an
        iteration. The facts are the implementation, and if the log states them, the model, batch size and precision.
        The topology is a fact only if the log states that there is one device.

        Args:
            log: The log.
            stated: Facts that the user states: field of a run spec → value. `warmup` and `steps` set the window;
                `topology` and `batch_size` take precedence over the log.

        Raises:
            DocumentError: A record is malformed or has no time stamp, the log ends before the window or holds several
                runs, the window's last iteration is missing, or the window took no time.
            UsageError: The topology or the batch size is neither in the log nor in `stated`.
            SpecError: The stated topology is malformed.
        """
        window = LogWindow(log, stated.get("warmup", WARMUP), stated.get("steps", STEPS))
        parameters: dict[str, Any] = {}
        metric: str | None = None
        epoch: Any = None
        for line, text in log:
            if not text.startswith(_PREFIX):
                if _PREFIX in text:
                    raise log.error_at(
                        line, "a record begins in the middle of the line: two writers mixed their lines"
                    )
                continue
            record = _record(log, line, text[len(_PREFIX) :])
            data, step = record.get("data"), record.get("step")
            if record.get("type") != "LOG" or not isinstance(data, dict):
                continue
            if step == "PARAMETER":
                parameters |= data
                continue
            position = _iteration(step)
            if position is None or not data:
                continue
            if metric is None:
                metric, epoch = next(iter(data)), position[0]
            # A program may log an iteration in several records; those with the first metric are counted.
            if metric in data and position[0] == epoch:
                window.take(line, Tick(position[1], stamp=_stamp(log, line, record)))
        facts = {"implementation": "NVIDIADeepLearningExamples", **_facts(parameters)}
        known = {**facts, **stated}
        for name in ("topology", "batch_size"):
            if name not in known:
                raise UsageError(
                    f"{log.path} does not state the {name.replace('_', ' ')}: add --set {name}=…."
                )
        devices = TopologySpec.parse(known["topology"]).devices
        estimate = window.estimate(known["batch_size"] * devices)
        return Reading("DLLogger", facts, estimate.throughput, estimate.estimator, estimate.description)


def _record(log: Log, line: int, text: str) -> dict[str, Any]:
    try:
        record = parse_json(text.encode("utf-8", "replace"), f"{log.path}, line {line}")
    except DocumentError as error:
        raise DocumentError(f"{error} The line is cut short, or two writers mixed their lines.") from None
    if not isinstance(record, dict):
        raise log.error_at(line, "this is not a record of DLLogger")
    return record


def _iteration(step: Any) -> tuple[Any, int] | None:
    """Return epoch and iteration; None for another kind of step."""
    match step:
        case bool():
            return None
        case int():
            return 0, step
        case [int() as epoch, int() as iteration]:
            return epoch, iteration
    return None


def _stamp(log: Log, line: int, record: Mapping[str, Any]) -> float:
    try:
        return float(record.get("timestamp"))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise log.error_at(line, "the record has no timestamp") from None


def _facts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for key, name in _PARAMETERS:
        value = parameters.get(key)
        expected_type = int if name == "batch_size" else str
        if name not in facts and isinstance(value, expected_type) and not isinstance(value, bool):
            facts[name] = value.lower().replace("_", "-") if isinstance(value, str) else value
    # fp16 without amp is half precision throughout.
    if parameters.get("amp") is True:
        facts["precision"] = "amp-fp16"
    elif parameters.get("fp16") is True:
        facts["precision"] = "fp16"
    elif parameters.get("amp") is False or parameters.get("fp16") is False:
        facts["precision"] = "fp32"
    size = parameters.get("world_size")
    if isinstance(size, int) and not isinstance(size, bool) and size == 1:
        facts["topology"] = "1n1d"
    return facts
