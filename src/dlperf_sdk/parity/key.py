"""What parity evidence is evidence for: everything that could make another run's first steps differ, in one hash."""

from __future__ import annotations

import hashlib
import json
import os

from dlperf_sdk import bundle
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.plan import Plan
from dlperf_sdk.worker import hardware
from dlperf_sdk.worker.request import Request

CIRCUMSTANCES = ("id", "deadlines", "samplers", "on_busy", "memory_limit", "first_attempt")
"""What a request says beside what is computed."""


def key_of(plan: Plan, request: Request, prepared: PreparedEnvironment, reference: str) -> str:
    """SHA-256 over the request without its circumstances, all code in the bundle, the environment's lock and
    interpreter, the variables as this shell fills them in, the engine, the devices' names, the reference's digest.

    The devices are those of this machine: of nodes that an engine places elsewhere, only the engine is known here.
    """
    asked = {name: value for name, value in request.to_dict().items() if name not in CIRCUMSTANCES}
    files = bundle.contents(request, plan.packages)
    facts = hardware.describe()
    parts = {
        "request": asked,
        "code": {name: _digest(content) for name, content in files.items() if name != "request.json"},
        "lock": prepared.lock,
        "python": prepared.python,
        "variables": {n: os.environ.get(n) if v is None else v for n, v in request.variables.items()},
        "engine": plan.spec.topology.engine,
        "cpu": (facts.get("cpu") or {}).get("model"),
        "gpus": [gpu.get("name") for gpu in facts.get("gpus") or ()],
        "plugin": plan.plugin,
        "reference": reference,
    }
    return _digest(json.dumps(parts, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
