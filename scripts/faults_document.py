"""Write docs/explanation/faults.md from the table of planted faults in tests/faults/faults.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "faults"))

import faults  # noqa: E402

HEAD = """\
# Planted faults

What deliberately wrong plugins and trainers are caught by. Each is a few lines over a right one (`tests/faults/`), each
must be caught by the test or verdict that is named here, for what it is, and the right ones must pass everything.
`make test` tries those that take no time, `make test-long` all others; both print the score. This page is made by
`scripts/faults_document.py`.

"""
TAIL = """\

## What is not caught

A worker half that behaves well as long as it believes to be looked at: that recognises parity's program or the sizes
of a reference's case, or counts its steps and stops training behind those that the suite takes; that writes anew in
its record what is not the window's length, or makes that shorter by little more than a second, or tells its agent of
other phases than those that it is in. Gradient accumulation that is done as one large batch. What the rounding of a
narrow precision hides (parity.md has the list), where fp32 is computed by other code. In fp32, ResNet-50's
gradients rounded to fp16 for their exchange (BERT shows it). Dropout at another rate, in other places, or with masks
that are drawn once. What a compiler gets wrong in a narrow precision at some sizes only, or with several threads
(BERT in fp32 is tried at 768 wide with all cores). A `synchronize` that waits for the loss alone, where the clock is
no event's. Files that are left outside TMPDIR and /dev/shm, and shared memory of System V. A framework's own error of
memory on another device than a CPU, or where NumPy or the interpreter raises one before it. An input pipeline that
decodes less than it says. A learning-rate schedule that stays at one rate. And nobody but the plugin reports its
device memory, its versions, and which compiler and layout were at work. For these there is reading the worker half.
"""
PARTS = (
    ("Caught by the conformance suite", "tests of `dlperf_sdk.testing`; toy plugins", faults.BY_CONFORMANCE),
    ("Caught by a verdict of every run", "verdicts of `run()`; toy plugins, two replicas", faults.BY_VERDICT),
    (
        "Caught by the agent in every run",
        "the kind of the failure; toy plugins, windows of some seconds",
        faults.BY_AGENT,
    ),
    ("Caught by parity", "toy plugins, two replicas", faults.BY_PARITY),
    ("Caught by parity: torch", "one replica, the references' case `small`", faults.BY_TRAJECTORY),
    ("Caught by parity: torch in company", "two replicas over gloo", faults.BY_PAIR),
    (
        "Caught by the conformance suite: torch",
        "the references' other cases, in which every convolution has a gradient at once, and accumulation",
        faults.BY_OTHER_CASES,
    ),
)
"""Heading, what it is tried with, and the faults."""


def document() -> str:
    """The page."""
    parts = [_part(*part) for part in PARTS]
    return HEAD + f"{len(faults.ALL)} faults.\n\n" + "\n".join(parts) + TAIL


def _part(title: str, how: str, rows: tuple[faults.Fault, ...]) -> str:
    lines = [f"| {row.what} | `{row.plugin}` | `{row.by}` | {row.said} |" for row in rows]
    head = [
        f"## {title}",
        "",
        f"{how[0].upper()}{how[1:]}.",
        "",
        "| fault | planted in | caught by | and told as |",
    ]
    return "\n".join([*head, "|---|---|---|---|", *lines]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "explanation" / "faults.md").write_text(document(), encoding="utf-8")
