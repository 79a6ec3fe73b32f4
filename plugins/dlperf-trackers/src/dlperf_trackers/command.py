"""The program `dlperf-track`, which sends existing results. `send` starts it, too."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from dlperf_sdk import Result
from dlperf_sdk.cli.lookup import find
from dlperf_sdk.cli.redacting import redact_local
from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.documents.reading import LARGEST_RESULT, parse_json
from dlperf_sdk.errors import DlperfError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.results.redact import redact_text
from dlperf_trackers.tracked_run import TrackedRun
from dlperf_trackers.trackers import TRACKERS, Destination, parse_destination

STANDARD_INPUT = "-"
PARTIAL = 5
"""Exit code if a result was not sent, as of `dlperf export`."""
LONGEST_MESSAGE = 600
"""Characters of an error; some libraries append whole documents."""
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.I)
_SHORTEST_SECRET = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program `dlperf-track`, and return its exit code.

    The code is 0 if all results were sent, and 5 if a result was not sent. If the tracker or the runs cannot be used,
    nothing is sent, and the code is that of the error's class, such as 2 for a `UsageError`. For each result that was
    sent, a line with its id and its place in the tracker is printed on standard output. Errors are printed on standard
    error, each as one line.

    Args:
        arguments: Words of the command line without the program's name; None: those of this process.

    Raises:
        SystemExit: The command line is not valid (code 2), or `--help` is one of the words (code 0).
    """
    options = _parser().parse_args(arguments)
    try:
        destination = parse_destination(options.tracker)
        results = list(_read_results(options.runs, options.store))
    except DlperfError as error:
        return _complain(str(error), error.exit_code)
    code = 0
    for result in results:
        if isinstance(result, str):
            code = _complain(result, PARTIAL)
            continue
        try:
            place = _write(redact_local(result) if options.redact else result, destination)
            print(f"{result.id}: {place}")
        except Exception as error:  # whatever a library raises
            code = _complain(f"{destination.tracker.name}: {str(error) or type(error).__name__}", PARTIAL)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dlperf-track",
        description="Send results to a tracker. A result that is sent again replaces what the tracker has of it.",
        allow_abbrev=False,
    )
    settings = "; ".join(f"{tracker.name} ({tracker.settings})" for tracker in TRACKERS.values())
    parser.add_argument("tracker", metavar="TRACKER", help=f"The tracker, with its settings: {settings}.")
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="Run in the store, path of a result, run, store or campaign, or - for a result on standard input.",
    )
    parser.add_argument(
        "--store", type=Path, default=RESULTS, help="Directory of the runs. Default: %(default)s."
    )
    parser.add_argument("--redact", action="store_true", help="Leave out the names of hosts and users.")
    return parser


def _read_results(runs: Sequence[str], store: Path) -> Iterator[Result | str]:
    """Yield each result that the words name, and a message for each that cannot be read."""
    if list(runs) == [STANDARD_INPUT]:
        yield Result.from_dict(parse_json(sys.stdin.buffer.read(LARGEST_RESULT + 1), "standard input"))
        return
    matches = find(tuple(runs), store)
    yield from (result for result, _ in matches.results)
    yield from matches.errors
    yield from (f"{run_id} has no result." for _, run_id in matches.unfinished)


def _write(result: Result, destination: Destination) -> str:
    write = import_module(f"dlperf_trackers.{destination.tracker.name}").write
    run = TrackedRun.from_result(result)
    place: str = write(run, Path(destination.directory)) if destination.directory else write(run)
    return place


def _complain(message: str, exit_code: int) -> int:
    """Print an error as one line, and return the exit code."""
    line = " ".join(replace_control_characters(_remove_secrets(message)).split())
    shortened = line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"
    print(f"Error: {shortened}", file=sys.stderr, flush=True)
    return exit_code


def _remove_secrets(text: str) -> str:
    """Return a text without credentials in URLs and values of variables that are named like a secret.

    A value is replaced by the variable's name. Names of home directories are removed, too.
    """
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, name)
    return redact_text(text, (), ())
