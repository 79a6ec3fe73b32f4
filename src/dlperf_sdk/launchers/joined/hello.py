"""The first message of a process to rank 0: its seat, its cases, and what it may use of its node."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from dlperf_sdk.launchers.joined.job_kinds import Seat
from dlperf_sdk.spec.run_spec import RunSpec


def introduce(seat: Seat, cases: Sequence[RunSpec], secret: str) -> dict[str, Any]:
    """Return the message with which this process introduces itself to rank 0, as JSON values.

    Its keys are `event` (`hello`), `job` (a list of kind, nodes and processes per node), `seat` (a list of node and
    local rank), `host` (this machine's name), `digests` (name of a field of run specs → digest of its values in the
    cases), `cpus` (numbers of the processors that this process may use) and `devices` (`CUDA_VISIBLE_DEVICES`, or
    null). By the digests, rank 0 sees whether all processes were started with the same cases.

    Args:
        seat: This process's place in the job.
        cases: The cases that this process was started with.
        secret: The secret of the job. It is the key of the digests, and not itself in the message.
    """
    return {
        "event": "hello",
        "job": [seat.kind.name, seat.nodes, seat.local_size],
        "seat": [seat.node, seat.local_rank],
        "host": socket.gethostname(),
        "digests": _digest_cases(cases, secret),
        "cpus": sorted(os.sched_getaffinity(0)),
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _digest_cases(cases: Sequence[RunSpec], secret: str) -> Mapping[str, str]:
    """Return name of a field → digest of the values that the field has in the cases, 16 hexadecimal digits.

    The digests need the secret, so that someone who reads them on the network cannot find a value by trying.

    Args:
        cases: The cases.
        secret: The secret of the job.
    """
    documents = [case.to_dict() for case in cases]
    values = {
        name: json.dumps([document.get(name) for document in documents], sort_keys=True)
        for name in sorted({name for document in documents for name in document})
    }
    return {
        name: hmac.new(secret.encode(), value.encode(), hashlib.sha256).hexdigest()[:16]
        for name, value in values.items()
    }
