"""The cases of `honest_runs.py`: what a CPU offers, at small sizes; and the table that counts their outcomes."""

from __future__ import annotations

import collections
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, PASS
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES
from dlperf_sdk.testing import FrameworkConformance, samples

MODELS = {"resnet50": "images", "bert-base": "text"}
"""Model → its data source of real data."""
SAMPLES = {"images": samples.write_images, "text": samples.write_sentences}
LENGTHS = {"warmup": 3, "steps": 6}
REPEATS = 3
"""Repeats of the plainest cases: with fewer, the durations of the audit are not compared."""
Fields = dict[str, Any]


def suite_of(framework: str) -> FrameworkConformance:
    """Return a conformance suite of a framework's plugin on a CPU, which makes and runs small cases of the plugin.

    `framework` is the name of an installed plugin.
    """
    members = {"framework": framework, "device": "cpu"}
    suite: FrameworkConformance = type("Suite", (FrameworkConformance,), members)()
    return suite


def fields_of(suite: FrameworkConformance) -> Iterator[Fields]:
    """Yield a dict of fields for each case to run with a plugin: name of a field of the run spec → value.

    The dict has `model`, and those fields whose value is chosen here, such as `precision` or `strategy`.

    Args:
        suite: The suite of the plugin, whose declared values are used.
    """
    can = suite.plugin.capabilities
    compilers = sorted(can.compilers - {NONE})
    dropout: Fields = {"options": {"dropout": 0.1}}
    topologies: list[Fields] = [
        {},
        *({"topology": "1n2d", "strategy": name} for name in sorted(can.strategies)),
    ]
    for model, real in MODELS.items():
        for precision, topology in itertools.product(sorted(can.precisions), topologies):
            repeats = REPEATS if precision == PRECISIONS.default and not topology else 1
            yield {"model": model, "precision": precision, "repeats": repeats, **topology}
        special: list[Fields] = [
            *({"data": source} for source in ("synthetic-host", real)),
            *({"compiler": name} for name in compilers),
            {"accumulation": 2},
            {"learning_rate_policy": "warmup"},
            *(
                [dropout, *({**dropout, "compiler": name} for name in compilers)]
                if model == "bert-base"
                else []
            ),
        ]
        meeting = {
            "topology": "1n2d",
            "strategy": min(n for n in can.strategies if STRATEGIES[n].syncs_gradients),
        }
        for fields, topology in itertools.product(special, ({}, meeting)):
            yield {"model": model, **fields, **topology}


def key_of(line: Fields) -> str:
    """Return a text that identifies a case in the output: its fields as sorted JSON, without those of its outcome.

    `line` has the fields of the case, and may have those of its outcome.
    """
    known = {
        name: value
        for name, value in line.items()
        if name not in ("status", "seconds", "outcome", "detail", "failed")
    }
    return json.dumps(known, sort_keys=True)


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of a Markdown table of the verdicts `window-verified` by framework, then paragraphs of details.

    The details are each reason of inconclusive verdicts with their number, and each run that failed, as JSON.

    Args:
        lines: Lines of the output, as `honest_runs.run_case` returns them.
    """
    runs = [line for line in lines if "outcome" in line]
    yield "| framework | runs | pass | inconclusive | fail |"
    yield "|---|---|---|---|---|"
    for framework in [*dict.fromkeys(line["framework"] for line in runs), None]:
        own = collections.Counter(line["outcome"] for line in runs if framework in (None, line["framework"]))
        counts = " | ".join(str(count) for count in (own.total(), own[PASS], own[INCONCLUSIVE], own[FAIL]))
        yield f"| {framework or 'all'} | {counts} |"
    reasons = collections.Counter(
        (line["framework"], re.sub(r"\d[\d.e+-]*", "#", line["detail"]).partition(" (repeat")[0])
        for line in runs
        if line["outcome"] == INCONCLUSIVE
    )
    yield from (f"\n{count} {framework}: {reason}" for (framework, reason), count in sorted(reasons.items()))
    for line in lines:
        if line.get("outcome") == FAIL or line.get("failed") or line["status"] not in ("ok", "refused"):
            yield f"\n{json.dumps(line)}"
