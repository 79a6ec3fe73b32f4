"""Small references and records for the tests of parity."""

from __future__ import annotations

from typing import Any

SIGNS = ((1, -1, 1, -1, 1, -1, 1, -1), (1, 1, -1, -1, 1, 1, -1, -1))


def fingerprint(a: float, b: float) -> list[float]:
    """Of the array (a, b), with these signs."""
    return [(a * a + b * b) ** 0.5, *(a * s + b * t for s, t in zip(*SIGNS, strict=True))]


def trajectory(
    scale: float = 1.0, losses: tuple[float, ...] = (4.0, 3.0, 2.0), updates: bool = True
) -> dict[str, Any]:
    return {
        "losses": [loss * scale for loss in losses],
        "updates": {"w": fingerprint(0.3 * scale, 0.1), "b": fingerprint(0.0, 0.2 * scale)}
        if updates
        else {},
        "running_means": {"bn.running_mean": fingerprint(0.5 * scale, -0.5)},
    }


def case(**changes: Any) -> dict[str, Any]:
    """Two replicas on the two shards; a mistake of 10 %, and one of 20 %."""
    shards = (1.0, 1.5)
    created = {
        "options": {"features": 16},
        "batch_size": 4,
        "seed": 0,
        "steps": 3,
        "learning_rate_policy": "constant",
        "noise": {"b": 1e-3},
        "alone": [trajectory(shard) for shard in shards],
        "pair": [trajectory(2.0), trajectory(2.5, updates=False)],
        "mistakes": [
            {"name": "a tenth too much", "topology": "alone", "replicas": [trajectory(1.1)]},
            {
                "name": "a fifth too much",
                "topology": "pair",
                "replicas": [trajectory(2.4), trajectory(3.0, updates=False)],
            },
        ],
    }
    return {**created, **changes}


def tolerance(**changes: Any) -> dict[str, Any]:
    created = {
        "losses": 1e-4,
        "updates": 1e-3,
        "means": 1e-3,
        "least": 0.0,
        "parameter": 1e-3,
        "reason": "for tests",
    }
    return {**created, **changes}


def reference(**changes: Any) -> dict[str, Any]:
    created = {
        "schema_version": "1.0",
        "model": "linear",
        "source": "made up for tests",
        "tolerances": {
            "fp32": tolerance(),
            "amp-bf16": tolerance(least=1e-2, updates=0.2, losses=0.1, parameter=None),
        },
        "cases": {"small": case()},
    }
    return {**created, **changes}


def record(rank: int = 0, **follower: Any) -> dict[str, Any]:
    """A parity record of one replica, which did what `follower` says beside an index and a digest."""
    replica = {"index": rank, "digest": "same", **(follower or trajectory())}
    return {
        "schema_version": "1.0",
        "status": "ok",
        "failure": None,
        "request": "parity-1",
        "attempt": 1,
        "rank": rank,
        "node": 0,
        "replicas": [replica],
        "skipped_steps": 0,
        "facts": {},
        "observed": {},
    }
