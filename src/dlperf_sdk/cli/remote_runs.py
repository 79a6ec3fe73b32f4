"""`bundle`, `ingest` and `attach`: runs without a controller on this machine, or whose controller was lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from cyclopts import Parameter

from dlperf_sdk.cli.case_arguments import spec_of
from dlperf_sdk.cli.flags import add_case_flags
from dlperf_sdk.cli.running import DEFAULT_OUTPUT, OutputOptions, run_case
from dlperf_sdk.cli.screen import AS_USUAL, INTERRUPTED, Common, command, emit, say
from dlperf_sdk.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from dlperf_sdk.results.result import Result
    from dlperf_sdk.results.store import ResultStore


@command
@add_case_flags
def bundle(
    framework: Annotated[
        str,
        Parameter(help="A framework's name, or a spec file (.toml, .json, .yaml) with the complete case."),
    ],
    model: Annotated[str | None, Parameter(help="A model's name; not with a spec file.")] = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], metavar="FILE", help="The file to write.")],
    common: Common = AS_USUAL,
    **flags: Any,
) -> int:
    """Write a case as one file, for a machine without dlperf, or for the scheduler of a launcher that has a format.

    There: `python FILE run -o OUT`. Back here: `dlperf ingest OUT`. For a scheduler's file, its commands are printed.
    """
    from dlperf_sdk.execution import packing

    packed, commands = packing.pack(spec_of(framework, model, flags), output)
    if common.json:
        answer = {"path": str(packed.path), "sha256": packed.digest, "files": list(packed.files)}
        emit({**answer, "commands": list(commands)})
    else:
        say(f"{packed.path}: {len(packed.files)} files. It holds the run's secret; only you can read it.")
        for text in commands or (
            f"There: python {packed.path.name} run -o out. Back here: dlperf ingest out",
        ):
            say(text)
    return 0


@command
def ingest(
    source: Annotated[Path, Parameter(help="The folder that the bundle wrote, or its events.jsonl.")],
    /,
    *,
    output_options: OutputOptions = DEFAULT_OUTPUT,
    common: Common = AS_USUAL,
) -> int:
    """Import the output of a bundle, measured on a machine without dlperf, as a result."""
    from dlperf_sdk.documents.reading import open_file
    from dlperf_sdk.execution import replay

    path = source / "events.jsonl" if source.is_dir() else source

    def replay_file(store: ResultStore, observers: Iterable[Any]) -> Result:
        with open_file(path) as file:  # its error names the path
            try:
                return replay.replay(_lines(file, path), store, observers)
            except DocumentError as error:
                raise DocumentError(f"{path}: {error}") from error

    return run_case(replay_file, output_options, common)


_MOST_LINES = 10_000_000
"""Maximum number of lines of a file: 64 nodes, which report progress four times a second, write them in ten hours."""


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of an event stream in a file, but for heartbeats and progress: the run is over.

    Raises:
        DocumentError: The file has too many lines, or a line that is too long.
        UsageError: The file cannot be read.
    """
    from dlperf_sdk.documents.reading import check_memory
    from dlperf_sdk.execution.replay import FREQUENT
    from dlperf_sdk.worker.agent.link import LONGEST_LINE

    try:
        for number in itertools.count(1):
            line = file.readline(LONGEST_LINE)
            if number > _MOST_LINES:
                raise DocumentError(f"An event stream may have {_MOST_LINES:,} lines; this one has more.")
            if line.startswith(FREQUENT):
                continue
            check_memory(line, f"Line {number}")
            if len(line) == LONGEST_LINE:
                raise DocumentError(
                    f"Line {number} has more than {LONGEST_LINE:,} bytes, which no run writes."
                )
            if not line:
                return
            yield line
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


@command
def attach(
    job: Annotated[
        str, Parameter(help="JOB@LAUNCHER, such as 4213@slurm: a job that `dlperf run` submitted.")
    ],
    /,
    *,
    output_options: OutputOptions = DEFAULT_OUTPUT,
    common: Common = AS_USUAL,
) -> int:
    """Follow a submitted job whose controller was lost. Ctrl-C detaches; the job keeps running."""
    from dlperf_sdk.execution import attaching

    attached = attaching.find_job(job)
    code = run_case(
        lambda store, observers: attaching.attach(attached, store, observers), output_options, common
    )
    if code == INTERRUPTED:
        say(
            f"{attached.label} keeps running: `dlperf attach {job}` follows it again, `{attached.cancel_command}` "
            "cancels it."
        )
    return code
