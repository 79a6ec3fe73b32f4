"""Key of parity evidence: a hash over everything that could change the first steps of another run."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.planning.secret_variables import redact_variables
from dlperf_sdk.worker.agent import hardware
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.variables import worker_environment

CONTEXT = ("id", "deadlines", "samplers", "on_busy", "memory_limit", "required_programs", "first_attempt")
"""Fields of a request that do not change what is computed."""

SEARCHED = ("PATH", "LD_LIBRARY_PATH")
"""Inherited variables that decide which code runs: the search paths of programs and of shared libraries."""


def key_of(plan: Plan, request: Request, prepared: PreparedEnvironment, reference: str) -> str:
    """Return the key of a parity run: the SHA-256, in hexadecimal, of everything that its evidence depends on.

    Args:
        plan: The plan of the parity run.
        request: The request of the parity run.
        prepared: The environment of the workers.
        reference: The digest of the reference, `Reference.digest`.

    Raises:
        PluginError: A package of the worker half is not installed as Python files.
    """
    return _digest(json.dumps(parts(plan, request, prepared, reference), sort_keys=True).encode())


def parts(plan: Plan, request: Request, prepared: PreparedEnvironment, reference: str) -> dict[str, Any]:
    """Return everything that parity evidence depends on, as a dict of JSON values, of which `key_of` makes the key.

    Its keys are:

    - `request`: the request without the fields in `CONTEXT`, which do not change what is computed;
    - `code`: name of each file in the bundle → its SHA-256, without `request.json`;
    - `lock`, `python` and `container`: the environment's lock and interpreter, and the container's settings;
    - `variables`: the variables that the spec requests, and those in `SEARCHED` (`PATH`, `LD_LIBRARY_PATH`);
    - `launcher`, `cpu` and `gpus`: the names of the launcher, the processor and the GPUs;
    - `plugin`: the plugin's distribution and version;
    - `reference`: the argument `reference`.

    Secret values are replaced by hashes. Variables have the values that a worker on this machine would get, and
    processor and GPUs are those of this machine: about nodes on other machines, only the launcher is known here.

    Args:
        plan: The plan of the parity run.
        request: The request of the parity run.
        prepared: The environment of the workers.
        reference: The digest of the reference, `Reference.digest`.

    Raises:
        PluginError: A package of the worker half is not installed as Python files.
    """
    fields = {name: value for name, value in request.to_dict().items() if name not in CONTEXT}
    fields["variables"] = redact_variables(request.variables, request.secrets)
    spec, files = plan.spec, bundle.contents(request, plan.packages)
    variables = worker_environment(os.environ, request.variables, {})
    relevant = {name: variables.get(name) for name in (*SEARCHED, *request.variables)}
    facts = hardware.describe()
    return {
        "request": fields,
        "code": {name: _digest(content) for name, content in files.items() if name != "request.json"},
        "lock": prepared.lock,
        "python": prepared.python,
        "container": [spec.container, spec.container_mounts, spec.container_devices],
        "variables": redact_variables(relevant, request.secrets),
        "launcher": spec.topology.launcher,
        "cpu": (facts.get("cpu") or {}).get("model"),
        "gpus": [gpu.get("name") for gpu in facts.get("gpus") or ()],
        "plugin": plan.plugin,
        "reference": reference,
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
