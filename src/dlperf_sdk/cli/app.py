"""The table of all commands, the app that is made from it, and the program `dlperf`."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, cast

from cyclopts import App, CycloptsError

import dlperf_sdk
from dlperf_sdk.cli import screen, streams
from dlperf_sdk.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

EXIT_CODES = (
    "Exit codes: 0 ok; 1 a verdict or gate failed; 2 usage; 3 plugin or environment; 4 the run failed; "
    "5 partial (some repeats, cases, nodes, checks or inputs failed); 6 the gate or the fleet is inconclusive; "
    "130 interrupted."
)

COMMANDS = {
    "run": ("running:run", "Measure one case: train a model in a framework and report its throughput."),
    "plan": ("running:plan", "Show what a run would do, and start nothing."),
    "rerun": (
        "running:rerun",
        "Measure the case of a result again, in the environment that its lock describes.",
    ),
    "verify": (
        "verifying:verify",
        "Compare the first steps of frameworks with the model's float64 reference.",
    ),
    "gate": (
        "gating:gate",
        "Decide for each case whether it became slower, by significance and minimum effect.",
    ),
    "fleet": ("fleet:fleet", "Measure one case on each node, and find slow nodes and wrong arithmetic."),
    "report": ("reporting:report", "Show one result in full, or several in a table per workload."),
    "query": ("querying:query", "Query the results of a store with SQL."),
    "upload": ("uploading:upload", "Upload the results of a directory to a database."),
    "history": ("history:history", "Show a case over time or versions, and where its level changed."),
    "site": ("site:site", "Write a static site with a page and a history per case."),
    "cost": ("costing:cost", "Show what a million samples cost, and the energy of one sample."),
    "predict": ("predicting:predict", "Predict the throughput of a larger topology from smaller ones."),
    "export": ("exchanging:export", "Export results for other programs."),
    "import": ("exchanging:import_", "Import logs of other programs as results."),
    "bundle": ("remote_runs:bundle", "Write a case as one file, for a machine without dlperf."),
    "ingest": ("remote_runs:ingest", "Import the output of such a bundle as a result."),
    "attach": ("remote_runs:attach", "Follow a running job whose controller was lost."),
    "campaign": ("campaigning:campaign", "Run a matrix of cases unattended, resume it, show its status."),
    "list": ("listing:list_plugins", "List the installed plugins."),
    "describe": ("describing:describe", "Describe a plugin: its capabilities, options and requirements."),
    "try": ("trying:try_", "Start one worker of a plugin on a small case, and show what it answers."),
    "check": ("checking:check", "Run the conformance suite on an installed plugin."),
    "new-plugin": ("checking:new_plugin", "Write the skeleton of a framework plugin."),
    "doctor": ("doctor:doctor", "Check whether this machine can measure, and what would disturb it."),
    "env": ("env:env", "Create, list and remove the managed environments of frameworks."),
    "validate": (
        "reading:validate",
        "Check a document against its schema, and a result against its own records.",
    ),
    "completion": ("completion:completion", "Print a script that completes commands and flags in a shell."),
    "man": ("man_page:man", "Print the manual page of dlperf."),
}
"""Command → `module:attribute` in this package, and its line in `dlperf --help`. A module is imported when its
command is typed."""


def build_app(typed: str | None = None) -> App:
    """Return the cyclopts app with all commands.

    Args:
        typed: Name of the command that the user typed. Only its module is imported, so that its own help is complete.
            With None, or a word that is no command, no module is imported.
    """
    app = App(
        name="dlperf",
        help="Verified training-throughput benchmarks for deep-learning frameworks.",
        help_epilogue=EXIT_CODES,
        help_format="plaintext",
        version=f"dlperf-sdk {dlperf_sdk.__version__}",
        # Ctrl-C is handled here: everything that was started is ended first.
        suppress_keyboard_interrupt=False,
    )
    for place, (name, (path, summary)) in enumerate(COMMANDS.items()):
        module, _, attribute = path.partition(":")
        if name != typed:
            app.command(f"dlperf_sdk.cli.{path}", name=name, help=summary, sort_key=place)
            continue
        command = getattr(import_module(f"dlperf_sdk.cli.{module}"), attribute)
        if isinstance(command, App):
            app.command(command)
        else:
            app.command(command, name=name)
    return app


def mount(parent: App, name: str = "dlperf") -> App:
    """Make all of `dlperf` a command of another program's cyclopts app, and return that app.

    The commands return their exit codes, with which cyclopts ends the program. A program with another parser
    passes its remaining words to `main`.

    Args:
        parent: The other program's app, which is changed.
        name: Name of the new command.
    """
    parent.command(build_app(), name=name)
    return parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `dlperf`, and return the exit code.

    Errors are printed to standard error instead of being raised. While the command runs, SIGTERM and SIGHUP are
    handled like Ctrl-C. Closed standard streams are opened on `/dev/null`. Characters that the encoding of a standard
    stream does not have are replaced.

    Args:
        arguments: Words of the command line without the program's name; None: those of this process.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    streams.open_missing_streams()
    streams.replace_unprintable()
    common = _common(tokens)
    try:
        with _handle_termination(), _simplify_warnings():
            code = build_app(next(iter(tokens), None))(
                tokens,
                console=cast("Console", screen.LateConsole()),
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
    except CycloptsError as error:
        from dlperf_sdk.cli import usage_errors

        code = screen.complain(usage_errors.explain_usage_error(error), common, UsageError.exit_code)
    except OSError as error:  # cyclopts prints help and version itself
        written = UsageError(f"Standard output cannot be written: {error.strerror}.")
        code = screen.complain(written, common, UsageError.exit_code)
    except KeyboardInterrupt:
        code = screen.complain(KeyboardInterrupt("Interrupted."), common, screen.INTERRUPTED)
    finally:
        streams.flush()
    return code if isinstance(code, int) else 0


def _common(tokens: Sequence[str]) -> screen.Common:
    """Return the options of all commands, read before parsing: they decide how the parser's errors are reported."""
    options = tokens[: tokens.index("--")] if "--" in tokens else tokens
    return screen.Common(json="--json" in options, debug="--debug" in options)


@contextmanager
def _handle_termination() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C: stop workers, keep finished repeats. `nohup` keeps SIGHUP ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _simplify_warnings() -> Iterator[None]:
    """Print warnings as one line on standard error, without the position in the code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: screen.say(f"Warning: {message}", "yellow")
        yield
