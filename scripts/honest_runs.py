"""Count false failures of `window-verified`: correct plugins, in what a CPU offers, at small sizes.

    python scripts/honest_runs.py --output runs.jsonl [--minutes 14] [--seeds 2] torch paddle …

Runs every model in every precision and strategy that the plugin accepts on a CPU, and one by one the other data
sources, compilers, accumulation, dropout and the learning rate policy `warmup`: with one replica in series of many
seeds (`honest_series.py`), with two replicas as `dlperf run` does. Cases that the output already has are left out, so
that an interrupted run goes on. The table at the end counts all runs of the output.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from honest_cases import LENGTHS, SAMPLES, Fields, fields_of, key_of, suite_of, table
from honest_series import run_series, series_of

from dlperf_sdk.results.result import FAIL, INTEGRITY
from dlperf_sdk.results.window_verification import NAME
from dlperf_sdk.testing.subject import verdict

SERIES_SHARE = 0.6
"""Share of the time after which no series goes on, so that two replicas have their turn."""
AT_ONCE = 3
"""Processes of one replica, or cases of two, that run at the same time."""


def run_case(framework: str, fields: Fields, deadline: float) -> dict[str, Any] | None:
    """Run one case, and return its line of the output; None if it is too late to begin.

    Args:
        framework: Name of the plugin.
        fields: Fields of the case: `model` and those that are not the default.
        deadline: Time on the monotonic clock, in seconds, after which no case begins.

    Returns:
        The fields, `framework`, `status` (`refused` if the plugin refuses the case) and, as far as they apply,
        `seconds`, `outcome` and `detail` of `window-verified`, and `failed`, a list of the failed integrity checks.
    """
    if time.monotonic() > deadline:
        return None
    suite, started_at = suite_of(framework), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        known = dict(fields)
        model, source = known.pop("model"), known.get("data")
        if source in SAMPLES:
            SAMPLES[source](Path(folder))
            known["data"] = f"{source}:{folder}"
        spec = suite.spec(model, **LENGTHS, **known)
        refused = suite.refusal(spec)
        line: dict[str, Any] = {"framework": framework, **fields}
        if refused is not None:
            return {**line, "status": "refused", "detail": str(refused)}
        result = suite.run_case(spec)
    line |= {"status": result.status, "seconds": round(time.monotonic() - started_at, 1)}
    if result.failure is not None:
        return {**line, "detail": result.failure.message}
    window = verdict(result, NAME)
    others = [
        f"{one.name}: {one.detail}"
        for one in result.verdicts
        if one.kind == INTEGRITY and one.outcome == FAIL
    ]
    return {**line, "outcome": window.outcome, "detail": window.detail, "failed": others}


def main() -> None:
    """Run the cases that the file of `--output` lacks, append their lines to it, and print a table of all lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="JSON Lines, to which the runs are appended"
    )
    parser.add_argument("--minutes", type=float, default=14, help="start nothing after this time")
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each case of one replica")
    parser.add_argument("frameworks", nargs="+", metavar="NAME")
    chosen = parser.parse_args()
    started_at, seconds = time.monotonic(), 60 * chosen.minutes
    deadline = started_at + seconds
    chosen.output.touch()
    lines = [json.loads(text) for text in chosen.output.read_text().splitlines()]
    known = {key_of(line) for line in lines}
    with chosen.output.open("a") as output:

        def add(line: dict[str, Any] | None) -> None:
            if line is not None:
                lines.append(line)
                print(json.dumps(line), file=output, flush=True)

        series = [
            (
                framework,
                {n: c for n, c in cases.items() if key_of({"framework": framework, **c[0]}) not in known},
            )
            for framework in chosen.frameworks
            for cases in series_of(framework, chosen.seeds)
        ]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for done in as_completed(
                [
                    threads.submit(run_series, framework, left, started_at + SERIES_SHARE * seconds)
                    for framework, left in series
                    if left
                ]
            ):
                for line in done.result():
                    add(line)
        every = itertools.zip_longest(
            *(
                [(framework, fields) for fields in fields_of(suite_of(framework))]
                for framework in chosen.frameworks
            )
        )
        waiting = [
            (framework, fields)
            for framework, fields in filter(None, itertools.chain.from_iterable(every))
            if "topology" in fields and key_of({"framework": framework, **fields}) not in known
        ]
        with ProcessPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(run_case, framework, fields, deadline) for framework, fields in waiting]
            for future in as_completed(futures):
                add(future.result())
    print(
        f"{sum(future.result() is None for future in futures)} cases of two replicas are left",
        file=sys.stderr,
    )
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
