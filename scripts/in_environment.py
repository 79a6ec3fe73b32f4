"""Run Python in a framework's managed environment, with packages beside it that the environment itself must not have.

    python scripts/in_environment.py torch --with pytest -- -m pytest plugins/dlperf-torch/tests

The environment is the one that `dlperf run` uses. What `--with` names is installed, with pip and its configuration,
into a folder of its own, which comes last on the path: nothing in it can shadow what is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from dlperf_sdk import environments
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).resolve().parent.parent

_LAST_ON_PATH = """\
import runpy, sys
sys.path.append(sys.argv[1])
if sys.argv[2] == "-m":
    sys.argv[:] = sys.argv[3:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.argv[:] = sys.argv[2:]
    sys.path.insert(0, sys.argv[0].rpartition("/")[0] or ".")
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def beside(python: str, packages: list[str], alone: list[str]) -> Path:
    """Return a directory that has the given packages for an interpreter, to be added to its import path.

    If no earlier call has completed the directory, which is in `build/`, the packages are installed into it.

    Args:
        python: Path of the interpreter.
        packages: Requirement specifiers, installed with their dependencies.
        alone: Requirement specifiers, installed without their dependencies.

    Raises:
        subprocess.CalledProcessError: pip failed.
    """
    key = hashlib.sha256("\0".join([python, *sorted(packages), "", *sorted(alone)]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"beside-{key}"
    if not (folder / "complete").exists():
        into = ["install", "--no-compile", "--target", str(folder)]
        pip = [sys.executable, "-m", "pip", "--quiet", "--python", python, *into]
        subprocess.run([*pip, *packages], check=True)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        (folder / "complete").touch()
    return folder


def main() -> int:
    """Run the command line in the framework's environment, which is created if needed, and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("framework")
    parser.add_argument("--with", dest="packages", action="append", default=[], metavar="PACKAGE")
    parser.add_argument(
        "--with-alone",
        dest="alone",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="like --with, but without what it asks for: where that would bring another build of the framework",
    )
    parser.add_argument("arguments", nargs="+", help="`-m MODULE …` or `SCRIPT …`")
    chosen = parser.parse_args()
    spec = Registry().framework(chosen.framework).environment("cpu", "all_reduce", "resnet50")
    prepared = environments.prepare(
        chosen.framework, spec, "cpu", on_progress=lambda text: print(text, file=sys.stderr, flush=True)
    )
    sources = [ROOT / "src", *sorted(ROOT.glob("plugins/*/src"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}
    command = [
        *prepared.command,
        "-c",
        _LAST_ON_PATH,
        str(beside(prepared.command[0], chosen.packages, chosen.alone)),
    ]
    with environments.use_environment(prepared):
        ended = subprocess.run([*command, *chosen.arguments], env=environment, cwd=ROOT, check=False)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
