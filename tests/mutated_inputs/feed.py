"""Feed mutated inputs to their readers: `feed.py FOLDER SEED COUNT [KIND …]`, all kinds by default.

Each kind has a process of its own and a copy of the samples; as many run at once as there are processors. It prints a
line of JSON for each kind: the inputs that were fed, the seconds that took, and the problems. An input with a problem
stays in FOLDER/KIND/failed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1]).resolve()
SAMPLES = FOLDER / "samples"
MOST_PROBLEMS = 5
"""Problems of a kind, after which no more is fed."""
SECONDS = 600.0
"""A process that takes longer hangs where no signal reaches it, and is killed."""


def main() -> None:
    """Write the samples, and feed each kind."""
    SAMPLES.mkdir(parents=True)
    use(SAMPLES)
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests), str(tests.parent / "plugins/dlperf-published/tests")]
    import input_kinds

    input_kinds.write_samples(SAMPLES)
    kinds = sys.argv[4:] or [*input_kinds.KINDS]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for outcome in pool.map(fed_in_a_process, kinds):
            print(json.dumps(outcome), flush=True)


def use(folder: Path) -> None:
    """Let everything that is not named lie in this folder."""
    os.environ.update(
        DLPERF_CACHE_DIR=str(folder / "cache"), TMPDIR=str(folder / "tmp"), HOME=str(folder / "home")
    )


def fed_in_a_process(name: str) -> dict[str, Any]:
    """Return the outcome of a kind."""
    folder = FOLDER / name.replace(" ", "-")
    shutil.copytree(SAMPLES, folder)
    started_at = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            use(folder)
            outcome = fed(name, sys.argv[2], int(sys.argv[3]), folder)
            (folder / "outcome.json").write_text(json.dumps(outcome))
        except BaseException:
            (folder / "outcome.json").write_text(
                json.dumps({"inputs": 0, "problems": [traceback.format_exc()], "functions": []})
            )
        finally:
            os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.05)
        if time.monotonic() > started_at + SECONDS:
            os.kill(child, 9)
    try:
        outcome = json.loads((folder / "outcome.json").read_bytes())
    except FileNotFoundError:
        outcome = {"inputs": 0, "problems": ["its process was killed"], "functions": []}
    return {"kind": name, "seconds": round(time.monotonic() - started_at, 1), **outcome}


def fed(name: str, seed: str, count: int, folder: Path) -> dict[str, Any]:
    """Feed `count` inputs of a kind."""
    import confinement
    import input_kinds
    import mutations

    kind = input_kinds.KINDS[name]
    out, path = folder / "out", folder / kind.file
    watch = confinement.Confinement([out, folder / "tmp", folder / "cache"])
    sample, chance = path.read_bytes(), random.Random(f"{name} {seed}")
    out.mkdir()
    os.chdir(out)
    functions = reached(lambda: kind.read(folder))  # the valid one; it also imports what is imported lazily
    clear(out)
    before, problems, number = listing(folder), [], 0
    while number < count and len(problems) < MOST_PROBLEMS:
        data = mutations.mutated(sample, kind.format, chance)
        path.write_bytes(data)
        problem = problem_of(kind, watch, folder) or watch.memory_excess()
        clear(out)
        if problem is None and listing(folder) != before:
            problem = f"changed files outside its folder: {sorted(set(listing(folder)) ^ set(before))}"
        if problem is not None:
            (folder / "failed").mkdir(exist_ok=True)
            (folder / "failed" / f"{number}{path.suffix}").write_bytes(data)
            problems.append(f"input {number}: {problem}")
            before = listing(folder)
        number += 1
        if watch.memory_excess():
            break
    return {"inputs": number, "problems": problems, "functions": functions}


def reached(read: Callable[[], Any]) -> list[str]:
    """Return the functions of dlperf-sdk that are called, as `package.module.Class.function`."""
    import dlperf_sdk

    codes: set[Any] = set()
    for module in (threading, sys):
        module.setprofile(lambda frame, event, _: codes.add(frame.f_code) if event == "call" else None)
    try:
        read()
    finally:
        for module in (threading, sys):
            module.setprofile(None)
    package, names = f"{Path(dlperf_sdk.__file__).parent}/", set()
    for code in codes:
        if code.co_filename.startswith(package):
            module_name = code.co_filename.removeprefix(package).removesuffix(".py").replace("/", ".")
            names.add(f"{module_name.removesuffix('.__init__')}.{code.co_qualname}".replace(".<locals>", ""))
    return sorted(names)


def problem_of(kind: Any, watch: Any, folder: Path) -> str | None:
    """Return what is wrong with how an input is read."""
    from confinement import Violation

    try:
        with watch.active():
            kind.read(folder)
    except kind.errors as error:
        problem = None if str(error).strip() else f"{type(error).__name__} without a message"
    except (Exception, SystemExit, Violation):
        problem = traceback.format_exc(limit=-12)
    else:
        problem = None
    return problem or (f"did {watch.violations}" if watch.violations else None)


def listing(folder: Path) -> list[str]:
    """Return the files that reading must not add or remove."""
    skipped = {folder / name for name in ("out", "tmp", "cache", "failed")}
    tops = [top for top in folder.iterdir() if top not in skipped]
    return sorted(str(path.relative_to(folder)) for top in tops for path in (top, *top.rglob("*")))


def clear(folder: Path) -> None:
    """Empty a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


if __name__ == "__main__":
    main()
