"""The script that counts false failures: its cases, a series in one process, and the table."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import honest_cases
import honest_series


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_cases_use_declared_values(framework):
    suite = honest_cases.suite_of(framework)
    cases, can = list(honest_cases.fields_of(suite)), suite.plugin.capabilities
    for field, declared in (("precision", can.precisions), ("strategy", can.strategies)):
        for model in honest_cases.MODELS:
            assert {case[field] for case in cases if case["model"] == model and field in case} == declared
    keys = [honest_cases.key_of(case) for case in cases]
    assert len(keys) == len(set(keys))


def test_a_series_has_a_verdict_for_each_case():
    seeds = {}
    for seed in range(2):
        spec = RunSpec(
            framework="numpy", model="linear", batch_size=4, warmup=1, steps=3, repeats=1, seed=seed
        )
        seeds[f"case-{seed}"] = {"model": "linear", "seed": seed}, make_plan(spec, Registry())
    lines = honest_series.run_series("numpy", seeds, time.monotonic() + 300)
    assert [(line["seed"], line["status"], line["outcome"]) for line in lines] == [
        (0, "ok", "pass"),
        (1, "ok", "pass"),
    ]
    assert honest_series.run_series("numpy", seeds, time.monotonic()) == []


def test_the_table_counts_and_gives_reasons():
    line = {"framework": "torch", "status": "ok", "failed": []}
    doubt = {**line, "outcome": "inconclusive", "detail": "There is no audit (repeat 1). Compared: 3"}
    wrong = {**line, "outcome": "fail", "detail": "2 of 2 parameters did not change"}
    rows = list(honest_cases.table([{**line, "outcome": "pass", "detail": "fine"}, doubt, doubt, wrong]))
    assert "| torch | 4 | 1 | 2 | 1 |" in rows
    assert "\n2 torch: There is no audit" in rows
    assert "did not change" in rows[-1]
