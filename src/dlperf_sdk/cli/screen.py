"""Standard output and standard error: what is written to each, and what happens if the reader is gone.

Standard output has what the user requested: a table, or with `--json` exactly one object. Everything else goes to
standard error. A reader that goes away (`| head`) ends the output, not the command.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, wraps
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from attrs import frozen
from cyclopts import Parameter

from dlperf_sdk.cli.streams import mute
from dlperf_sdk.documents.credentials import hide_credentials
from dlperf_sdk.errors import CampaignError, DlperfError, DocumentError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from dlperf_sdk.reports.blocks import Block

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
PARTIAL = 5
"""Exit code if something that the user named is not in the output."""


@Parameter(name="*")
@frozen
class Common:
    """Options of every command."""

    json: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Print one JSON object, and nothing else, on stdout."
        ),
    ] = False
    debug: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Show the traceback of an error as well.")
    ] = False


AS_USUAL = Common()
"""Neither of the options of every command."""


class LateConsole:
    """A console of Rich for help and version. It is made at its first use: other commands do not import Rich."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)

    @cached_property
    def _console(self) -> Console:
        from dlperf_sdk.cli.consoles import output_console

        return output_console()


_WORKFLOW_COMMAND = re.compile(r"^[^\S\n]*::|##\[", re.MULTILINE)
_reserved: list[TextIO] = []
"""Standard output while it is reserved."""


@contextmanager
def _reserve_stdout() -> Iterator[None]:
    """Return a context in which only `emit`, `write`, `write_bytes` and `show` write to standard output.

    What plugins, and programs that they start, print there goes to standard error.
    """
    stdout, descriptor = sys.stdout, None
    with suppress(OSError, ValueError):  # a stream that only Python knows has no descriptor
        stdout.flush()
        if stdout.fileno() == 1:
            descriptor = os.dup(1)
            os.dup2(2, 1)
            _reserved.append(
                os.fdopen(descriptor, "w", encoding=stdout.encoding, errors=stdout.errors, closefd=False)
            )
    if descriptor is None:
        _reserved.append(stdout)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout
        with suppress(OSError, ValueError):
            _reserved.pop().flush()
        if descriptor is not None:
            os.dup2(descriptor, 1)
            os.close(descriptor)


