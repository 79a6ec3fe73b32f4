"""Description of a campaign's host, and of its changes between two sessions."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from dlperf_sdk import __version__
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent import hardware

_PASSING = ("load", "time")


def describe_host(registry: Registry) -> dict[str, Any]:
    """Return facts about this machine and its software, as JSON values.

    The keys are:

    - `dlperf-sdk` and `python`: their versions.
    - `plugins`: an object with a key per framework and model, its group and name, such as `frameworks torch`. The value
      is a text with the name and version of its distribution.
    - `machine`: an object that describes the hardware: processors, memory, driver, devices and others.
    """
    info: dict[str, Any] = {
        "dlperf-sdk": __version__,
        "python": platform.python_version(),
        "plugins": {
            f"{group} {row.name}": row.distribution
            for group in ("frameworks", "models")
            for row in registry.rows(group)
        },
        "machine": {key: value for key, value in hardware.describe().items() if key not in _PASSING},
    }
    return info


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each value that differs between two results of `describe_host`; empty if none does."""
    old, new = _flatten(before), _flatten(now)
    sentences = []
    for name in sorted({*old, *new}):
        old_value, new_value = old.get(name), new.get(name)
        if old_value == new_value:
            continue
        if name == "machine.boot_id":
            sentences.append("The machine was rebooted.")
        else:
            sentences.append(f"{name}: {_format_value(old_value)} before, {_format_value(new_value)} now.")
    return sentences


def _flatten(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        entries = [_flatten(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()]
        return {key: item for entry in entries for key, item in entry.items()}
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        entries = [_flatten(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return {key: item for entry in entries for key, item in entry.items()}
    return {name: list(value) if isinstance(value, tuple) else value}


def _format_value(value: Any) -> str:
    return "absent" if value is None else str(value)
