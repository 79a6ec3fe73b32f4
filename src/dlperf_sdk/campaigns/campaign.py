"""Define a campaign as values: matrices, what is changed in their cases, and how they are carried out."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.campaigns.matrix import MOST_CASES, Matrix, Override, apply_overrides, flatten_fields
from dlperf_sdk.campaigns.predicate import Predicate
from dlperf_sdk.errors import CampaignError, SpecError, UnknownName, UsageError
from dlperf_sdk.planning.secret_variables import conceal_secrets
from dlperf_sdk.planning.spec_file import NOT_FROM_A_FILE, Restricted, declarations, list_restricted_settings
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.store import run_id
from dlperf_sdk.spec.run_spec import RunSpec

RETRIES: Mapping[str, int] = {
    "crashed": 1,
    "lost-node": 2,
    "unavailable": 1,
    "environment": 1,
    "timeout": 0,
    "invalid-record": 0,
}
"""Failure kind → how often a case is tried again after it. Running out of memory, and what a plugin does not support,
would only fail again."""


def _retries(retries: Mapping[str, int]) -> dict[str, int]:
    for kind in retries:
        if kind not in RETRIES:
            raise UnknownName("failure to retry after", kind, RETRIES)
    return {**RETRIES, **retries}


@frozen(kw_only=True)
class Settings:
    """Settings for the execution of a campaign."""

    seed: int = 0
    """Decides the order inside a round."""
    interleave: bool = True
    """One repeat of every case before the next repeat of any, so that drift and heat favor none."""
    adjacent: int = 1
    """Consecutive cases whose repeats of one round run one after the other, in random order: 2 in an interleaved gate,
    whose cases are the baseline and the candidate of each pair."""
    retry: Mapping[str, int] = attrs.field(default=RETRIES, converter=_retries)
    case_limit: float | None = None
    """Seconds for all attempts of a case together."""
    campaign_limit: float | None = None
    """Seconds for one session; what is left can be resumed."""
    cooldown: float = 0.0
    """Seconds of rest before each attempt."""
    quiet_share: float = 0.1
    """The share of this machine's cores that others may use before it is noted."""
    quiet_wait: float = 0.0
    """Seconds to wait at most for others to use less than that."""
    missing: str = "refuse"
    """Cases whose framework, model or launcher is not installed: `refuse` the campaign, or `skip` them."""
    max_cases: int = MOST_CASES
    trace: bool = False
    """An extra attempt of every case under its framework's profiler, part of no figure."""


@frozen(kw_only=True)
class Block:
    """A matrix, and where its parts stand in a file."""

    matrix: Matrix
    location: str = ""
    """`FILE:LINE` of the matrix; empty for one made in Python."""
    places: Mapping[str, str] = attrs.field(factory=dict)
    """Field → the `FILE:LINE` where its values stand."""
    spots: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    """Field and value, as a text → the `FILE:LINE` where that value stands first."""
    includes: tuple[str, ...] = ()
    """The `FILE:LINE` of each entry of `include`."""

    def locate(self, name: str, value: Any) -> str:
        """Return the `FILE:LINE` of the value of the field `name`; if unknown, of the field, else of the matrix."""
        return self.spots.get((name, str(value))) or self.places.get(name, self.location)


@frozen(kw_only=True)
class Excluded:
    """A predicate of the campaign as a whole, and where it stands."""

    when: Predicate
    location: str = ""


@frozen(kw_only=True)
class Campaign:
    """Cases, and how to carry them out, made by `make_campaign` or from a file by `file.load_campaign`."""

    name: str
    description: str = ""
    blocks: tuple[Block, ...]
    exclude: tuple[Excluded, ...] = ()
    overrides: tuple[tuple[Override, str], ...] = ()
    """With the place of each in its file."""
    settings: Settings = Settings()
    source: str | None = None
    """The file that it was read from."""
    overridden: tuple[str, ...] = ()
    """The settings that were given instead of the file's."""

    @property
    def size(self) -> int:
        """Cases before anything is left out."""
        return sum(block.matrix.size for block in self.blocks)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Block, str]]:
        """Yield the fields of each case, the block that it comes from, and its position in the file."""
        overrides = [override for override, _ in self.overrides]
        for block in self.blocks:
            for fields, number in block.matrix.number_cases():
                changed = apply_overrides(fields, overrides)
                if not any(condition.when.holds(changed) for condition in self.exclude):
                    included = number is not None and number < len(block.includes)
                    yield changed, block, block.includes[number or 0] if included else block.location


@frozen
class CampaignCase:
    """One case of a campaign."""

    id: str
    """The same for equal specs: what its directory is named after."""
    spec: RunSpec
    location: str
    """`FILE:LINE` of what it comes from: its entry of `include`, or its matrix."""


