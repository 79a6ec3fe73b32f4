"""Start the probe: the workers of a case on one node, in the framework's environment, without agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent.affinity import thread_variables
from dlperf_sdk.worker.gpu.devices import visible
from dlperf_sdk.worker.network import free_ports
from dlperf_sdk.worker.processes import TRAINER, Process, cluster_from
from dlperf_sdk.worker.request import resolve
from dlperf_sdk.worker.variables import worker_environment

PATIENCE = 600.0
"""Seconds that a probe may take, the compiling of a network included."""
GRACE = 10.0
"""Seconds that the others may take once one has failed."""
UNSAID = "anything"
"""What a trainer was asked that died without an answer."""
NO_END = "an end"
"""What one was asked that never came to it."""


@frozen
class Answer:
    """What one trainer answered."""

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


def probe(
    spec: RunSpec, registry: Registry, questions: str = "life", patience: float = PATIENCE
) -> tuple[Answer, ...]:
    """Ask the trainers of a case on one node, all at once; their answers by rank.

    `questions`: see the probe; `patience`: the seconds after which those that have not ended are ended.

    Raises:
        Unsupported, Unavailable, EnvironmentFailed: it cannot be started.
    """
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
        for name in ("probe.py", "probe_times.py"):
            (place / name).write_bytes(Path(__file__).with_name(name).read_bytes())
        cluster = _cluster(plan)
        (place / "cluster.json").write_text(json.dumps(cluster))
        processes: list[Process] = resolve(plan.processes)(cluster_from(cluster))
        started = []
        try:
            for number, process in enumerate(processes):
                started.append(
                    _started(prepared.command, place, (str(number), questions), _variables(plan, process))
                )
            _wait(started, processes, patience)
            hung = {number for number, one in enumerate(started) if one.poll() is None}
        finally:
            for one in started:
                if one.poll() is None:
                    os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        return tuple(
            _answer(place, number, None if number in hung else started[number].returncode)
            for number, process in sorted(enumerate(processes), key=lambda pair: pair[1].rank or 0)
            if process.role == TRAINER
        )


def _cluster(plan: Plan) -> dict[str, Any]:
    """One node with the case's devices, and free ports."""
    count = plan.spec.topology.devices_per_node
    node = {
        "host": "127.0.0.1",
        "ports": free_ports("127.0.0.1", 2 * count + 4),
        "devices": [f"{plan.device}:{device}" for device in range(count)],
        "interface": "",
    }
    options = dict(plan.framework_options)
    return {"nodes": [node], "device": plan.device, "strategy": plan.spec.strategy, "options": options}


def _variables(plan: Plan, process: Process) -> dict[str, str]:
    """The worker's: one thread unless the spec has another number, the spec's, its own of the devices that this shell
    sees, the plugin's."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = (
        seen.split(",") if seen else [str(device) for device in range(1 + max(process.devices, default=0))]
    )
    own = visible(plan.device, [names[device] for device in process.devices]) if process.devices else {}
    return worker_environment(
        os.environ, {**thread_variables(1), **plan.spec.env}, {**own, **process.variables}
    )


def _started(
    command: Sequence[str], place: Path, what: tuple[str, str], variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with (place / f"log-{what[0]}").open("wb") as log:
        return subprocess.Popen(
            # Where it dies in native code, its log says which line of Python called that.
            [*command, "-I", "-X", "faulthandler", str(place / "probe.py"), str(place), *what],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=place,
            start_new_session=True,
        )


def _wait(started: Sequence[subprocess.Popen[bytes]], processes: Sequence[Process], patience: float) -> None:
    """Until all trainers have ended, or one has failed and the others had their time to notice."""
    trainers = [one for one, process in zip(started, processes, strict=True) if process.role == TRAINER]
    until = time.monotonic() + patience
    while time.monotonic() < until:
        ended = [one.poll() for one in trainers]
        if None not in ended:
            return
        if any(ended):
            until = min(until, time.monotonic() + GRACE)
        time.sleep(0.05)


def _answer(place: Path, number: int, code: int | None) -> Answer:
    """What there is of one; `code` is None where it had to be ended."""
    said = (place / f"log-{number}").read_text(encoding="utf-8", errors="replace")[-8000:]
    try:
        values = json.loads((place / f"answer-{number}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if code is None:
            return Answer(
                {"asked": NO_END, "error": f"{said.rstrip()}\nit went on, and had to be ended"}, said
            )
        ended = f"left with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        values = {"asked": UNSAID, "error": f"{said.rstrip()}\nit {ended} without an answer"}
    return Answer(values, said)
