"""The flags of `run` and `plan`: one for each field of `RunSpec`, made from the field itself.

A flag that is not given leaves the field to the spec file, or to its default.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import attrs
from cyclopts import Group, Parameter, Token

from dlperf_sdk.cli.common_flags import INTEGER, convert_whole_number
from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.checks import VARIABLE
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import MAX_BATCH, Scalar

_POSITIONAL = ("framework", "model")

_GROUPS = {
    "workload": Group("Workload (must match to compare)", sort_key=1),
    "factor": Group("Factors", sort_key=2),
    "context": Group("Context", sort_key=3),
}

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


def parse_scalar(text: str) -> Scalar:
    """Return the value that a text stands for: an int, a float, True (`true`), False (`false`) or None (`null`).

    Any other text is returned unchanged.
    """
    if text in _WORDS:
        return _WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _size(_: Any, tokens: Sequence[Token]) -> Any:
    return MAX_BATCH if tokens[0].value == MAX_BATCH else convert_whole_number(_, tokens)


_BEFORE_SOURCE = rf",(?=(?:{'|'.join(re.escape(source.name) for source in DATA_SOURCES)})(?:[:,]|$))"
"""A comma before a data source; any other may be part of a folder's name."""


class Sweep(tuple[Any, ...]):
    """Several values of a field, given together and separated by commas."""


def _convert_several(
    convert: Callable[[Any, Sequence[Token]], Any], comma: str = ","
) -> Callable[[Any, Sequence[Token]], Any]:
    """Return a converter of one value, or of several to a `Sweep`; between two is what matches `comma`."""

    def convert_each(hint: Any, tokens: Sequence[Token]) -> Any:
        parts = re.split(comma, tokens[0].value)
        values = [convert(hint, [attrs.evolve(tokens[0], value=part)]) for part in parts]
        return values[0] if len(values) == 1 else Sweep(values)

    return convert_each


def _text(_: Any, tokens: Sequence[Token]) -> str:
    return tokens[0].value


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SpecError(f"--set {text}: write NAME=VALUE, for example --set image_size=64.")
    return name, value


