"""Series of measured cases of one replica: many seeds, one process for each framework, precision and compiler.

That process does what a worker does from the start of its runtime to its record, again and again. It imports the
framework once, so that hundreds of cases take minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from honest_cases import LENGTHS, SAMPLES, Fields, fields_of, suite_of

from dlperf_sdk import data, environments
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import record_from_dict
from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL
from dlperf_sdk.results.verdicts import integrity_of
from dlperf_sdk.results.window_verification import NAME
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.variables import worker_environment

PROGRAM = Path(__file__).with_name("honest_worker.py")
GRACE = 30
"""Seconds behind the deadline after which a series is ended."""


def series_of(framework: str, seeds: int) -> Iterator[dict[str, tuple[Fields, Plan]]]:
    """Yield each series as a dict from the name of a case, such as `case-0`, to the tuple (fields, plan) of the case.

    A series is all cases with one precision and one compiler that have one replica and that the plugin accepts. The
    longest series comes first.

    Args:
        framework: Name of the plugin.
        seeds: Number of seeds of each case that is not compiled; a compiled case has one.
    """
    suite, registry = suite_of(framework), Registry()
    every: dict[tuple[str, str], dict[str, tuple[Fields, Plan]]] = defaultdict(dict)
    for fields in fields_of(suite):
        for seed in range(1 if "compiler" in fields else seeds):  # compiling takes up to a minute
            known = {"precision": "fp32", **fields, "repeats": 1, "seed": seed, "series": True}
            changes = {name: known[name] for name in known if name not in ("model", "data", "series")}
            spec = suite.spec(fields["model"], **LENGTHS, **changes)
            if spec.topology.devices == 1 and suite.refusal(spec) is None:
                own = every[spec.precision, spec.compiler]
                own[f"case-{len(own)}"] = known, make_plan(spec, registry)
    yield from sorted(every.values(), key=len, reverse=True)


def run_series(
    framework: str, cases: Mapping[str, tuple[Fields, Plan]], deadline: float
) -> list[dict[str, Any]]:
    """Run the cases of a series in one process of the framework's environment; return a line of the output for each.

    A line is a dict with the case's fields, `framework`, `status`, and `outcome` and `detail` of `window-verified`. A
    case without a record is reported on standard error and has no line. There are no lines after the deadline.

    Args:
        framework: Name of the plugin.
        cases: The cases, as `series_of` yields them; at least one.
        deadline: Time on the monotonic clock, in seconds. The process does not begin after it, and is ended `GRACE`
            (30) seconds after it.

    Raises:
        EnvironmentFailed: The environment cannot be created.
    """
    lines: list[dict[str, Any]] = []
    if time.monotonic() > deadline:
        return lines
    first = next(iter(cases.values()))[1]
    prepared = environments.prepare(framework, first.environment, "cpu")
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        requests = {}
        for source, write in SAMPLES.items():
            (folder / source).mkdir()
            write(folder / source)
        for name, (fields, plan) in cases.items():
            chosen = fields.get("data", "synthetic")
            place = DataSpec(chosen, str(folder / chosen) if chosen in SAMPLES else None)
            content = data.prepare(place, plan.model_options, plan.inputs, seed=plan.spec.seed)
            requests[name] = plan.request(name, prepared.command, {}, content)
        for file, code in bundle.contents(next(iter(requests.values()))).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(code)
        documents = {name: request.to_dict() for name, request in requests.items()}
        (folder / "requests.json").write_text(json.dumps(documents))
        with environments.use_environment(prepared), contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*prepared.command, "-I", str(PROGRAM), str(folder)],
                env=worker_environment(os.environ, {"OMP_NUM_THREADS": "1"}, {}),
                check=False,
                timeout=deadline - time.monotonic() + GRACE,
            )
        for name, (fields, plan) in cases.items():
            record = folder / name / "record.json"
            if record.exists():
                lines.append(_judge_record({"framework": framework, **fields}, plan, record))
            else:
                print(f"{framework} {fields}: no record", file=sys.stderr)
    return lines


def _judge_record(line: Fields, plan: Plan, path: Path) -> dict[str, Any]:
    """Return the line of a case, with the verdict on its record."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    if plain["status"] != "ok":
        return {**line, "status": plain["failure"]["kind"], "detail": plain["failure"]["message"]}
    spec = plan.spec
    expected = Expected(
        request=plain["request"],
        ranks=1,
        replicas=1,
        batch_size=spec.batch_size,
        precision=spec.precision,
        strategy=spec.strategy,
        protocol=plan.protocol,
        learning_rate_policy=spec.learning_rate_policy,
        compiler=spec.compiler,
        layout=spec.layout,
        has_dropout=bool(plan.model_options.get("dropout")),
    )
    verdicts = integrity_of((Repeat(1, (record_from_dict(plain),)),), expected)
    window = next(one for one in verdicts if one.name == NAME)
    failed = [f"{one.name}: {one.detail}" for one in verdicts if one.outcome == FAIL]
    return {**line, "status": "ok", "outcome": window.outcome, "detail": window.detail, "failed": failed}
