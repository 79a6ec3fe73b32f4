"""Run Python in a framework's managed environment, with packages beside it that the environment itself must not have.

    python scripts/in_environment.py torch --with pytest -- -m pytest plugins/dlperf-torch/tests

The environment is the one that `dlperf run` uses. What `--with` names is installed into a folder of its own and put
behind the environment's packages on the path, so nothing of it can shadow what is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from dlperf_sdk import environments
from dlperf_sdk.environments.installer import uv_environment
from dlperf_sdk.registry import Registry

ROOT = Path(__file__).resolve().parent.parent


def beside(python: str, packages: list[str]) -> Path:
    """The folder that holds these packages for this interpreter; made if need be."""
    from uv import find_uv_bin

    key = hashlib.sha256("\0".join([python, *sorted(packages)]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"beside-{key}"
    if not (folder / "complete").exists():
        command = [
            find_uv_bin(),
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--target",
            str(folder),
            *packages,
        ]
        subprocess.run(command, check=True, env=uv_environment())
        (folder / "complete").touch()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("framework")
    parser.add_argument("--with", dest="packages", action="append", default=[], metavar="PACKAGE")
    parser.add_argument("arguments", nargs="+")
    chosen = parser.parse_args()
    spec = Registry().framework(chosen.framework).environment("cpu", "all_reduce", "resnet50")
    prepared = environments.prepare(
        chosen.framework, spec, "cpu", on_progress=lambda text: print(text, file=sys.stderr, flush=True)
    )
    paths = [ROOT / "src", *sorted(ROOT.glob("plugins/*/src"))]
    if chosen.packages:
        paths.append(beside(prepared.command[0], chosen.packages))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    with environments.in_use(prepared):
        return subprocess.run(
            [*prepared.command, *chosen.arguments], env=environment, cwd=ROOT, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
