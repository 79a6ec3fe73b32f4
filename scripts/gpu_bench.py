"""The place where the checks of `gpu_check.py` run: cases in the sizes of a device, and the outcomes of checks."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk import ResultStore, run
from dlperf_sdk.results.redact import redact_result
from dlperf_sdk.results.result import Result
from dlperf_sdk.worker.gpu.nvml import Nvml

_BERT = {"layers": 1, "hidden_size": 64, "heads": 4, "intermediate_size": 128, "vocabulary_size": 1000}
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "cuda": {"resnet50": {"batch_size": 64}, "bert-base": {"batch_size": 32}},
    "cpu": {
        "resnet50": {"batch_size": 2, "options": {"image_size": 64, "num_classes": 10}},
        "bert-base": {"batch_size": 2, "options": {**_BERT, "sequence_length": 32}},
    },
}
"""Kind of device → model → the case that is run on it."""
SHORT = {"canonical_steps": 4, "warmup": 5, "steps": 10, "repeats": 1}


@frozen
class Outcome:
    """The outcome of a check: pass, fail, inconclusive or not-applicable; a sentence; and figures by name."""

    outcome: str
    sentence: str
    figures: Mapping[str, Any] = {}
    results: tuple[str, ...] = ()
    """The results that it was made from, by their names in `results/`."""


@frozen
class Bench:
    """The place where the checks run, and where their results are stored.

    Args:
        device: Kind of the device, `cuda` or `cpu`.
        python: Path of the workers' interpreter; None for the one that runs this process.
        out: Directory of the outcomes; the stores `raw` and `results` in it are created if needed.
    """

    device: str
    python: str | None
    out: Path

    def run(self, model: str, **fields: Any) -> Result:
        """Run a case of a model with torch, in the size for this device, and return its result.

        The result is written to both stores: with its logs to `raw`, and without the names of hosts and users to
        `results`. A failed case has a failure in its result.

        Args:
            model: Name of the model, a key of `SIZES[device]`.
            fields: Fields of the run spec and arguments of `dlperf_sdk.run`, which take precedence over `SIZES` and
                `SHORT`; `options` are merged.

        Raises:
            UsageError: The case cannot be understood; also any subclass.
        """
        size = SIZES[self.device][model]
        case = size | SHORT | fields
        case["options"] = size.get("options", {}) | fields.get("options", {})
        result = run(
            "torch",
            model,
            device=self.device,
            python=self.python,
            store=self.out / "raw",
            observers=case.pop("observers", ()),
            **case,
        )
        store = ResultStore(self.out / "results")
        store.open_run(result.id).write_result(
            redact_result(result, (platform.node(),), (getpass.getuser(),))
        )
        return result

    def gpu_memory(self) -> int:
        """Return the bytes in use on all GPUs of this machine; 0 if there are none, or no NVML."""
        nvml = Nvml.open()
        if nvml is None:
            return 0
        try:
            messages = [nvml.memory(device) for device in nvml.devices()]
            return sum(memory.used for memory in messages if memory is not None)
        finally:
            nvml.close()
