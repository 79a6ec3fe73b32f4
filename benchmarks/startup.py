"""What starting costs: `from dlperf_sdk import run`, `dlperf --help` and `dlperf list`, against a bare interpreter.

    .venv/bin/python benchmarks/startup.py

Each pair starts two processes, one after the other, in turns. Bounds: the import takes at most 100 ms more than a bare
interpreter; the two commands take at most 150 ms from their start to their end. Then, in runs that are not timed, it
says which modules each brings in, and whether torch, NumPy or any plugin's are among them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import entry_points, version
from time import monotonic
from typing import Any, NamedTuple

import paired
from paired import Block, Comparison, Spent

from dlperf_sdk.registry.plugins import GROUPS

# What the installed program `dlperf` runs.
_MAIN = "import sys; from dlperf_sdk.cli import main; sys.argv[0] = 'dlperf'; sys.exit(main())"
# Put before the code: at the end, the names of what it imported go to a descriptor.
_LISTED = """
import atexit, json, os, sys
before = set(sys.modules)
atexit.register(lambda: os.write({descriptor}, json.dumps(sorted(set(sys.modules) - before)).encode()))
"""


class Start(NamedTuple):
    """What is started, and how long it may take."""

    words: tuple[str, ...]
    """Code for the interpreter, and its arguments."""
    figure: str
    """The figure that is bounded: a whole start, or what it takes more than a bare interpreter."""
    bound: float
    """Seconds."""


STARTS = {
    "from dlperf_sdk import run": Start(("from dlperf_sdk import run",), "difference_per_step", 0.100),
    "dlperf --help": Start((_MAIN, "--help"), "a_seconds_per_step", 0.150),
    "dlperf list": Start((_MAIN, "list"), "a_seconds_per_step", 0.150),
}


_FIGURES = {"difference_per_step": "more than a bare one", "a_seconds_per_step": "start to end"}


def started(code: str, *arguments: str) -> Block:
    """Return a block: one process of an interpreter, with this code and arguments, from its start to its end.

    The block raises RuntimeError if the process fails.
    """

    def block() -> Spent:
        started_at = monotonic()
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = monotonic() - started_at
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{sys.executable} ended with {process.returncode}, of {arguments or code!r}")
        return Spent(wall, used.ru_utime + used.ru_stime)

    return block


def imported(code: str, *arguments: str) -> list[str]:
    """Return the names of the modules that this code imports, sorted, above those of a bare interpreter.

    Raises:
        RuntimeError: The process failed.
    """
    reader, writer = os.pipe()
    command = [sys.executable, "-c", _LISTED.format(descriptor=writer) + code, *arguments]
    # The list may be longer than what a pipe holds, so it is read while the process runs.
    with (
        os.fdopen(reader, encoding="utf-8") as file,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, pass_fds=[writer]) as process,
    ):
        os.close(writer)
        text = file.read()
    if process.returncode:
        raise RuntimeError(f"{sys.executable} ended with {process.returncode}, of {arguments or code!r}")
    actual: list[str] = json.loads(text)
    return actual


def packages(modules: Iterable[str]) -> Counter[str]:
    """Return top-level package → number of its modules; the standard library is one package."""
    tops = (module.partition(".")[0] for module in modules)
    return Counter("standard library" if top in sys.stdlib_module_names else top for top in tops)


def unwanted(modules: Iterable[str]) -> list[str]:
    """Return the modules of torch, NumPy or an installed plugin among these, sorted.

    A plugin is a package that an entry point names, outside of dlperf_sdk.
    """
    plugins = {
        point.value.partition(".")[0].partition(":")[0]
        for group in GROUPS.values()
        for point in entry_points(group=group.entry_points)
    }
    tops = ({"torch", "numpy"} | plugins) - {"dlperf_sdk"}
    return sorted(module for module in modules if module.partition(".")[0] in tops)


def main() -> int:
    """Measure the starts, print a table or JSON, and return 0."""
    chosen = paired.arguments(__doc__, pairs=40).parse_args()
    before = paired.machine()
    bare = started("pass")
    comparisons = [Comparison(name, started(*start.words), bare) for name, start in STARTS.items()]
    comparisons.append(Comparison("nothing, A/A", bare, bare))
    pairs = paired.interleaved(comparisons, chosen.pairs, paired.telling("starts"))
    rows = [paired.summary(comparison, of) for comparison, of in zip(comparisons, pairs, strict=True)]
    modules = {name: imported(*start.words) for name, start in STARTS.items()}
    for row in rows[:-1]:
        start = STARTS[row["name"]]
        row["claim"] = paired.at_most(start.bound, row[start.figure])
        row["packages"] = dict(packages(modules[row["name"]]).most_common())
        row["modules"] = modules[row["name"]]
        row["unwanted"] = unwanted(modules[row["name"]])
    document = {
        "benchmark": "startup",
        "machine": before,
        "load_after": paired.load(),
        "versions": {"dlperf-sdk": version("dlperf-sdk")},
        "rows": rows,
    }
    if chosen.json:
        print(paired.as_json(document))
        return 0
    print(paired.said(before))
    print(f"dlperf-sdk {version('dlperf-sdk')}; medians of pairs, with their 95 % intervals\n")
    headings = ("start", "pairs", "ms", "ms more than a bare one", "time ÷ a bare one's", "bound")
    print(paired.table(headings, [_cells(row) for row in rows]))
    print("\nwhat they import (modules above a bare interpreter's):")
    for row in rows[:-1]:
        counts = ", ".join(f"{name} {count}" for name, count in row["packages"].items())
        print(f"  {row['name']}: {len(row['modules'])} modules: {counts}")
        print(f"    torch, NumPy or a plugin: {', '.join(row['unwanted']) or 'none'}")
    return 0


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        str(row["pairs"]),
        f"{row['a_seconds_per_step']['median'] * 1e3:.1f}",
        paired.number(row["difference_per_step"], ".1f", 1e3),
        paired.number(row["ratio"], ".2f"),
        paired.claimed(
            row, f"{_FIGURES[STARTS[row['name']].figure]} ≤ {STARTS[row['name']].bound * 1e3:.0f} ms"
        )
        if row["name"] in STARTS
        else "",
    ]


if __name__ == "__main__":
    sys.exit(main())
