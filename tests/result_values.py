"""Hypothesis strategies for the values of a result, within the bounds that the schemas state."""

import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from dlperf_sdk.documents.field_types import Real, Timestamp, WrittenAs
from dlperf_sdk.results import records as r
from dlperf_sdk.results import result as res
from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import PHASES, DataSpec, TopologySpec

TEXT = st.text(max_size=12)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
REAL = FINITE | st.sampled_from([math.nan, math.inf, -math.inf])
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | FINITE | TEXT
FREE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)


@st.composite
def specs(draw):
    """Run specs that are valid: the cross-field rules hold."""
    protocol = draw(st.sampled_from(sorted(PROTOCOLS)))
    accumulation = draw(st.integers(1, 16))
    repeats = draw(st.none() | st.integers(1, 100_000))
    adaptive = PROTOCOLS[protocol].target is not None
    least = repeats or PROTOCOLS[protocol].repeats
    return RunSpec(
        framework=draw(NAMES),
        model=draw(NAMES),
        topology=TopologySpec(draw(st.integers(1, 999_999)), draw(st.integers(1, 999_999)), draw(NAMES)),
        batch_size=accumulation * draw(st.integers(1, (2**31 - 1) // 16)),
        accumulation=accumulation,
        precision=draw(NAMES),
        compiler=draw(NAMES),
        strategy=draw(NAMES),
        layout=draw(NAMES),
        device=draw(NAMES),
        data=DataSpec(
            draw(NAMES), draw(st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1))
        ),
        learning_rate_policy=draw(st.sampled_from(["constant", "warmup"])),
        seed=draw(st.integers(0, 2**32 - 1)),
        protocol=protocol,
        canonical_steps=draw(st.none() | st.integers(0, 100_000)),
        warmup=draw(st.none() | st.integers(0, 100_000)),
        steps=draw(st.none() | st.integers(1, 100_000)),
        repeats=repeats,
        max_repeats=draw(st.none() | st.integers(least, 100_000)) if adaptive else None,
        target=draw(st.none() | st.floats(0, 1, exclude_min=True)) if adaptive else None,
        python=draw(st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1)),
        env=draw(
            st.dictionaries(
                st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True),
                st.none() | st.text(st.characters(exclude_characters="\0")),
                max_size=2,
            )
        ),
        options=draw(
            st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]*", fullmatch=True), SCALAR, max_size=2)
        ),
        on_busy=draw(st.sampled_from(["wait", "note", "refuse"])),
        deadlines=draw(
            st.dictionaries(st.sampled_from(PHASES), st.floats(0, 1e9, exclude_min=True), max_size=3)
        ),
        labels=draw(
            st.dictionaries(
                st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]*", fullmatch=True),
                st.text(st.characters(min_codepoint=32), min_size=1, max_size=200),
                max_size=2,
            )
        ),
    )


def values_of(hint):
    """Values of a type, within the bounds that its schema states."""
    if hint in SPECIAL:
        return SPECIAL[hint]
    if attrs.has(hint):
        return instances_of(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(hint.__origin__, hint.__metadata__)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*(values_of(argument) for argument in arguments))
    if origin in (tuple, Sequence):
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    raise TypeError(f"no values of {hint!r}: add it to SPECIAL")


def _annotated(plain, annotations):
    for annotation in annotations:
        if isinstance(annotation, WrittenAs):
            continue
        allowed = annotation.keywords
        if "enum" in allowed:
            return st.sampled_from(allowed["enum"])
        if "pattern" in allowed:
            return st.from_regex(allowed["pattern"], fullmatch=True)
        if plain is int:
            return st.integers(allowed["minimum"], allowed["maximum"])
        if plain is float:
            return st.floats(allowed["minimum"], allowed["maximum"])
    return values_of(plain)


def instances_of(cls, **fields):
    """Instances of an attrs class: the values of a field follow from its type, except those of `fields`."""
    hints = get_type_hints(cls, include_extras=True)
    derived = {
        field.name: values_of(hints[field.name])
        for field in attrs.fields(cls)
        if field.init and field.name not in fields
    }
    return st.builds(cls, **derived, **fields)


UTC = st.datetimes().map(lambda when: when.strftime("%Y").zfill(4) + when.strftime("-%m-%dT%H:%M:%SZ"))
SPECIAL = {
    str: TEXT,
    bool: st.booleans(),
    NoneType: st.none(),
    Any: FREE,
    Real: REAL,
    Timestamp: UTC,
    RunSpec: specs(),
    r.Window: st.lists(st.floats(0, 1e9), min_size=2, max_size=2, unique=True).map(
        lambda edges: r.Window(*sorted(edges))
    ),
}
RECORDS = instances_of(r.Record)


@st.composite
def results(draw):
    failure = draw(st.none() | instances_of(r.Failure))
    status = "ok" if failure is None else failure.kind
    return draw(instances_of(res.Result, status=st.just(status), failure=st.just(failure)))
