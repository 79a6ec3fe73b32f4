"""The identity of a case: what two runs share if they measure the same thing."""

from __future__ import annotations

import hashlib
import json

import attrs

from dlperf_sdk.spec.run_spec import RunSpec


def identity(spec: RunSpec) -> str:
    """Return a text that identifies a case, as a JSON object with sorted keys.

    The object has the spec's fields with the role `workload` or `factor`, and `data`, the name of the data source
    without its folder.
    """
    plain = spec.to_dict()
    names = [field.name for field in attrs.fields(RunSpec) if field.metadata["role"] != "context"]
    return json.dumps({name: plain[name] for name in names} | {"data": spec.data.source}, sort_keys=True)


def window(spec: RunSpec) -> str:
    """Return a phrase that identifies a repeat's window, such as `100 measured steps after 25 others`.

    The other steps are the canonical and the warm-up steps. The throughputs of different windows are not compared,
    because first steps are slower than later ones.
    """
    protocol = spec.resolved_protocol()
    before = protocol.canonical_steps + protocol.warmup
    return f"{protocol.steps} measured steps after {before} others"


def case_key(spec: RunSpec) -> str:
    """Return a key of 12 hexadecimal digits, which is equal for runs of the same case with the same window.

    Two specs have the same key if they have the same fields with the role `workload` or `factor`, the same data source,
    the same number of measured steps, and the same number of steps before these.
    """
    return hashlib.sha256(f"{identity(spec)} {window(spec)}".encode()).hexdigest()[:12]
