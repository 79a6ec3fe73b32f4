"""The process that measures one node of a fleet: a controller of its own, which ends with the fleet's.

It reads one JSON object and a newline from standard input: the `spec`, the directory `store`, and the `run_id`. When
standard input is closed, it ends its workers as after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from types import FrameType

from dlperf_sdk.errors import DlperfError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.execution.execute import execute
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.spec.run_spec import RunSpec

_INTERRUPTED = 130


def main() -> int:
    """Measure the case that standard input describes, and return the exit code: 0 if a result was written.

    Standard input has one line of JSON: an object with `spec` (a run spec), `store` (a directory) and `run_id`. The
    result is written to the store, also if the case failed. If there is no result because of an error, the error is
    printed to standard error, and its exit code is returned. After an interruption, this is 130.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    tether = _take_standard_input()
    request = json.loads(_read_line(tether))
    threading.Thread(target=_end_with_parent, args=(tether,), daemon=True).start()
    store = ResultStore(Path(request["store"]))
    try:
        spec = RunSpec.from_dict(request["spec"])
        case = Case.begin(spec, store, Observers.load(), Registry(), run_id=request["run_id"])
        # Evidence in the cache may be of another node, or of a time when this one was sound.
        execute(case, [case.prepare, partial(case.check_parity, use_cache=False), case.measure])
    except KeyboardInterrupt:
        return _INTERRUPTED
    except DlperfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    for later in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(later, signal.SIG_IGN)
    raise KeyboardInterrupt


def _take_standard_input() -> int:
    """Return a descriptor of standard input that no program inherits, and replace standard input by an empty file."""
    tether, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return tether


def _read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(descriptor, 1 << 16)):
        line += piece
    return line


def _end_with_parent(tether: int) -> None:
    os.read(tether, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
