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

Each fault changes a few lines of a correct implementation (`tests/faults/`). The test or verdict in the third column
must detect it with a message that contains the text in the last column, and every correct implementation must pass.
Steps are counted from 0. `make test` runs the faults that need no training, `make test-long` all others; both print how
many were detected. `scripts/faults_document.py` generates this page.

"""
TAIL = """\

## Faults that no check detects

- A worker half that behaves correctly only while it is checked. For example, it recognizes the parity program or the
  sizes of a reference case. Or it leaves out work in the window so that its state and losses still change, and works
  correctly again after the reset.
- In the window, a fault that changes the losses after the reset by less than 5 %: a small tensor without updates, no
  weight decay, coarser arithmetic.
- Batches of the window that were loaded before it.
- A step of the window that trains on another batch than the loader returned, or on correct labels with other images
  or tokens.
- A worker half that falsifies its record in fields other than the window's length, shortens that length by little
  more than a second, or reports wrong phases to its agent.
- Gradient accumulation that is computed as one large batch.
- Errors in code that runs only in a narrow precision, if they are smaller than its rounding ([parity](parity.md) lists
  them).
- In fp32, ResNet-50's gradients rounded to fp16 for their exchange. In BERT, it is detected.
- Dropout at another rate, in other places, or with masks that are drawn once and reused.
- Compiler errors in a narrow precision at some sizes only, or with several threads (BERT in fp32 is checked at a
  width of 768 with all cores).
- A `synchronize` that waits for the loss only, if the runtime's clock does not use events.
- Files left outside TMPDIR and /dev/shm, and System V shared memory.
- A framework's own out-of-memory error on a device other than a CPU, or where NumPy or the interpreter raises one
  first.
- An input pipeline that decodes less than it reports.
- A learning-rate schedule that keeps a constant rate.
- Device memory, versions, compiler and layout in effect: the plugin alone reports them.

These require reading the worker half.
"""
PARTS = (
    (
        "Detected by the conformance suite",
        "tests of `dlperf_sdk.testing`; toy plugins",
        faults.BY_CONFORMANCE,
    ),
    (
        "Detected by a verdict of every run",
        "verdicts of `run()`; toy plugins, two replicas",
        faults.BY_VERDICT,
    ),
    (
        "Detected by verifying the window",
        "the verdict `window-verified` of every run; toy plugins, two replicas and two repeats. Exception: "
        "`works-after-window` has one replica and three repeats",
        faults.BY_WINDOW,
    ),
    (
        "Detected by verifying the window: torch",
        "the verdict `window-verified` of every run; small cases of the models",
        faults.BY_WINDOW_OF_TORCH,
    ),
    (
        "Detected by the agent in every run",
        "the kind of the run's failure; toy plugins, windows of some seconds",
        faults.BY_AGENT,
    ),
    ("Detected by parity", "toy plugins, two replicas", faults.BY_PARITY),
    ("Detected by parity: torch", "one replica, the references' case `small`", faults.BY_TRAJECTORY),
    ("Detected by parity: torch, two replicas", "two replicas over gloo", faults.BY_PAIR),
    (
        "Detected by the conformance suite: torch",
        "other reference cases: every convolution has a gradient from the first step on; gradient accumulation",
        faults.BY_OTHER_CASES,
    ),
)
"""Heading, conditions of the tests, and the faults."""


def document() -> str:
    """Return the page."""
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
