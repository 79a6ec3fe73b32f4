"""Start the probe: one worker of a case, in the framework's environment, without agents."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk import bundle, environments
from dlperf_sdk.plan import make_plan
from dlperf_sdk.registry import Registry
from dlperf_sdk.spec import RunSpec, TopologySpec
from dlperf_sdk.worker.network import free_ports
from dlperf_sdk.worker.variables import worker_environment

PATIENCE = 600.0
"""Seconds that a probe may take, the compiling of a network included."""


@frozen
class Answer:
    """What the worker answered."""

    values: Mapping[str, Any]
    """See `dlperf_sdk.testing.probe`; a key is missing where the worker failed before it."""
    log: str
    """The end of what it wrote to its standard streams."""

    @property
    def failed(self) -> str | None:
        """At what it failed, and how; None if it went through."""
        if self.values.get("asked") is None:
            return None
        said = self.values.get("error") or self.log
        return f"the worker failed when it was asked for {self.values['asked']}:\n{said}"


def probe(spec: RunSpec, registry: Registry) -> Answer:
    """Ask one worker of a case, on one device.

    Raises:
        Unsupported, Unavailable, EnvironmentFailed: it cannot be started.
    """
    spec = attrs.evolve(spec, topology=TopologySpec(1, 1))
    plan = make_plan(spec, registry)
    prepared = environments.prepare(
        spec.framework, plan.environment, plan.device, python=spec.python, env=spec.env
    )
    request = plan.request("conformance", prepared.command, spec.env, {"source": spec.data.source})
    with environments.in_use(prepared), tempfile.TemporaryDirectory(prefix="dlperf-conformance-") as folder:
        place = Path(folder)
        for name, content in bundle.contents(request, plan.packages).items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        (place / "probe.py").write_bytes(Path(__file__).with_name("probe.py").read_bytes())
        node = {
            "host": "127.0.0.1",
            "ports": free_ports("127.0.0.1", 6),
            "devices": [f"{plan.device}:0"],
            "interface": "",
        }
        options = dict(plan.framework_options)
        cluster = {"nodes": [node], "device": plan.device, "strategy": spec.strategy, "options": options}
        (place / "cluster.json").write_text(json.dumps(cluster))
        with (place / "log").open("wb") as log:
            try:
                code: int | None = subprocess.run(
                    [*prepared.command, "-I", str(place / "probe.py"), folder],
                    env=worker_environment(os.environ, {"OMP_NUM_THREADS": "1", **spec.env}, {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=place,
                    timeout=PATIENCE,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
        said = (place / "log").read_text(encoding="utf-8", errors="replace")[-8000:]
        try:
            values = json.loads((place / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            ended = (
                f"was still at it after {PATIENCE:.0f} s" if code is None else f"left with exit code {code}"
            )
            values = {"asked": "anything", "error": f"it {ended} without an answer\n{said}"}
    return Answer(values, said)
