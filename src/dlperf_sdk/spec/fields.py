"""Fields of specs and options: the role of each field in comparisons, and the checks on its value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from dlperf_sdk.documents.field_types import Name, PathText, keywords_of_type
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError, UnknownName

Role = Literal["workload", "factor", "context"]

Validator = Callable[[Any, Any, Any], None]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
"""Pattern of the names of plugins, precisions, data sources and the like."""


def state_bounds(**keywords: Any) -> Callable[[Validator], Validator]:
    """Return a decorator that attaches JSON Schema keywords to a validator, for `make schemas`.

    The decorator returns the validator itself, with the new attribute `keywords`; its behavior stays the same.

    Args:
        keywords: Keyword of JSON Schema → its value: the bounds that the validator checks. The keyword `expected`,
            which JSON Schema does not have, says in words what a `pattern` allows.
    """

    def decorate(validator: Validator) -> Validator:
        vars(validator)["keywords"] = keywords
        return validator

    return decorate


def keywords_of(validator: Any) -> Mapping[str, Any]:
    """Return keyword → value of the JSON Schema keywords that `state_bounds` attached to a validator.

    The result is empty if none are attached.
    """
    keywords: Mapping[str, Any] = getattr(validator, "keywords", {})
    return keywords


EFFECTS = ("executes", "reads")
"""Metadata keys of fields and options that a file may not set. `executes` marks programs, their flags and
containers; `reads` marks files."""


def has_effect(metadata: Mapping[str, Any]) -> bool:
    """Return True if a field's value decides what is executed or read.

    Args:
        metadata: The attrs metadata of the field, where the key `executes` or `reads` says so.
    """
    return any(metadata.get(effect) for effect in EFFECTS)


def _field(
    role: Role, help: str, default: Any, *, validator: Any = None, converter: Any = None, **marks: bool | str
) -> Any:
    """Return an attrs field with its role and help; `marks` are the `EFFECTS` of its value, and its `flag`."""
    kwargs: dict[str, Any] = {"metadata": {"role": role, "help": help, **marks}}
    if isinstance(default, dict):
        kwargs["factory"] = dict
    elif default is not attrs.NOTHING:
        kwargs["default"] = default
    if validator is not None:
        kwargs["validator"] = validator
    if converter is not None:
        kwargs["converter"] = converter
    return attrs.field(**kwargs)


def workload(help: str, default: Any = attrs.NOTHING, **attributes: Any) -> Any:
    """Return an attrs field with the role `workload`: it must match for two results to be compared.

    Args:
        help: Description of the field for users.
        default: The default; a dictionary, such as `{}`, stands for a new empty dictionary per instance. Without a
            default, the field is required.
        attributes: `validator` and `converter` of the attrs field; `executes=True` if the field's value decides what
            is executed, `reads=True` if it decides what is read; and `flag`, the command line's flag if it is not the
            field's name.
    """
    return _field("workload", help, default, **attributes)


def factor(help: str, default: Any = attrs.NOTHING, **attributes: Any) -> Any:
    """Return an attrs field with the role `factor`: its effect may be compared, and reports show it as a column.

    Args:
        help: Description of the field for users.
        default: The default; a dictionary, such as `{}`, stands for a new empty dictionary per instance. Without a
            default, the field is required.
        attributes: `validator` and `converter` of the attrs field; `executes=True` if the field's value decides what
            is executed, `reads=True` if it decides what is read; and `flag`, the command line's flag if it is not the
            field's name.
    """
    return _field("factor", help, default, **attributes)


def context(help: str, default: Any = attrs.NOTHING, **attributes: Any) -> Any:
    """Return an attrs field with the role `context`: it may differ in a comparison, and reports show it in a footnote.

    Args:
        help: Description of the field for users.
        default: The default; a dictionary, such as `{}`, stands for a new empty dictionary per instance. Without a
            default, the field is required.
        attributes: `validator` and `converter` of the attrs field; `executes=True` if the field's value decides what
            is executed, `reads=True` if it decides what is read; and `flag`, the command line's flag if it is not the
            field's name.
    """
    return _field("context", help, default, **attributes)


@state_bounds(**keywords_of_type(Name))
def check_name(_: Any, attribute: Any, value: Any) -> None:
    """Validate a name: at most 128 lower-case letters, digits, `.`, `_` and `-`, with a letter or digit first.

    `attribute` is the attrs field, which messages name; `value` is the value to check.

    Raises:
        SpecError: The value is not text, or is not such a name.
    """
    if not isinstance(value, str) or not NAME.fullmatch(value):
        lower = value.lower() if isinstance(value, str) else ""
        hint = f" Did you mean {lower!r}?" if NAME.fullmatch(lower) else ""
        raise SpecError(
            f"{attribute.name} is {format_value(value)}; it must be a name of at most 128 lower-case letters, digits, "
            f"'.', '-' and '_'.{hint}"
        )


def whole_number(minimum: int, maximum: int) -> Validator:
    """Return a validator for attrs fields that accepts a whole number from `minimum` to `maximum`, both included.

    The validator raises a `SpecError` for any other value, booleans included.
    """

    @state_bounds(minimum=minimum, maximum=maximum)
    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise SpecError(
                f"{attribute.name} is {format_value(value)}; it must be a whole number from {minimum} to {maximum}."
            )

    return check


def number(*, upper: float = math.inf) -> Validator:
    """Return a validator for attrs fields that accepts a finite number of at least 0 and less than `upper`.

    By default there is no upper bound. The validator raises a `SpecError` for any other value, booleans included.
    """
    limits = "0 or more" + ("" if upper == math.inf else f", and less than {upper:g}")

    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < upper:
            raise SpecError(f"{attribute.name} is {format_value(value)}; it must be a number, {limits}.")

    return check


def check_boolean(_: Any, attribute: Any, value: Any) -> None:
    """Validate true or false.

    `attribute` is the attrs field, which messages name; `value` is the value to check.

    Raises:
        SpecError: The value is not a boolean; 0 and 1 are not booleans.
    """
    if not isinstance(value, bool):
        raise SpecError(f"{attribute.name} is {format_value(value)}; it must be true or false.")


def is_positive(value: Any, maximum: float) -> bool:
    """Return True if the value is a number, and no boolean, above 0 and at most `maximum`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= maximum


