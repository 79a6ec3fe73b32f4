"""Planning of a campaign: which cases can be run here, and why others cannot. Nothing is started."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk import data
from dlperf_sdk.campaigns.campaign import Block, Campaign, CampaignCase, expand_cases
from dlperf_sdk.errors import CampaignError, PluginError, RunFailed, SpecError, UnknownName, UsageError
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import VOCABULARY
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

_PLUGINS = {"framework": "frameworks", "model": "models", "topology": "topologies"}

_PLAN_NEUTRAL = {
    *(
        "batch_size",
        "seed",
        "protocol",
        "canonical_steps",
        "warmup",
        "steps",
        "repeats",
        "max_repeats",
        "target",
    ),
    *("on_busy", "deadlines", "memory_limit", "labels"),
}
"""Fields of a spec that no refusal depends on. A new field counts as relevant until it is listed here."""

MISSING = "missing"
"""Kind of refusal of a case whose framework, model, launcher or data folder is missing or does not work."""


@frozen
class Entry:
    """A case of a campaign, with the reason if it cannot be run here."""

    case: CampaignCase
    """The case."""
    refusal: tuple[str, str] | None
    """Kind of failure, or `MISSING`, and the message as a sentence; None if the case can be run."""
    location: str
    """`FILE:LINE` of what the case comes from or, if it cannot be run, of the field that causes this; empty if it
    is not known."""


def stamp() -> str:
    """Return a new stamp for a campaign, the prefix of the ids of its cases, such as `20260131T120000Z-1f3a9c`.

    It has the time in UTC, and six random hexadecimal digits.
    """
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def _plan_cases(campaign: Campaign, registry: Registry, stamp: str) -> Iterator[Entry]:
    """Yield the cases of a campaign one by one, each with its refusal if it cannot be run here.

    Cases that differ only in fields that cannot matter (batch size, seed, protocol, deadlines) are planned once.

    Args:
        campaign: The campaign.
        registry: The plugins.
        stamp: The campaign's stamp.

    Raises:
        CampaignError: A case or a predicate has an invalid value or an unknown name; something that a case needs is
            missing and the settings do not skip such cases; or the campaign has no case or too many. The message
            begins with `FILE:LINE` if it is known.
        SpecError: A predicate asks for a property of a topology that is malformed.
        PluginError: A plugin that a case needs does not work, and the settings do not skip such cases.
    """
    _check_predicates(campaign, registry)
    refusals: dict[str, tuple[str, str] | UsageError | None] = {}
    places: dict[tuple[str, str], str] = {}
    for case in expand_cases(campaign, stamp, registry):
        key = _key(case.spec)
        if key not in refusals:
            skips = campaign.settings.missing == "skip"
            refusals[key] = _refuse_missing_data(case.spec, skips) or _check_case(case.spec, registry, skips)
        verdict = refusals[key]
        if isinstance(verdict, UsageError):
            raise CampaignError(f"{_locate_refused_setting(campaign, case, verdict)}{verdict}") from verdict
        location = case.location
        if verdict is not None:
            if (location, key) not in places:
                places[location, key] = _locate_refused_field(campaign, case, verdict[1])
            location = places[location, key]
        yield Entry(case, verdict, location)


def plan_campaign(campaign: Campaign, registry: Registry) -> tuple[str, list[Entry]]:
    """Return a new stamp for a campaign, and the entries of all its cases, of which at least one can be run here.

    The entries are in the campaign's order.

    Args:
        campaign: The campaign.
        registry: The plugins.

    Raises:
        CampaignError: A case or a predicate has an invalid value or an unknown name; something that a case needs is
            missing and the settings do not skip such cases; the campaign has no case or too many; or no case can be
            run here. The message begins with `FILE:LINE` if it is known.
        SpecError: A predicate asks for a property of a topology that is malformed.
        PluginError: A plugin that a case needs does not work, and the settings do not skip such cases.
    """
    timestamp = stamp()
    entries = list(_plan_cases(campaign, registry, timestamp))
    if all(entry.refusal is not None for entry in entries):
        first = entries[0]
        assert first.refusal is not None
        location = f"{first.location}: " if first.location else ""
        raise CampaignError(
            f"{location}None of the {len(entries)} cases of {campaign.name} can be run here. The first: "
            f"{first.refusal[1]}"
        )
    return timestamp, entries


def list_runnable(entries: Iterable[Entry]) -> list[RunSpec]:
    """Return the specs of the cases that can be run here, in order; empty if there are none."""
    return [entry.case.spec for entry in entries if entry.refusal is None]


def _check_predicates(campaign: Campaign, registry: Registry) -> None:
    """Check that every value in a predicate is one that a case has or a plugin knows; a misspelt one would never match.

    Values of `topology`, `data` and `python` are not checked.

    Raises:
        CampaignError: A predicate names an unknown value; the message begins with `FILE:LINE` if it is known.
    """
    predicates = [(condition.when, condition.location) for condition in campaign.exclude]
    predicates += [(override.when, location) for override, location in campaign.overrides if override.when]
    predicates += [
        (condition, block.location) for block in campaign.blocks for condition in block.matrix.exclude
    ]
    predicates += [
        (override.when, block.location)
        for block in campaign.blocks
        for override in block.matrix.overrides
        if override.when
    ]
    values: dict[str, set[str]] = {}
    for name in {name for condition, _ in predicates for name, _ in condition.values}:
        values[name] = _list_known_names(campaign, name, registry)
    for condition, location in predicates:
        for name, value in condition.values:
            if value not in values[name] and name not in ("topology", "data", "python"):
                unknown = UnknownName(name, value, values[name])
                raise CampaignError(f"{location}: {unknown}" if location else str(unknown)) from unknown


def _list_known_names(campaign: Campaign, field: str, registry: Registry) -> set[str]:
    """Return the names that a field may have: those in the matrix, and those that are generally known."""
    names = set(VOCABULARY.get(field, ()))
    if field in _PLUGINS or field == "launcher":
        names |= set(registry.names(_PLUGINS.get(field, "topologies")))
    layers: list[Any] = [override.set for override, _ in campaign.overrides]
    for block in campaign.blocks:
        layers += [
            block.matrix.fields,
            *block.matrix.include,
            *(override.set for override in block.matrix.overrides),
        ]
        layers += [{field: value} for value in block.matrix.axes.get(field, ())]
        layers += [{field: value} for group in block.matrix.zip for value in group.get(field, ())]
    names |= {str(layer[field]) for layer in layers if field in layer}
    default = getattr(attrs.fields_dict(RunSpec).get(field), "default", None)
    return names | ({default} if isinstance(default, str) else set())


def _refuse_missing_data(spec: RunSpec, skip_missing: bool) -> tuple[str, str] | UsageError | None:
    """Return the refusal of a case whose folder of data does not exist; it precedes all others, as in a run."""
    try:
        data.check_exists(spec.data)
    except SpecError as error:
        return (MISSING, str(error)) if skip_missing else error
    return None


def _check_case(spec: RunSpec, registry: Registry, skip_missing: bool) -> tuple[str, str] | UsageError | None:
    if spec.wants_max_batch:
        spec = attrs.evolve(spec, batch_size=spec.accumulation)
    try:
        make_plan(spec, registry)
    except RunFailed as error:
        return error.kind, str(error)
    except UnknownName as error:
        if skip_missing and error.kind in _PLUGINS:
            return MISSING, str(error)
        return error
    except PluginError as error:
        if skip_missing:
            return MISSING, str(error)
        raise
    except UsageError as error:
        return error
    return None


def _key(spec: RunSpec) -> str:
    """Return the parts of a spec that a refusal can depend on, as a text in which 1, 1.0 and true differ."""
    fields = (field.name for field in attrs.fields(RunSpec) if field.name not in _PLAN_NEUTRAL)
    return repr([getattr(spec, name) for name in fields])


def _locate_refused_setting(campaign: Campaign, case: CampaignCase, error: UsageError) -> str:
    """Return `FILE:LINE: ` of the setting that a plugin refused."""
    kind, name = getattr(error, "kind", "").split(" ")[0], getattr(error, "name", "")
    field = f"options.{name}" if kind == "option" else kind
    block = _block(campaign, case)
    if block is None:
        return f"{case.location}: " if case.location else ""
    place = block.locate("options" if kind == "option" and field not in block.places else field, name)
    return f"{place}: " if place else ""


def _locate_refused_field(campaign: Campaign, case: CampaignCase, message: str) -> str:
    """Return the `FILE:LINE` of the field whose value a plugin's error message names; else that of the case."""
    block = _block(campaign, case)
    plain = {name: str(value) for name, value in case.spec.to_dict().items()}
    candidates = (
        name for name in plain if re.search(rf"\b{name}\b.*{re.escape(repr(plain[name]))}", message)
    )
    name = next(candidates, None)
    if block is None or name is None:
        return case.location
    place = block.spots.get((name, plain[name]))
    return place or case.location


def _block(campaign: Campaign, case: CampaignCase) -> Block | None:
    """Return the matrix that a case comes from."""
    return next((b for b in campaign.blocks if case.location in (b.location, *b.includes)), None)
