"""The commands, put together, and the program `dlperf`."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from cyclopts import App, CycloptsError

import dlperf_sdk
from dlperf_sdk.cli import (
    checking,
    costing,
    describing,
    doctor,
    exchanging,
    gating,
    listing,
    reading,
    remote_runs,
    reporting,
    running,
    screen,
    verifying,
)
from dlperf_sdk.cli.campaigning import campaign
from dlperf_sdk.cli.env import env
from dlperf_sdk.errors import UsageError

EXIT_CODES = (
    "Exit codes: 0 ok; 1 a verdict or gate failed; 2 usage; 3 plugin or environment; 4 the run failed; "
    "5 partial (some repeats, cases or checks, or not all of what was named); 130 interrupted."
)

app = App(
    name="dlperf",
    help="How fast does this framework train this model on these machines, and is the number true?",
    help_epilogue=EXIT_CODES,
    help_format="plaintext",
    version=f"dlperf-sdk {dlperf_sdk.__version__}",
    # Ctrl-C is ours to handle: what has been started is ended first.
    suppress_keyboard_interrupt=False,
)
_COMMANDS: dict[str, Callable[..., int]] = {
    "run": running.run,
    "plan": running.plan,
    "rerun": running.rerun,
    "verify": verifying.verify,
    "gate": gating.gate,
    "report": reporting.report,
    "cost": costing.cost,
    "export": exchanging.export,
    "import": exchanging.import_,
    "bundle": remote_runs.bundle,
    "ingest": remote_runs.ingest,
    "attach": remote_runs.attach,
    "list": listing.list_plugins,
    "describe": describing.describe,
    "check": checking.check,
    "new-plugin": checking.new_plugin,
    "doctor": doctor.doctor,
    "validate": reading.validate,
}
for _place, (_name, _function) in enumerate(_COMMANDS.items()):
    app.command(_function, name=_name, sort_key=_place)
app.command(campaign)
app.command(env)


def mount(parent: App, name: str = "dlperf") -> App:
    """Make all of `dlperf` a command of another program's cyclopts app, and return that app.

    The commands return their exit codes, which cyclopts ends the program with. A program with another parser
    hands its remaining words to `main`.
    """
    parent.command(app, name=name)
    return parent


def main(words: Sequence[str] | None = None) -> int:
    """Run `dlperf` with these words, those of the command line unless given; the value is the exit code.

    Nothing is raised: errors are said on standard error. SIGTERM is taken for Ctrl-C meanwhile.
    """
    tokens = list(sys.argv[1:] if words is None else words)
    screen.open_missing_streams()
    screen.replace_unprintable()
    common = _common(tokens)
    try:
        with _terminable(), _plain_warnings():
            code = app(
                tokens,
                console=screen.out(),
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
    except CycloptsError as error:
        from dlperf_sdk.cli import usage_errors

        code = screen.complain(usage_errors.explained(error), common, UsageError.exit_code)
    except OSError as error:  # cyclopts prints help and version itself
        written = UsageError(f"Standard output cannot be written: {error.strerror}.")
        code = screen.complain(written, common, UsageError.exit_code)
    except KeyboardInterrupt:
        code = screen.complain(KeyboardInterrupt("Interrupted."), common, screen.INTERRUPTED)
    finally:
        screen.flush()
    return code if isinstance(code, int) else 0


def _common(tokens: Sequence[str]) -> screen.Common:
    """What all commands take, found before the words are understood: an error in them is told accordingly."""
    options = tokens[: tokens.index("--")] if "--" in tokens else tokens
    return screen.Common(json="--json" in options, debug="--debug" in options)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: workers ended, finished repeats kept."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """A warning is a line on standard error, without the place in our code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: screen.say(f"Warning: {message}", "yellow")
        yield
