"""Attribution of a step against a framework whose parts take known times (`paced_toy.py`).

    .venv/bin/python benchmarks/attribution.py

All parts of one case on two devices are measured as `dlperf run --only` does it, seven times each. The table has the
known times and the attribution with its intervals. Sleeping ends late, never early, on a machine that does other work
too: run it on an idle one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import paced_toy
from dlperf_numpy.framework import NumPy

from dlperf_sdk import run
from dlperf_sdk.analysis import attribute
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports import attribution, terminal
from dlperf_sdk.spec.part import PARTS


class Paced(NumPy):
    """Controller half of the framework."""

    name = "paced"
    runtime = "paced_toy:Runtime"
    trainers = {"linear": "paced_toy:Linear"}  # noqa: RUF012 - as in every plugin
    packages = ("dlperf_numpy", "paced_toy")


KNOWN = {
    "compute": paced_toy.COMPUTE,
    "communication": paced_toy.EXPOSED,
    "input_stall": paced_toy.INPUT,
    "communication_alone": paced_toy.EXCHANGE,
    "input_alone": paced_toy.INPUT,
    "step": paced_toy.COMPUTE + paced_toy.EXPOSED + paced_toy.INPUT,
}
"""Field of an attribution → seconds."""


def main() -> None:
    """Measure the parts, and print what was found beside what is known."""
    registry = Registry(extra={"frameworks": {"paced": Paced}})
    with tempfile.TemporaryDirectory() as folder:
        results = [
            run(
                "paced",
                "linear",
                topology="1n2d",
                data="python-queue",
                part=part.name,
                warmup=5,
                steps=30,
                repeats=7,
                registry=registry,
                store=Path(folder),
                progress=False,
            )
            for part in PARTS
        ]
        (found,) = attribute(results)
        print(terminal.text_of(attribution.tables(results)))
    print(f"{'part':<20} {'known, ms':>10} {'found, ms':>10}  95 % interval, ms")
    for name, seconds in KNOWN.items():
        span = getattr(found, name)
        print(
            f"{name.replace('_', ' '):<20} {seconds * 1e3:>10.2f} {span.seconds * 1e3:>10.2f}"
            f"  {span.low * 1e3:.2f} to {span.high * 1e3:.2f}"
        )


if __name__ == "__main__":
    main()
