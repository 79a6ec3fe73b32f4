"""Run frameworks' own tests in their managed environments, and their conformance.

    python scripts/test_frameworks.py [-m MARKERS] [--without-builds] [--prepare] NAME …

Behind `make torch` and `make test-NAME`. `-m` selects conformance tests as pytest does; `--prepare` only creates the
environments. `--without-builds` leaves out environments with parts built from source, and the tests that need them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from dlperf_sdk.environments.source_builds import check_programs
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("attrs", "pytest", "pytest-timeout", "pytest-xdist", "tokenizers; python_version >= '3.9'")
"""What the tests need beside the frameworks' environments, never in them. For older versions of Python pip takes a
source distribution of tokenizers, which needs Rust; the tests that use it skip."""
OWN_TOOLS = {"torch": ("transformers",)}
CONTROLLER_TESTS = ("test_framework.py", "test_conformance.py")
"""Tests that run in the controller's environment: they import no framework."""


def _run_python(*arguments: str) -> None:
    """Run this interpreter in the checkout; exit with its exit code if that is not 0."""
    code = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode
    if code:
        sys.exit(code)


def _run_in_environment(framework: str, *arguments: str) -> None:
    """Run the interpreter of a framework's managed environment; create the environment first if need be."""
    tools = [
        word for package in (*TOOLS, *OWN_TOOLS.get(framework, ("pillow",))) for word in ("--with", package)
    ]
    _run_python("scripts/in_environment.py", framework, *tools, "--", *arguments)


def _prepare_builds(framework: str) -> None:
    """Create the CPU environments with parts that are built from source, and print how.

    Where a program that builds them is missing, print which; conformance then skips their tests.
    """
    plugin = Registry().framework(framework)
    for strategy in sorted(plugin.capabilities.strategies):
        builds = plugin.environment("cpu", strategy, min(plugin.trainers)).source_builds
        try:
            check_programs(builds)
        except EnvironmentFailed as error:
            print(f"No environment of {framework} for the strategy {strategy}: {error}", flush=True)
            continue
        if builds:
            _run_python(
                "-m", "dlperf_sdk", "env", "create", framework, "--device", "cpu", "--strategy", strategy
            )


def test(framework: str, markers: str, with_builds: bool) -> None:
    """Run the tests of a framework's plugin: some in the framework's environment, some in this interpreter.

    The tests in `CONTROLLER_TESTS`, which import no framework, run in this interpreter. If tests fail, the process
    exits with pytest's exit code.

    Args:
        framework: Name of the plugin.
        markers: Expression of markers that selects tests of `CONTROLLER_TESTS`, as pytest's `-m` takes it; empty for
            all.
        with_builds: True to create environments with parts built from source first; False to leave out their tests.
    """
    plugin = f"plugins/dlperf-{framework}"
    files = sorted((ROOT / plugin / "tests").glob("test_*.py"))
    inside = [str(file.relative_to(ROOT)) for file in files if file.name not in CONTROLLER_TESTS]
    outside = [str(file.relative_to(ROOT)) for file in files if file.name in CONTROLLER_TESTS]
    pytest = ("-m", "pytest", "-c", f"{plugin}/pyproject.toml", "--numprocesses", "2")
    _run_in_environment(framework, *pytest, "--dist", "loadfile", *inside)
    if with_builds:
        _prepare_builds(framework)
    selection = " and ".join(
        filter(None, (markers and f"({markers})", not with_builds and "not source_build"))
    )
    _run_python(*pytest, *(("-m", selection) if selection else ()), "--dist", "loadgroup", *outside)


def main() -> None:
    """Run the tests of the frameworks that the command line names; with `--prepare`, only create their environments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "-m",
        dest="markers",
        default="",
        help="only conformance tests with these markers, as pytest takes it",
    )
    parser.add_argument(
        "--without-builds",
        action="store_true",
        help="no environments with parts built from source",
    )
    parser.add_argument("--prepare", action="store_true", help="only create the environments")
    parser.add_argument("frameworks", nargs="+", metavar="NAME")
    chosen = parser.parse_args()
    for framework in chosen.frameworks:
        if chosen.prepare:
            _run_in_environment(framework, "-m", "pytest", "--version")
            if not chosen.without_builds:
                _prepare_builds(framework)
        else:
            test(framework, chosen.markers, not chosen.without_builds)


if __name__ == "__main__":
    main()
