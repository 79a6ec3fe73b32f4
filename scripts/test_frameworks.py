"""Each framework's own tests in its managed environment, its conformance, and all frameworks side by side.

    python scripts/test_frameworks.py [NAME …]

Behind `make test-frameworks`. `together` is the name of the last part. Goes through every framework even if one fails,
and says at the end how long each took, the making of its environment included.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = ("tensorflow", "mxnet", "oneflow", "paddle")
"""Beside torch, which `make test` goes through."""
BESIDE = ("attrs", "pytest", "pytest-timeout", "pytest-xdist", "tokenizers", "pillow")
"""What their own tests need beside their environments: never in them."""
OUTSIDE = ("test_framework.py", "test_conformance.py")
"""Tests that run in the controller's environment: they need no framework."""


def both_processors(spread: str) -> tuple[str, ...]:
    """Most of a start's seconds are one thread's: a second process of pytest finds the other processor free."""
    return ("--numprocesses", "2", "--dist", spread)


def python(*arguments: str) -> bool:
    """Run this interpreter in the checkout's root; whether it ended well."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode == 0


def own_tests(framework: str) -> bool:
    """The environment, the plugin's tests in it, and those that need no framework."""
    plugin = f"plugins/dlperf-{framework}"
    configured = ("-m", "pytest", "-c", f"{plugin}/pyproject.toml")
    tests = sorted(path.name for path in (ROOT / plugin / "tests").glob("test_*.py"))
    inside = [f"{plugin}/tests/{name}" for name in tests if name not in OUTSIDE]
    outside = [f"{plugin}/tests/{name}" for name in tests if name in OUTSIDE]
    passed = python("-m", "dlperf_sdk", "env", "create", framework)
    if passed and inside:
        beside = [argument for package in BESIDE for argument in ("--with", package)]
        passed &= python(
            "scripts/in_environment.py",
            framework,
            *beside,
            "--",
            *configured,
            *both_processors("loadfile"),
            *inside,
        )
    return (not outside or python(*configured, *both_processors("loadgroup"), *outside)) and passed


def together() -> bool:
    """All of them through the front door, one after another from one interpreter."""
    return python(
        "-m", "pytest", *both_processors("loadgroup"), "-m", "frameworks", "tests/test_frameworks.py"
    )


def main() -> int:
    jobs: dict[str, Callable[[], bool]] = {name: lambda name=name: own_tests(name) for name in FRAMEWORKS}
    jobs["together"] = together
    unknown = sorted(set(sys.argv[1:]) - set(jobs))
    if unknown:
        sys.exit(f"There is nothing called {', '.join(unknown)}; there are {', '.join(jobs)}.")
    jobs = {name: job for name, job in jobs.items() if name in (sys.argv[1:] or jobs)}
    took: dict[str, tuple[float, bool]] = {}
    for name, job in jobs.items():
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        passed = job()
        took[name] = (time.monotonic() - began, passed)
    print()
    for name, (seconds, passed) in took.items():
        print(f"{name:14} {seconds / 60:5.1f} min  {'passed' if passed else 'FAILED'}")
    print(f"{'all':14} {sum(seconds for seconds, _ in took.values()) / 60:5.1f} min")
    return 0 if all(passed for _, passed in took.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
