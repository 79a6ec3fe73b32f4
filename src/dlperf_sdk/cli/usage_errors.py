"""Errors in command lines: those of cyclopts, as messages that say what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    App,
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.spec.table import alternatives

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path", str: "text"}

_ADVICE: dict[tuple[str, ...], str] = {
    ("campaign", "run", "--dry-run"): "To list its cases, and start nothing: `dlperf plan FILE`.",
    (
        "campaign",
        "resume",
        "--dry-run",
    ): "To see what is left, and start nothing: `dlperf campaign status DIR`.",
}
"""Words of a command line with an option that only other commands have → advice."""


def explain_usage_error(error: CycloptsError) -> UsageError:
    """Return a `UsageError` for an error of cyclopts: its message says what is wrong and what to write instead.

    For an unknown command it is an `UnknownName`, which suggests similar commands.
    """
    command = " ".join(("dlperf", *(error.command_chain or ())))
    help = f"See `{command} --help`."
    if isinstance(error, UnknownCommandError) and error.app is not None:
        return UnknownName("command", (error.unused_tokens or [""])[0], _commands(error.app), help)
    return UsageError(f"{_explain(error, command)} {help}")


def _explain(error: CycloptsError, command: str) -> str:
    argument = error.argument
    if isinstance(error, UnusedCliTokensError):
        return f"Unexpected arguments: {' '.join(map(_without_value, error.unused_tokens or ()))}."
    if isinstance(error, UnknownOptionError):
        return _explain_unknown_option(error)
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given more than once; give it once."
    if isinstance(error, MissingArgumentError) and argument is not None:
        return _explain_missing(error, argument, command)
    if isinstance(error, CoercionError) and error.token is not None and argument is not None:
        name, value = error.token.keyword or argument.name, error.token.value
        choices = [str(choice) for choice in _choices(argument.hint)]
        kinds = [kind for type_, kind in _KINDS.items() if type_ in _parts(argument.hint)]
        accepted = alternatives([*kinds, *choices] or ["another value"])
        return f"{name} is {format_value(value)}; it takes {accepted}.{_suggestion(value, choices)}"
    return " ".join(str(error).split())


def _without_value(token: str) -> str:
    """Format an unexpected argument, without the value of `NAME=VALUE`, which may be a second one meant for `--env`."""
    name, equals, _ = token.partition("=")
    return format_value(f"{name}=…" if equals and name.isidentifier() else token)


def _explain_unknown_option(error: UnknownOptionError) -> str:
    """Return the message for an unknown option."""
    name = (error.token.keyword or error.token.value).partition("=")[0]
    known = [option for argument in error.argument_collection if argument.parse for option in argument.names]
    advice = _ADVICE.get((*(error.command_chain or ()), name))
    return f"There is no option {name}.{_suggestion(name, known) if advice is None else f' {advice}'}"


def _explain_missing(error: MissingArgumentError, argument: Argument, command: str) -> str:
    """Return the message for an option without its value, or a command without a required argument."""
    option = error.keyword or next((token.keyword for token in argument.tokens if token.keyword), None)
    if option is not None:
        return f"{option} needs a value: {_adapt_help(argument)}"
    usage = "" if error.app is None else f" Write `{command}{_usage(error.app)}`."
    return f"`{command}` needs {argument.name}: {_adapt_help(argument)}{usage}"


def _commands(app: App) -> Iterator[str]:
    return (name for name in app if not name.startswith("-"))


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {close[0]}?" if close else ""


def _adapt_help(argument: Argument) -> str:
    """Return an argument's help text, adapted to follow a colon or a verb."""
    text = str(argument.parameter.help or "").strip() or "a value."
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _usage(app: App) -> str:
    """Return a command's positional arguments, the optional ones in brackets, and its required options."""
    usage = ""
    for argument in app.assemble_argument_collection():
        if argument.is_var_positional():
            usage += f" [{argument.name}…]"
        elif argument.is_positional_only():
            usage += f" {argument.name}" if argument.required else f" [{argument.name}]"
        elif argument.required:
            usage += f" {argument.name} {argument.parameter.metavar or 'VALUE'}"
    return usage


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of a type."""
    if get_origin(hint) is not Literal and get_args(hint):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint


def _choices(hint: Any) -> Iterator[Any]:
    return (choice for part in _parts(hint) if get_origin(part) is Literal for choice in get_args(part))
