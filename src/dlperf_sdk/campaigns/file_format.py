"""The format of campaign files (schema `campaign`), which `dlperf_sdk.campaigns.file` reads.

Sections of a file group the flat `Settings` of a campaign, and have the same defaults.
"""

# ruff: noqa: RUF009 - setting() makes an attrs field, not a default value

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs
from attrs import frozen

from dlperf_sdk.campaigns.campaign import RETRIES, Settings
from dlperf_sdk.documents.field_types import Deadline, PathText, Schema, Seconds, Seed, text
from dlperf_sdk.spec.run_spec import RunSpec

_RUN_SPEC = "urn:dlperf-sdk:schema:run-spec:1#/properties/"
_RETRIED = {
    "crashed": "A worker raised an exception, or died.",
    "lost-node": "A node stopped answering.",
    "timeout": "A phase passed its deadline.",
    "unavailable": "Devices, ports or files were missing.",
    "invalid-record": "A record broke the protocol.",
    "environment": "The environment could not be created.",
}


def setting(name: str) -> Any:
    """Return an attrs field whose default is that of the field `name` of the campaign's `Settings`."""
    return attrs.field(default=getattr(attrs.fields(Settings), name).default)


def _spec_field(name: str) -> dict[str, str]:
    return {"description": attrs.fields_dict(RunSpec)[name].metadata["help"], "$ref": _RUN_SPEC + name}


SpecFields = Annotated[
    Mapping[str, Any],
    Schema(
        name="fields",
        description="Fields of run specs.",
        type="object",
        properties={name: _spec_field(name) for name in attrs.fields_dict(RunSpec)},
        additionalProperties=False,
    ),
]
_VALUES = {"type": "array", "minItems": 1}
Axes = Annotated[
    Mapping[str, Any],
    Schema(
        name="axes",
        description="Lists of values for fields of run specs.",
        type="object",
        properties={
            name: {
                "description": field.metadata["help"],
                **_VALUES,
                "items": {"$ref": _RUN_SPEC + name},
            }
            for name, field in attrs.fields_dict(RunSpec).items()
        },
        additionalProperties={**_VALUES, "items": {"description": "A value."}},
    ),
]
PredicateObject = Annotated[
    Mapping[str, Any],
    Schema(
        name="predicate",
        description="Fields and their required values: a value, a list of values, or in, not, min, max. any: a list of "
        "predicates.",
        type="object",
        additionalProperties=True,
    ),
]
Retries = Annotated[
    Mapping[str, int],
    Schema(
        type="object",
        properties={
            kind: {
                "description": _RETRIED[kind],
                "type": "integer",
                "minimum": 0,
                "maximum": 100,
                "default": count,
            }
            for kind, count in RETRIES.items()
        },
        additionalProperties=False,
    ),
]


@frozen
class Matrix:
    """One matrix of cases."""

    fields: SpecFields = attrs.field(factory=dict)
    """Fields that all cases share; an axis, a zip or an included case overrides them."""
    axes: Axes = attrs.field(factory=dict)
    """Lists of values, of which every combination is a case; options.NAME is an axis, too. In the list of framework,
    all stands for all installed frameworks."""
    zip: tuple[Axes, ...] = ()
    """Groups of lists of equal length: their first values go together, their second, and so on."""
    include: tuple[SpecFields, ...] = ()
    """Single cases to add."""
    exclude: tuple[PredicateObject, ...] = ()
    """Predicates of cases to leave out."""


@frozen
class Override:
    """Fields to set."""

    set: SpecFields
    """The fields and their values."""
    when: PredicateObject | None = None
    """Predicate of the cases to change; all if absent."""


@frozen
class Order:
    """Order of the attempts."""

    seed: Seed = setting("seed")
    """Seed of the order inside a round."""
    interleave: bool = setting("interleave")
    """One repeat of every case before the next repeat of any, each round in its own order; false: case after
    case."""


@frozen
class Limits:
    """Time limits; deadlines of phases are a field of the cases."""

    case: Deadline | None = setting("case_limit")
    """Seconds for all attempts of a case together; beyond them, the case has failed."""
    campaign: Deadline | None = setting("campaign_limit")
    """Seconds for one session of the campaign, which can then be resumed."""


@frozen
class Quiet:
    """Waiting before each attempt until the machine is idle."""

    share: Annotated[float, Schema(exclusiveMinimum=0, maximum=1)] = setting("quiet_share")
    """Share of this machine's cores that other processes may use."""
    wait: Seconds = setting("quiet_wait")
    """Maximum seconds to wait, after which the attempt starts with a note; 0: do not wait."""


@frozen
class CampaignFile(Matrix):
    """A matrix of benchmark cases, with settings for its execution."""

    name: Annotated[
        str,
        text(
            "^[a-z0-9][a-z0-9._-]{0,63}$",
            "a name (lower-case letters and digits, and '.', '_' and '-' behind the first) of at most 64 characters",
        ),
    ] = attrs.field(kw_only=True)
    """Name of the campaign."""
    schema_location: str | None = attrs.field(default=None, metadata={"key": "$schema"})
    """Location of this schema, for editors; ignored otherwise."""
    description: str = ""
    """Purpose of the campaign."""
    extends: tuple[PathText, ...] = ()
    """Files, relative to this one and below its directory, or presets (preset:NAME), whose cases come first."""
    matrices: tuple[Matrix, ...] = ()
    """Further matrices, each with its own axes."""
    overrides: tuple[Override, ...] = ()
    """Fields to set in the cases that a predicate selects, or in all cases, including those of extended files. Later
    overrides win."""
    order: Order = Order()
    """Order of the attempts."""
    retry: Retries = attrs.field(factory=dict)
    """Number of retries after a failure of a kind. Running out of memory is never retried."""
    limits: Limits = Limits()
    """Time limits."""
    cooldown: Seconds = setting("cooldown")
    """Seconds of rest before each attempt."""
    quiet: Quiet = Quiet()
    """Waiting before each attempt until the machine is idle."""
    missing: Annotated[str, Schema(enum=["refuse", "skip"])] = setting("missing")
    """Action on cases whose framework, model or launcher is not installed: refuse the campaign, or skip them."""
    trace: bool = setting("trace")
    """An extra attempt of every case under its framework's own profiler, which no metric includes."""
    max_cases: Annotated[int, Schema(minimum=1, maximum=100_000)] = setting("max_cases")
    """Largest number of cases; a campaign with more is refused."""