@state_bounds(exclusiveMinimum=0, maximum=1)
def check_fraction(_: Any, attribute: Any, value: Any) -> None:
    """Validate a number above 0 and at most 1.

    `attribute` is the attrs field, which messages name; `value` is the value to check.

    Raises:
        SpecError: The value is not such a number.
    """
    if not is_positive(value, 1):
        raise SpecError(
            f"{attribute.name} is {format_value(value)}; it must be a number above 0, and at most 1."
        )


@state_bounds(**keywords_of_type(PathText))
def check_text(_: Any, attribute: Any, value: Any) -> None:
    """Validate a text that is not empty and has no null character.

    `attribute` is the attrs field, which messages name; `value` is the value to check.

    Raises:
        SpecError: The value is not such a text.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        raise SpecError(f"{attribute.name} is {format_value(value)}; it must be text.")


def one_of(*choices: str) -> Validator:
    """Return a validator that accepts only the names in `choices`, and raises `UnknownName` for any other value."""

    @state_bounds(enum=list(choices))
    def check(_: Any, attribute: Any, value: Any) -> None:
        if value not in choices:
            raise UnknownName(attribute.name.replace("_", " "), str(value), choices)

    return check


def optional(check: Validator) -> Validator:
    """Return a validator that accepts None and what `check` accepts, with the JSON Schema keywords of `check`.

    For any other value it raises the error of `check`.
    """

    @state_bounds(**keywords_of(check))
    def check_optional(instance: Any, attribute: Any, value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_optional
