"""The matrix: axes that are combined, values that vary together, single cases, and exclusions.

Cases are generated one by one, so that a matrix with too many cases is noticed before it fills the memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.campaigns.predicate import Predicate, predicate
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import SpecError, UnknownName
from dlperf_sdk.spec.run_spec import RunSpec

FIELDS = tuple(field.name for field in attrs.fields(RunSpec))
MOST_CASES = 10_000
"""Default maximum number of cases of a campaign. More are usually a mistake."""
MOST_DECISIONS = 2_000_000
"""Maximum number of times that an entry of `exclude` or `overrides` is applied to a case of a campaign."""


@frozen
class Override:
    """Fields to set in the cases that a predicate selects, or in all cases."""

    set: Mapping[str, Any]
    """Field → value."""
    when: Predicate | None = None
    """Predicate of the cases to change; None for all."""


def _fields(_: Any, attribute: Any, value: Any) -> None:
    for name in value:
        check_field(name)


def _axes(_: Any, attribute: Any, value: Any) -> None:
    for name, values in value.items():
        check_field(name)
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise SpecError(
                f"The axis {name} is {format_value(values)}; it must be a list of at least one value."
            )


def _zips(_: Any, attribute: Any, value: Any) -> None:
    for group in value:
        _axes(_, attribute, group)
        if not group or len({len(values) for values in group.values()}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in group.items()) or "nothing"
            raise SpecError(f"Fields that go together need lists of equal length; these have: {lengths}.")


def check_field(name: Any) -> None:
    """Check that a case has a field of this name; `options.NAME` sets one option.

    Raises:
        UnknownName: There is no such field, or `name` is no text.
    """
    if name not in FIELDS and not (isinstance(name, str) and name.startswith("options.")):
        raise UnknownName("field of a run spec", str(name), (*FIELDS, "options.NAME"))


def _tuple(items: Any) -> tuple[Any, ...]:
    return tuple(items)


def _predicates(items: Sequence[Any]) -> tuple[Predicate, ...]:
    return tuple(item if isinstance(item, Predicate) else predicate(item) for item in items)


def _overrides(items: Sequence[Any]) -> tuple[Override, ...]:
    return tuple(item if isinstance(item, Override) else _override(item) for item in items)


def _override(plain: Any) -> Override:
    if (
        not isinstance(plain, Mapping)
        or not isinstance(plain.get("set"), Mapping)
        or set(plain) - {"set", "when"}
    ):
        raise SpecError(
            f"An override is {format_value(plain)}; it must have the fields to set, and may say when: "
            "{set: {repeats: 5}, when: {nodes: {min: 2}}}."
        )
    for name in plain["set"]:
        check_field(name)
    return Override(dict(plain["set"]), predicate(plain["when"]) if "when" in plain else None)


def _copy(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)


@frozen(kw_only=True)
class Matrix:
    """Cases, as the fields of their run specs.

    The lists of a group of `zip` vary together: each position in them is one line of values. Every combination of
    the `axes` with one line of each group is a case, and every entry of `include` is a further case; all share
    `fields`. If a field is given more than once, include wins over zip, zip over
    axes, and axes over fields. Then `overrides` are applied. A case that matches a predicate of `exclude` is left
    out. Iteration yields dictionaries of fields.

        Matrix(fields={"model": "resnet50"}, axes={"framework": ["torch", "mxnet"], "topology": ["1n1d", "1n2d"]},
               zip=[{"precision": ["fp32", "amp-fp16"], "batch_size": [128, 256]}],
               exclude=[{"framework": "mxnet", "batch_size": {"min": 256}}])

    Raises:
        SpecError: An axis has no values, the lists of a group of `zip` differ in length, or a predicate or an override
            is malformed.
        UnknownName: There is no field of a given name.
    """

    fields: Mapping[str, Any] = attrs.field(factory=dict, converter=_copy, validator=_fields)
    axes: Mapping[str, Sequence[Any]] = attrs.field(factory=dict, converter=_copy, validator=_axes)
    zip: Sequence[Mapping[str, Sequence[Any]]] = attrs.field(factory=tuple, converter=_tuple, validator=_zips)
    include: Sequence[Mapping[str, Any]] = attrs.field(factory=tuple, converter=_tuple)
    exclude: Sequence[Any] = attrs.field(factory=tuple, converter=_predicates)
    """Predicates, or the mappings that `predicate` reads them from."""
    overrides: Sequence[Any] = attrs.field(factory=tuple, converter=_overrides)
    """Overrides, or mappings with `set` and perhaps `when`. Later overrides win. They are applied before the
    exclusion."""

    @include.validator
    def _check_include(self, attribute: Any, value: Any) -> None:
        for entry in value:
            _fields(self, attribute, entry)

    @property
    def size(self) -> int:
        """Number of cases before any is excluded, computed without generating them.

        It may be larger than the greatest number that `len` can return.
        """
        sizes = [len(values) for values in self.axes.values()]
        sizes += [len(next(iter(group.values()))) for group in self.zip]
        crossed = math.prod(sizes) if sizes else 0
        return crossed + len(self.include)

    @property
    def decisions(self) -> int:
        """Number of times that an entry of `exclude` or `overrides` is evaluated for a case, over all cases."""
        return self.size * (len(self.exclude) + len(self.overrides))

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each case that is not excluded: combinations first, then the included cases.

        The last axis varies fastest, and groups of `zip` vary faster than axes.
        """
        for fields, _ in self.number_cases():
            yield fields

    def number_cases(self) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield (fields, index) for each case that is not excluded: the combinations first, then the included cases.

        The index is that of the case's entry in `include`; None for a case that is a combination of `axes` and
        `zip`. Of the combinations, the last group of `zip` varies fastest, and the first axis slowest.

        Raises:
            SpecError: A predicate asks for a property of a topology that is malformed.
        """
        for fields, number in self._combine():
            changed = apply_overrides(fields, self.overrides)
            if not any(condition.holds(changed) for condition in self.exclude):
                yield changed, number

    def _combine(self) -> Iterator[tuple[dict[str, Any], int | None]]:
        lines: list[Sequence[Mapping[str, Any]]] = [
            [{name: value} for value in values] for name, values in self.axes.items()
        ]
        for group in self.zip:
            length = len(next(iter(group.values())))
            lines.append([{name: values[i] for name, values in group.items()} for i in range(length)])
        if lines:
            for combination in itertools.product(*lines):
                yield merge_layers(self.fields, *combination), None
        for i, entry in enumerate(self.include):
            yield merge_layers(self.fields, entry), i


def apply_overrides(fields: dict[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Return a copy of a case's fields, changed by the overrides whose predicates select the case.

    The overrides are applied in order, and each predicate sees the changes of the overrides before it.

    Args:
        fields: Fields of the case.
        overrides: The overrides; later ones win.

    Raises:
        SpecError: A predicate asks for a property of a topology that is malformed.
    """
    for override in overrides:
        if override.when is None or override.when.holds(fields):
            fields = merge_layers(fields, override.set)
    return fields


def merge_layers(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of all layers merged, where later layers win.

    Fields that are mappings, such as `options` and `env`, are merged by key. A field `options.NAME` becomes the entry
    NAME of `options`. The layers stay unchanged.
    """
    flat: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if name.startswith("options."):
                flat["options"] = {**flat.get("options", {}), name.removeprefix("options."): value}
            elif isinstance(value, Mapping) and isinstance(flat.get(name), Mapping):
                flat[name] = {**flat[name], **value}
            else:
                flat[name] = value
    return flat


def flatten_fields(fields: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield (name, keys, value) for each field.

    A field F has the name `F` and the keys (F,). If its value is a mapping, it is followed by the entries of the
    mapping: an entry N has the name `F.N` and the keys (F, N).
    """
    for name, value in fields.items():
        yield name, (name,), value
        if isinstance(value, Mapping):
            for inner, item in value.items():
                yield f"{name}.{inner}", (name, inner), item
