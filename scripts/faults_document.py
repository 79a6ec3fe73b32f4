"""Write docs/explanation/faults.md from the table of planted faults in tests/faults/faults.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "faults"))

import faults  # noqa: E402

HEAD = """\
# Planted faults

This page lists deliberate faults in plugins and trainers, and the check that detects each of them. Use it to judge
what the conformance suite and the verdicts of a run can detect.

Each fault changes a few lines of a correct implementation (`tests/faults/`). A *toy plugin* trains a small model in
NumPy. The columns of the tables are:

- planted in: the faulty toy plugin, or the class of the faulty torch trainer
- detected by: the test of the conformance suite, the check of a run, or the kind of failure. It must detect the
  fault, and every correct implementation must pass
- message: a part of the detector's message, which shows that the fault is detected for the right reason

Steps are counted from 0. `make test` runs the faults that need no training, `make test-long` all others; both print
how many were detected. `scripts/faults_document.py` generates this page.

"""
TAIL = """\

## Faults that no check detects

To find these faults, somebody must read the worker half.

- A worker half that behaves correctly only while it is checked. For example, it recognizes the parity program or
  the sizes of a reference case. Or it leaves out work in the window so that its state and losses still change, and
  works correctly again after the reset.
- In the window, a fault that changes the losses after the reset by less than 5 % of the loss's change in the first
  steps: a small tensor without updates, no weight decay, coarser arithmetic.
- Batches of the window that were already loaded when it began.
- A step of the window that trains on another batch than the loader returned, or on correct labels with other images
  or tokens.
- A worker half that falsifies its record in other fields than the window's length, shortens that length by no more
  than about a second, or reports wrong phases to its agent.
- Gradient accumulation that is computed as one large batch.
- Errors in code that runs only in a narrow precision, if they are smaller than the rounding of that precision
  ([parity](parity.md) lists the known ones).
- ResNet-50 in fp32, if its gradients are rounded to fp16 for their exchange. The same fault in BERT is detected.
- Dropout at another rate, in other places, or with masks that are drawn once and reused.
- Compiler errors that occur in a narrow precision and at some sizes only, or in a narrow precision with several
  threads. (In fp32, BERT is checked at a width of 768 with all cores.)
- A `synchronize` that waits for the loss only, if the runtime's clock does not use events.
- Files left outside TMPDIR and /dev/shm, and System V shared memory.
- An out-of-memory error of the framework that is not recognized, on a device other than a CPU, or if NumPy or the
  interpreter raises an error first.
- An input pipeline that decodes less than it reports.
- A learning-rate schedule that keeps a constant rate.
- A plausible but wrong report of device memory, versions, compiler or layout, because only the plugin knows these.
"""
PARTS = (
    (
        "Detected by the conformance suite",
        "tests of `dlperf_sdk.testing`; toy plugins",
        faults.BY_CONFORMANCE,
    ),
    (
        "Detected by a verdict of every run",
        "checks of every result; toy plugins, two replicas. Exception: `exchange-in-pairs` has four replicas",
        faults.BY_VERDICT,
    ),
    (
        "Detected by verifying the window",
        "the check `window-verified` of every result; toy plugins, two replicas and two repeats. Exception: "
        "`works-after-window` has one replica and three repeats",
        faults.BY_WINDOW,
    ),
    (
        "Detected by verifying the window: torch",
        "the check `window-verified` of every result; ResNet-50 and BERT-Base at small sizes, one or two replicas",
        faults.BY_WINDOW_OF_TORCH,
    ),
    (
        "Detected by the agent in every run",
        "the kind of the run's failure; toy plugins, one replica, a window of at least 2.6 s",
        faults.BY_AGENT,
    ),
    ("Detected by parity", "the check `parity`; toy plugins, two replicas", faults.BY_PARITY),
    (
        "Detected by parity: torch",
        "the check `parity`; the case `small` of ResNet-50 and BERT-Base, one replica, fp32 unless the fault names "
        "another precision",
        faults.BY_TRAJECTORY,
    ),
    (
        "Detected by parity: torch, two replicas",
        "the check `parity`; the case `small` of ResNet-50, two replicas that communicate with gloo",
        faults.BY_PAIR,
    ),
    (
        "Detected by the conformance suite: torch",
        "tests of `dlperf_sdk.testing` with other settings: gradient accumulation in BERT-Base, and the reference case "
        "`gamma` of ResNet-50, in which every convolution has a gradient from the first step on",
        faults.BY_OTHER_CASES,
    ),
)
"""Heading, conditions of the tests, and the faults."""


def document() -> str:
    """Return the text of the page docs/explanation/faults.md, from the table of planted faults."""
    parts = [_part(*part) for part in PARTS]
    return HEAD + f"{len(faults.ALL)} faults.\n\n" + "\n".join(parts) + TAIL


def _part(title: str, conditions: str, rows: tuple[faults.Fault, ...]) -> str:
    lines = [f"| {row.description} | `{row.plugin}` | `{row.detector}` | {row.message} |" for row in rows]
    head = [
        f"## {title}",
        "",
        f"{conditions[0].upper()}{conditions[1:]}.",
        "",
        "| fault | planted in | detected by | message |",
    ]
    return "\n".join([*head, "|---|---|---|---|", *lines]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "explanation" / "faults.md").write_text(document(), encoding="utf-8")