def expand_cases(campaign: Campaign, stamp: str, registry: Registry | None = None) -> Iterator[CampaignCase]:
    """Yield the cases of a campaign in their order, each once.

    A case of a campaign file is checked here, after everything is merged: wherever in the file a value stands, and
    however it is written, it may not decide what is executed or read.

    Args:
        campaign: The campaign.
        stamp: Its stamp, which begins the ids of its cases.
        registry: The plugins; those that are installed, unless given.

    Raises:
        CampaignError: a case has an impossible value, or one that a file may not set; there are too many cases, or
            none.
    """
    settings, digests = campaign.settings, set[str]()
    plugins = registry or Registry()
    look_up = declarations(plugins)
    if campaign.size > settings.max_cases:
        _refuse_explosion(campaign)
    for fields, block, location in campaign:
        try:
            spec = RunSpec(**fields)
        except (UsageError, TypeError) as error:
            raise CampaignError(f"{locate_error(block, fields, error)}{_sentence(error)}") from error
        concealed, _ = conceal_secrets(spec, plugins)
        key = digest(concealed)
        if key not in digests:
            digests.add(key)
            if campaign.source is not None:
                for setting in list_restricted_settings(spec.to_dict(), look_up):
                    raise CampaignError(_refusal(campaign, block, setting))
            yield CampaignCase(run_id(spec, stamp, key), concealed, location)
    if not digests:
        location = (
            f"{campaign.blocks[0].location}: " if campaign.blocks and campaign.blocks[0].location else ""
        )
        raise CampaignError(
            f"{location}The campaign {campaign.name} has no case: "
            + (
                f"all {campaign.size:,} are excluded."
                if campaign.size
                else "it has no axes, no zip and no include. Give at least one."
            )
        )


def _refusal(campaign: Campaign, block: Block, setting: Restricted) -> str:
    """Return the message about a setting that a campaign file may not have, with the file and line of the setting."""
    setters = (
        location
        for override, location in reversed(campaign.overrides)
        if any(
            name == setting.field and value == setting.value
            for name, _, value in flatten_fields(override.set)
        )
    )
    location = next(setters, None) or block.locate(setting.field, setting.value)
    return (
        f"{_prefix(location)}The case {setting.description}. {NOT_FROM_A_FILE} Remove `{setting.name}` from the file, "
        "or make the campaign in Python: campaign(Matrix(fields=…))."
    )


def digest(spec: RunSpec) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a spec: equal specs are one case."""
    return hashlib.sha256(json.dumps(spec.to_dict(), sort_keys=True).encode()).hexdigest()[:12]


def locate_error(block: Block, fields: Mapping[str, Any], error: Exception) -> str:
    """Return `FILE:LINE: ` of the field that an error is about, or of the block's matrix if the field is not known.

    `fields` are those of the case in the block that raised the error.
    """
    message, kind = str(error), getattr(error, "kind", "").replace(" ", "_")
    for name in fields:
        value = getattr(error, "name", None)
        if name == kind or (value is not None and fields[name] == value):
            return _prefix(block.locate(name, fields[name]))
    for name in fields:
        if re.search(rf"\b{re.escape(name)}\b", message):
            return _prefix(block.locate(name, fields[name]))
    return _prefix(block.location)


def _prefix(location: str) -> str:
    return f"{location}: " if location else ""


def _sentence(error: Exception) -> str:
    if isinstance(error, TypeError):
        return "Every case needs a framework and a model; give them in `fields`, or as axes."
    return str(error)


def _refuse_explosion(campaign: Campaign) -> None:
    largest = max(campaign.blocks, key=lambda block: block.matrix.size)
    sizes = " × ".join(f"{name} {len(values)}" for name, values in largest.matrix.axes.items())
    raise CampaignError(
        f"{_prefix(largest.location)}The campaign {campaign.name} has {_shorten_count(campaign.size)} cases "
        "before anything is "
        f"excluded{f' (its largest matrix: {sizes})' if sizes else ''}, and takes {campaign.settings.max_cases:,} at "
        "most. Leave values out, or allow so many with `max_cases`."
    )


def _shorten_count(count: int) -> str:
    """Return a number in digits, shortened if it is very large."""
    return f"{count:,}" if count < 10**15 else f"more than 10^{int(math.log10(count))}"


def make_campaign(cases: Matrix | Campaign, **settings: Any) -> Campaign:
    """Make a campaign from one matrix, with `settings` instead of the defaults.

    Raises:
        UnknownName: there is no such setting.
    """
    known = [field.name for field in attrs.fields(Settings)]
    for name in settings:
        if name not in known:
            raise UnknownName("setting of a campaign", name, known)
    if isinstance(cases, Campaign):
        return attrs.evolve(
            cases,
            settings=attrs.evolve(cases.settings, **settings),
            overridden=tuple(sorted({*cases.overridden, *settings})),
        )
    if not isinstance(cases, Matrix):
        raise SpecError(f"A campaign is made of a Matrix, not of a {type(cases).__name__}.")
    return Campaign(name="campaign", blocks=(Block(matrix=cases),), settings=Settings(**settings))