def _variable(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise SpecError("--env: the name is missing; write NAME=VALUE, or NAME to hand on this shell's.")
    if VARIABLE.fullmatch(name) is None:  # not shown, because it may be a value
        raise SpecError(
            "--env: a name consists of letters, digits and _, and begins with no digit; write NAME=VALUE, or NAME to "
            "hand on this shell's."
        )
    return name, value if equals else None


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SpecError(f"--label {text}: write NAME=VALUE, for example --label commit=1f3a9c.")
    return name, value


def _deadline(text: str) -> tuple[str, float]:
    phase, _, seconds = text.partition("=")
    if not phase or not _NUMBER.fullmatch(seconds):
        raise SpecError(f"--deadline {text}: write PHASE=SECONDS, for example --deadline step=60.")
    return phase, float(seconds)


_MAPPINGS: dict[str, tuple[str, str, Callable[[str], tuple[str, Any]]]] = {
    "options": ("--set", "NAME=VALUE", _option),
    "env": ("--env", "NAME[=VALUE]", _variable),
    "deadlines": ("--deadline", "PHASE=SECONDS", _deadline),
    "labels": ("--label", "NAME=VALUE", _label),
}
"""Field that holds a mapping → its flag, given once per entry, the form of an entry, and the function that reads it."""


REPEATED = tuple(_MAPPINGS)
"""Fields whose flag may be given several times, once per entry."""


def parse_entries(field: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a repeated flag, such as `--env NAME=VALUE`, as name → value.

    Args:
        field: Name of the field of `RunSpec` that the flag sets: `options`, `env`, `deadlines` or `labels`.
        texts: The entries as typed.

    Raises:
        SpecError: An entry does not have the flag's form, or two have the same name.
    """
    flag, _, read = _MAPPINGS[field]
    fields: dict[str, Any] = {}
    for text in texts:
        name, value = read(text)
        if name in fields:
            raise SpecError(f"{flag} gives {name!r} twice; leave one of them out.")
        fields[name] = value
    return fields


def option_values(written: Mapping[str, str], *owners: Any) -> dict[str, Scalar]:
    """Return the options that `--set` gives as name → value.

    If an owner declares the option with a text as its default, its value is the typed text. Otherwise `true`,
    `false`, `null` and numbers become the values that they stand for.

    Args:
        written: Name of an option → its value as typed. It is not checked that an owner has the option.
        owners: The plugins whose class `Options` declares the options.
    """
    texts = text_options(*owners)
    return {name: value if name in texts else parse_scalar(value) for name, value in written.items()}


def text_options(*owners: Any) -> set[str]:
    """Return the names of the options whose default is a text in at least one of the given plugins.

    Args:
        owners: The plugins, each with a class `Options`.
    """
    return {
        field.name
        for owner in owners
        for field in attrs.fields(owner.Options)
        if isinstance(field.default, str)
    }


def collect_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `RunSpec` that flags give: name → value.

    Args:
        flags: Name of a field → value of its flag; None: not given. The value of a repeated flag, one of `REPEATED`,
            is a list of texts such as `NAME=VALUE`, which becomes a dict from name to value: numbers for
            `deadlines`, else strings; None for a variable without a value. Callers convert the strings of `options`
            with `option_values`.

    Raises:
        SpecError: An entry of a repeated flag does not have its form, or two entries have the same name.
    """
    return {
        name: parse_entries(name, value) if name in _MAPPINGS else value
        for name, value in flags.items()
        if value is not None
    }


def add_case_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Return a command with a flag for each field of `RunSpec` in place of its `**flags`; a decorator.

    Framework and model, which are positional, get no flag. The command gets None for a flag that is not given.
    """
    signature = inspect.signature(function)
    common_flags = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    hints = get_type_hints(RunSpec)
    flags = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(field, hints[field.name]),
        )
        for field in attrs.fields(RunSpec)
        if field.name not in _POSITIONAL
    ]

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> int:
        return function(*args, **kwargs)

    command.__signature__ = signature.replace(parameters=[*common_flags, *flags])  # type: ignore[attr-defined]
    return command


def _annotation(field: attrs.Attribute[Any], hint: Any) -> Any:
    """Return the annotation from which cyclopts makes the flag of a `RunSpec` field."""
    details: dict[str, Any] = {
        "help": field.metadata["help"],
        "group": _GROUPS[field.metadata["role"]],
        "negative": (),
    }
    if field.name in _MAPPINGS:
        flag, metavar, _ = _MAPPINGS[field.name]
        details["help"] += " May be repeated."
        return Annotated[list[str] | None, Parameter(name=flag, metavar=metavar, **details)]
    if "flag" in field.metadata:
        details["name"] = field.metadata["flag"]
    if field.default is not None:
        details["show_default"] = lambda _: str(field.default)
    read_as = _read_as(hint)
    convert = convert_whole_number if read_as is int else _text
    if field.name == "batch_size":
        read_as, convert = int | Literal["max"], _size
    if field.name == "data":
        details["converter"] = _convert_several(convert, _BEFORE_SOURCE)
    elif field.metadata["role"] != "context":
        details["converter"] = _convert_several(convert)
    elif read_as is int:
        details["converter"] = convert
    return Annotated[read_as | None, Parameter(metavar=_metavar(field.name, hint), **details)]


def _read_as(hint: Any) -> Any:
    """Return the type that a flag's text is converted to; our value types parse their text themselves."""
    if get_origin(hint) is types.UnionType:
        hint = next(member for member in get_args(hint) if member is not type(None))
    return hint if hint in (bool, int, float, str) else str


def _metavar(name: str, hint: Any) -> str:
    kind = _read_as(hint)
    return {bool: "", int: "N", float: "X"}.get(kind, name.rpartition("_")[2].upper())