def emit(document: Any) -> None:
    """Write one JSON object to standard output. Nothing is written if the reader of standard output is gone.

    Args:
        document: The object, as JSON values.

    Raises:
        UsageError: Standard output cannot be written for another reason.
        ValueError: A number in the object is not finite.
        TypeError: A value in the object is not one of JSON.
    """
    write(json.dumps(document, indent=1, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Write text to standard output unchanged. Nothing is written if the reader of standard output is gone.

    Raises:
        UsageError: Standard output cannot be written for another reason.
    """
    with _stdout() as stdout:
        stdout.write(text)
        stdout.flush()


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output. Nothing is written if the reader of standard output is gone.

    Raises:
        UsageError: Standard output cannot be written for another reason.
    """
    with _stdout() as stdout:
        stdout.buffer.write(data)
        stdout.buffer.flush()


@contextmanager
def _stdout() -> Iterator[TextIO]:
    """Return a context whose value is standard output, reserved or not; it is muted if it cannot be written."""
    stdout = _reserved[-1] if _reserved else sys.stdout
    try:
        yield stdout
    except BrokenPipeError:
        mute(stdout)
    except OSError as error:
        mute(stdout)
        raise UsageError(f"Standard output cannot be written: {error.strerror}.") from error


def show(blocks: Iterable[Block]) -> None:
    """Write blocks, such as headings, paragraphs and tables, to standard output, in color on a terminal.

    Nothing is written if the reader of standard output is gone.

    Raises:
        UsageError: Standard output cannot be written for another reason.
    """
    from dlperf_sdk.reports import terminal

    write(_disarm_commands(terminal.text_of(blocks, styled=sys.stdout.isatty())))


def _disarm_commands(text: str) -> str:
    """Return a text for people in which no line is a workflow command, in a step of GitHub Actions; else unchanged.

    Notes, failures and names come from files of results. The runner takes lines that begin with `::`, after white
    space, and `##[` anywhere, for commands.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    return _WORKFLOW_COMMAND.sub(lambda match: f"{match[0][:-1]} {match[0][-1]}", text)


def say(text: str, style: str = "") -> None:
    """Print a paragraph to standard error, without credentials in URLs. Errors in writing are ignored.

    Args:
        text: The paragraph; control characters in it are replaced.
        style: A style of Rich; empty for none.
    """
    from dlperf_sdk.cli.consoles import error_console
    from dlperf_sdk.documents.json_values import replace_control_characters

    with suppress(OSError):
        error_console().print(
            _disarm_commands(replace_control_characters(hide_credentials(text))),
            style=style or None,
            soft_wrap=not sys.stderr.isatty(),
        )


def complain(error: BaseException, common: Common, exit_code: int) -> int:
    """Report an error on standard error, and return the given exit code.

    With `--json`, an object with the error is written to standard output as well; with `--debug`, the traceback to
    standard error. Errors in writing are ignored. The message of a `DocumentError` or a `CampaignError` keeps its
    lines; any other becomes one paragraph.

    Args:
        error: The error.
        common: The options `--json` and `--debug`.
        exit_code: The exit code, which the object with the error contains.
    """
    if common.debug:
        with suppress(OSError):
            sys.stderr.write(hide_credentials("".join(traceback.format_exception(error))))
    has_lines = isinstance(error, DocumentError | CampaignError)
    lines = str(error).splitlines() if has_lines else [str(error)]
    message = "\n".join(" ".join(line.split()) for line in lines).strip() or type(error).__name__
    message = hide_credentials(message)
    say(f"Error: {message}", "red")
    if common.json:
        described = {"type": type(error).__name__, "message": message, "exit_code": exit_code}
        with suppress(UsageError):
            emit({"error": described})
    return exit_code


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Return a command whose errors, unexpected ones included, are printed to standard error and become an exit code.

    It decorates commands, which return their exit code: 0 if they succeeded. With `--json`, only the functions of this
    module write to standard output while the command runs; text that other code prints there goes to standard error.
    The docstring is the help text; the lines of each paragraph are joined.
    """

    @wraps(function)
    def run_guarded(*args: Any, **kwargs: Any) -> int:
        common = kwargs.get("common") or Common()
        with _reserve_stdout() if common.json else nullcontext():
            return guard(common, args, kwargs)

    def guard(common: Common, args: Any, kwargs: Any) -> int:
        try:
            return function(*args, **kwargs)
        except DlperfError as error:
            return complain(error, common, error.exit_code)
        except KeyboardInterrupt as error:
            return complain(KeyboardInterrupt(str(error) or "Interrupted."), common, INTERRUPTED)
        except Exception as error:
            refused = _usage_error_from(error)
            if refused is not None:
                return complain(refused.with_traceback(error.__traceback__), common, refused.exit_code)
            advice = "" if common.debug else " --debug shows the traceback."
            cause = RuntimeError(
                f"{type(error).__name__}: {error}. This is a fault of dlperf-sdk or of a plugin.{advice}"
            )
            return complain(cause.with_traceback(error.__traceback__), common, DlperfError.exit_code)

    if function.__doc__:
        run_guarded.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", cleandoc(function.__doc__))
    return run_guarded


def _usage_error_from(error: Exception) -> UsageError | None:
    """Return a usage error for an `OSError` about a file, such as a path that is too long or not accessible.

    Also covers a working directory that was deleted. Return None for all other errors.
    """
    if not isinstance(error, OSError):
        return None
    try:
        os.getcwd()  # noqa: PTH109 - whether it is there, not what it is
    except OSError:
        return UsageError("The current directory no longer exists; change to another one.")
    if error.filename is None:
        return None
    return UsageError(f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}.")
