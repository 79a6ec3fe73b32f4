"""Planning a large campaign: time, memory, and how they grow with the number of cases.

    python benchmarks/campaign.py

A matrix over every kind of axis is planned against the installed plugins: cases are made, checked, told from equal
ones, and judged by the plugins. Each size runs in a process of its own, so that the peak of memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

SIZES = (1_000, 10_000, 100_000)


def _matrix_of(count: int):
    """A matrix of so many cases, some of which are excluded or cannot be run."""
    from dlperf_sdk import Matrix

    axes = {
        "framework": ["numpy", "faulty"],
        "topology": ["1n1d", "1n2d", "2n1d", "2n2d", "1n4d"],
        "precision": ["fp32", "amp-bf16"],
        "strategy": ["all_reduce", "independent"],
        "batch_size": [1, 2, 4, 8, 16],
    }
    per_seed = 200
    return Matrix(
        fields={"model": "linear", "protocol": "quick"},
        axes={**axes, "seed": list(range(count // per_seed))},
        exclude=[{"framework": "faulty", "batch_size": {"min": 16}, "nodes": {"not": 1}}],
    )


def measure(count: int) -> None:
    """Plan a campaign of `count` cases, and print its costs as JSON."""
    from dlperf_sdk.campaigns.campaign import make_campaign
    from dlperf_sdk.campaigns.planning import plan_campaign
    from dlperf_sdk.registry.plugins import Registry

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_at, spent = time.perf_counter(), time.process_time()
    _, entries = plan_campaign(make_campaign(_matrix_of(count), max_cases=count), Registry())
    print(
        json.dumps(
            {
                "cases": len(entries),
                "skipped": sum(entry.refusal is not None for entry in entries),
                "seconds": time.perf_counter() - started_at,
                "processor_seconds": time.process_time() - spent,
                "mebibytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
            }
        )
    )


def main() -> None:
    """Measure every size in a process of its own; print a line for each, and how time and memory grow."""
    actual = []
    for size in SIZES:
        command = [sys.executable, __file__, str(size)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        actual.append(json.loads(answer.stdout))
        print(
            "{cases:>9,} cases, {skipped:,} skipped: {seconds:.2f} s ({processor_seconds:.2f} s of a core), "
            "{mebibytes:.0f} MiB".format(**actual[-1])
        )
    small, large = actual[-2], actual[-1]
    more = large["cases"] / small["cases"]
    print(
        f"{more:.1f} times the cases take {large['processor_seconds'] / small['processor_seconds']:.1f} times the time "
        f"and {large['mebibytes'] / small['mebibytes']:.1f} times the memory"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
