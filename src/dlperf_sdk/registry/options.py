"""Options by name, distributed to the plugins that declare them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from dlperf_sdk.errors import SpecError, UnknownName, Unsupported
from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar, format_scalar


def split_options(spec: RunSpec, *owners: Any) -> tuple[Any, ...]:
    """Return the options of a spec as one instance of `Options` per owner, in the order of the owners.

    Args:
        spec: The case.
        owners: Plugins with an attrs class `Options`: model, framework and launcher.

    Returns:
        An instance of each owner's `Options`, with defaults for the options that the spec does not set.

    Raises:
        UnknownName: No owner declares an option of the spec.
        Unsupported: No owner declares an option of the spec, and a framework's plugin states why it lacks the option.
        SpecError: Two owners declare the same option, or an option has an impossible value.
    """
    declared = [{field.name for field in attrs.fields(owner.Options)} for owner in owners]
    for (first, names), (second, other_names) in itertools.combinations(
        zip(owners, declared, strict=True), 2
    ):
        if names & other_names:
            raise SpecError(
                f"{first.name} and {second.name} both declare the option {min(names & other_names)!r}; "
                "one must rename it."
            )
    known = set().union(*declared)
    for name in spec.options:
        if name not in known:
            _check_stated_reasons(name, owners)
            with_options = [owner.name for owner, names in zip(owners, declared, strict=True) if names]
            described = " and ".join(f"`dlperf describe {owner}`" for owner in with_options)
            verb = "lists" if len(with_options) == 1 else "list"
            raise UnknownName(
                f"option of {' or '.join(with_options)}", name, known, f"{described} {verb} them."
            )
    return tuple(_options(owner, spec, names) for owner, names in zip(owners, declared, strict=True))


def _check_stated_reasons(option: str, owners: Iterable[Any]) -> None:
    """Raise Unsupported if one of the owners is a framework whose plugin states why it lacks the option."""
    for owner in owners:
        reason = owner.unsupported.get(option) if isinstance(owner, Framework) else None
        if reason:
            raise Unsupported(f"{owner.name} does not offer the option {option}. {reason}")


def options_of(owner: Any, spec: RunSpec) -> Any:
    """Return an instance of one plugin's `Options`, with defaults for the options that the spec does not set.

    Options of the spec that the plugin does not declare are ignored.

    Args:
        owner: A model, framework or launcher plugin with an attrs class `Options`.
        spec: The case.

    Raises:
        SpecError: An option has an impossible value.
    """
    return _options(owner, spec, {field.name for field in attrs.fields(owner.Options)})


def format_options(values: Mapping[str, Any]) -> str:
    """Return options (name → value) as a user types them, separated by commas: `image_size=64, fused=true`."""
    return ", ".join(f"{name}={format_scalar(value)}" for name, value in values.items())


def _options(owner: Any, spec: RunSpec, names: set[str]) -> Any:
    chosen = {name: value for name, value in spec.options.items() if name in names}
    defaults = {field.name: field.default for field in attrs.fields(owner.Options)}
    for name, value in chosen.items():
        if not _has_type_of(value, defaults[name]):
            raise SpecError(
                f"The option {name} of {owner.name} is {_quote(value)}; its default is {_quote(defaults[name])}, "
                f"so it must be {_KINDS[type(defaults[name])]} as well."
            )
    try:
        return owner.Options(**chosen)
    except (TypeError, ValueError) as error:
        raise SpecError(f"The options {format_options(chosen)} do not fit {owner.name}: {error}") from error


def _quote(value: Scalar) -> str:
    return repr(value) if isinstance(value, str) else format_scalar(value)


_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _has_type_of(value: Scalar, default: Any) -> bool:
    """Return True if a value has the type of an option's default, as far as the default determines it."""
    kind = type(default)
    if value is None:
        return True  # the options' class checks whether None is allowed
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return kind not in _KINDS or type(value) is kind
