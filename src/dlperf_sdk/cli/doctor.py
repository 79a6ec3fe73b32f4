"""`doctor`: whether this machine can measure, and what would improve its measurements."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

import dlperf_sdk
from dlperf_sdk.cli.listing import load_error
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show
from dlperf_sdk.errors import DlperfError, PluginError
from dlperf_sdk.reports.blocks import Cell, Column, Heading, Labels, Table, Tone
from dlperf_sdk.reports.numbers import format_count, quantity
from dlperf_sdk.spec.strategy import STRATEGIES

GOOD, ADVICE, BROKEN = "ok", "advice", "broken"
_MARKS: dict[str, tuple[str, Tone]] = {GOOD: ("✓", "good"), ADVICE: ("!", "doubt"), BROKEN: ("✗", "bad")}
_NOT_READY = 3

ROOM = 10 * 2**30
"""Bytes that should be free for environments. One with CUDA packages takes 5 to 8 GB."""
QUIET = 0.2
"""Load per processor above which other processes affect the numbers."""


@frozen
class Finding:
    """Outcome of one check of the machine."""

    name: str
    """What was checked."""
    outcome: str
    """`ok`, `advice` (it could be better) or `broken` (something cannot be measured)."""
    detail: str
    """What was found."""
    advice: str = ""
    """What to do, in a sentence; empty without any."""


@command
def doctor(*, common: Common = AS_USUAL) -> int:
    """Check this machine: what works, what is missing, and what would disturb measurements.

    The exit code is 3 if it cannot measure.
    """
    findings = [finding for check in CHECKS for finding in check()]
    broken = [finding for finding in findings if finding.outcome == BROKEN]
    advice = [finding for finding in findings if finding.advice]
    if common.json:
        emit({"ready": not broken, "findings": [attrs.asdict(finding) for finding in findings]})
        return _NOT_READY if broken else 0
    rows = []
    for finding in findings:
        mark, tone = _MARKS[finding.outcome]
        rows.append((Cell(f"{mark} {finding.outcome}", tone), finding.name, finding.detail))
    verdict = (
        Cell("ready", "good")
        if not broken
        else Cell(f"not ready: {', '.join(finding.name for finding in broken)}", "bad")
    )
    blocks: list[Any] = [
        Heading("dlperf doctor", verdict),
        Table((Column(""), Column("what"), Column("finding")), tuple(rows)),
    ]
    if advice:
        blocks += [Heading("What to do"), Labels(tuple((finding.name, finding.advice) for finding in advice))]
    show(blocks)
    return _NOT_READY if broken else 0


def _interpreter() -> Iterator[Finding]:
    yield Finding("dlperf-sdk", GOOD, f"{dlperf_sdk.__version__} in {Path(dlperf_sdk.__file__).parent}")
    yield Finding(
        "python", GOOD, f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    )


def _uv() -> Iterator[Finding]:
    from dlperf_sdk.environments.installer import uv_binary

    try:
        uv = uv_binary()
        version = subprocess.run(
            [uv, "--version"], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()
    except DlperfError as error:
        yield Finding("uv", BROKEN, "not found", str(error))
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding(
            "uv",
            BROKEN,
            f"does not run: {error}",
            "Reinstall it: `python -m pip install --force-reinstall uv`.",
        )
    else:
        yield Finding("uv", GOOD, f"{version}, {uv}")


def _plugins() -> Iterator[Finding]:
    from dlperf_sdk.registry.groups import GROUPS
    from dlperf_sdk.registry.plugins import Registry

    registry = Registry()
    for group in GROUPS:
        names, works = registry.names(group), []
        for name in names:
            error = load_error(registry, group, name)
            if error is None:
                works.append(name)
            else:
                yield Finding(group, BROKEN, f"{name} does not work", error)
        if works:
            yield Finding(group, GOOD, ", ".join(works))
        elif not names and not GROUPS[group].is_optional:
            yield Finding(
                group,
                BROKEN,
                f"no {GROUPS[group].singular} is installed",
                f"Install one: a distribution with the entry point dlperf_sdk.{group}.",
            )


def _pythons() -> Iterator[Finding]:
    from dlperf_sdk.environments import interpreters
    from dlperf_sdk.registry.plugins import Registry

    registry = Registry()
    for name in registry.names("frameworks"):
        try:
            framework = registry.framework(name)
        except DlperfError:  # reported among the plugins
            continue
        try:
            with registry.wrap_plugin_errors("frameworks", name, "say which Python it runs on"):
                device = min(framework.capabilities.devices)
                model = min(framework.trainers, default="")
                required = framework.environment(device, STRATEGIES.default, model).python
            interpreter = interpreters.find(required, os.environ)
        except PluginError as error:
            yield Finding(f"python for {name}", BROKEN, f"{name} does not name its Python", str(error))
            continue
        except DlperfError as error:
            yield Finding(f"python for {name}", ADVICE, "none that it runs on", str(error))
            continue
        yield Finding(
            f"python for {name}", GOOD, f"{interpreter.version}, {interpreter.path} (it takes {required})"
        )


def _cache() -> Iterator[Finding]:
    from dlperf_sdk.environments import managed, marker

    try:
        home = managed.home()
    except DlperfError as error:
        yield Finding("cache", BROKEN, "cannot be used", str(error))
        return
    free = shutil.disk_usage(home).free
    detail = f"{quantity(free, 'B')} free, {home}"
    if free < ROOM:
        yield Finding(
            "cache",
            ADVICE,
            detail,
            f"An environment can take several GB. Free {quantity(ROOM, 'B')}, remove old ones "
            "(`dlperf env list`), or set DLPERF_CACHE_DIR to a roomier place.",
        )
    else:
        yield Finding("cache", GOOD, detail)
    if environments := [folder.name for folder in sorted(home.iterdir()) if marker.read(folder) is not None]:
        command = f"dlperf env verify {environments[0] if len(environments) == 1 else 'NAME'}"
        detail = f"{', '.join(environments)}; files are not verified here: `{command}` does it"
        yield Finding("environments", GOOD, detail)


def _gpus() -> Iterator[Finding]:
    from dlperf_sdk.worker.gpu import gpus

    devices = gpus.list_gpus()
    if not devices:
        yield Finding("gpus", GOOD, "none (no NVIDIA driver answers); cases run on the processors")
    for gpu in devices:
        size = "" if gpu.memory is None else f", {quantity(gpu.memory, 'B')}"
        detail = f"{gpu.name or 'unnamed'}{size}, driver {gpu.driver or 'unknown'}"
        holders = gpus.holders(gpu.uuid)
        if holders:
            users = ", ".join(
                f"process {holder.pid} ({holder.name})" if holder.pid else holder.name for holder in holders
            )
            yield Finding(
                f"gpu {gpu.number}",
                ADVICE,
                f"{detail}; held by {users}",
                f"GPU {gpu.number}: end the processes that use it, or choose another GPU.",
            )
        else:
            yield Finding(f"gpu {gpu.number}", GOOD, f"{detail}; idle")


def _processors() -> Iterator[Finding]:
    from dlperf_sdk.worker.agent import hardware

    facts = hardware.describe()
    cpu = facts.get("cpu", {})
    usable = cpu.get("usable", 1)
    detail = (
        f"{cpu.get('model', 'unknown')}, {usable} of {format_count(cpu.get('logical', usable), 'processor')}"
    )
    limit = cpu.get("limit")
    if limit is not None and limit < usable:
        yield Finding(
            "processors",
            ADVICE,
            f"{detail}, limited to the time of {limit:g}",
            "A control group throttles this container: ask for whole processors, or the numbers will wander.",
        )
    else:
        yield Finding("processors", GOOD, detail)
    nodes = facts.get("numa_nodes")
    if nodes is not None:
        yield Finding("numa", GOOD, format_count(nodes, "node"))
    yield from _governor(cpu)
    yield from _load(facts.get("load"), usable)
    memory = facts.get("memory_limit") or facts.get("memory")
    if memory is not None:
        yield Finding("memory", GOOD, quantity(memory, "B"))


def _governor(cpu: dict[str, Any]) -> Iterator[Finding]:
    governor = cpu.get("governor")
    if governor is None:
        yield Finding("governor", GOOD, "not to be seen from here (a virtual machine or container)")
    elif governor == "performance":
        yield Finding("governor", GOOD, governor)
    else:
        yield Finding(
            "governor",
            ADVICE,
            governor,
            "The clock follows the load. `cpupower frequency-set -g performance` (as root) steadies it.",
        )


def _load(load: list[float] | None, usable: int) -> Iterator[Finding]:
    if not load:
        return
    detail = f"load {load[0]:.2f} on {format_count(usable, 'processor')}"
    if load[0] > max(QUIET * usable, QUIET):
        yield Finding(
            "quietness", ADVICE, detail, "Other processes are at work: end them, or expect a wide spread."
        )
    else:
        yield Finding("quietness", GOOD, detail)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _interpreter,
    _uv,
    _plugins,
    _pythons,
    _cache,
    _gpus,
    _processors,
)
