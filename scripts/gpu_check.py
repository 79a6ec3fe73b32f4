"""Check, on a machine with an NVIDIA GPU, what can be checked on no other machine, in about ten minutes.

    python scripts/gpu_check.py --python PATH -o gpu

PATH is an interpreter that has torch, NumPy, Pillow and attrs; the default is the one that runs this program.
docs/how-to/gpu/README.md explains how to prepare a machine without a network. The directory of `-o` gets `checks/`, a
JSON file for each check; `results/`, the results that the checks are based on, in the project's own format, without the
names of hosts and users; `checks.md`, the table; and `raw/`, the results with logs and names, which is not for others.

Every check has an outcome (pass, fail, inconclusive, not-applicable), a sentence, and a time limit. A check that fails
does not stop the others. `--only WORD` selects the checks with that word in their name, and may be given several times.
Several commands may write to the same directory. `--device cpu` rehearses all checks with tiny models.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import asdict, evolve
from gpu_bench import Bench, Outcome
from gpu_checks import CHECKS, Check

from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, PASS

LONGEST = 590.0
"""Seconds for everything, unless said otherwise."""
SLOWER = {"cuda": 1.0, "cpu": 6.0}
"""Kind of device → how many times longer everything may take: a rehearsal often shares its processors."""


class OutOfTime(Exception):
    """A check took longer than it may."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Return a context manager that ends its block, with all its processes, after `seconds`, as after Ctrl-C.

    Raises:
        OutOfTime: The block was ended because it took longer.
    """
    rung = False

    def ring(*_: Any) -> None:
        nonlocal rung
        rung = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except KeyboardInterrupt:
        if not rung:
            raise
        raise OutOfTime(f"It was not done after {seconds:.0f} s, and was ended.") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def carried_out(check: Check, bench: Bench, left: float) -> Outcome:
    """Run a check, and return its outcome.

    If the check raises an exception, the outcome is `fail`. It is `inconclusive` if the check takes longer than it may,
    or is not begun for want of time.

    Args:
        check: The check.
        bench: The place where it runs.
        left: Seconds that are left for all checks. With less than a fourth of the check's own time, it is not begun.
    """
    if left < min(check.seconds, LONGEST) / 4:
        return Outcome(INCONCLUSIVE, f"Not begun: of the time for everything {left:.0f} s were left.")
    try:
        with within(min(check.seconds, left)):
            return check.look(bench)
    except OutOfTime as error:
        return Outcome(INCONCLUSIVE, str(error))
    except Exception as error:
        traceback.print_exc()
        return Outcome(FAIL, f"The check itself raised {type(error).__name__}: {error}")


def table(folder: Path) -> str:
    """Return a Markdown table of the checks whose outcomes are in a directory, in the order of `CHECKS`.

    Args:
        folder: The directory of the option `-o`; its `checks/` has a JSON file for each outcome.
    """
    rows = ["| check | outcome | what was seen |", "|---|---|---|"]
    for check in CHECKS:
        path = folder / "checks" / f"{check.name}.json"
        if path.is_file():
            actual = json.loads(path.read_text(encoding="utf-8"))
            rows.append(f"| {check.name} | {actual['outcome']} | {actual['sentence'].replace('|', '/')} |")
    return "\n".join(rows) + "\n"


def _chosen_checks(only: Sequence[str]) -> list[Check]:
    """Those with one of the words in their name; all of them where no word is given."""
    return [check for check in CHECKS if not only or any(word in check.name for word in only)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, and return the exit code.

    It is 0 if a check passed and none failed, 1 if a check failed, 3 if none passed or failed. The directory of `-o`
    gets `checks/`, `results/`, `raw/` and `checks.md`.

    Args:
        arguments: Words of the command line without the program's name; None: those of this process.

    Raises:
        SystemExit: The command line is not valid (2), or asks for help (0).
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--python", metavar="PATH", help="the workers' interpreter")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--within", type=float, metavar="SECONDS", help=f"for all of them ({LONGEST:.0f})")
    parser.add_argument("--list", action="store_true", help="name the checks and the seconds they may take")
    chosen = parser.parse_args(arguments)
    checks = _chosen_checks(chosen.only)
    if not checks:
        parser.error(f"no check has {' or '.join(chosen.only)} in its name; --list names them")
    if chosen.list:
        print("\n".join(f"{check.name}  {check.seconds:.0f} s" for check in checks))
        return 0
    slower = SLOWER[chosen.device]
    end, outcomes = time.monotonic() + (chosen.within or LONGEST * slower), []
    bench = Bench(chosen.device, chosen.python, chosen.output)
    folder = chosen.output / "checks"
    folder.mkdir(parents=True, exist_ok=True)
    for check in checks:
        started_at = time.monotonic()
        outcome = carried_out(evolve(check, seconds=check.seconds * slower), bench, end - started_at)
        outcomes.append(outcome.outcome)
        document = {
            "check": check.name,
            "device": bench.device,
            "seconds": time.monotonic() - started_at,
            **asdict(outcome),
        }
        (folder / f"{check.name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        (chosen.output / "checks.md").write_text(table(chosen.output), encoding="utf-8")
        print(
            f"{outcome.outcome:14} {check.name} ({document['seconds']:.0f} s): {outcome.sentence}", flush=True
        )
    if FAIL in outcomes:
        return 1
    return 0 if PASS in outcomes else 3


if __name__ == "__main__":
    sys.exit(main())
