"""A campaign as values: matrices of cases, changes to their fields, and settings for their execution."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.campaigns.matrix import (
    MOST_CASES,
    MOST_DECISIONS,
    Matrix,
    Override,
    apply_overrides,
    flatten_fields,
)
from dlperf_sdk.campaigns.predicate import Predicate
from dlperf_sdk.errors import CampaignError, SpecError, UnknownName, UsageError
from dlperf_sdk.planning.secret_variables import conceal_secrets
from dlperf_sdk.planning.spec_file import (
    NOT_FROM_A_FILE,
    Restricted,
    declaration_lookup,
    list_restricted_settings,
)
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
"""Kind of failure → default number of retries after it. After any other kind, such as out of memory, a retry
would only fail again."""


def _retries(retries: Mapping[str, int]) -> dict[str, int]:
    for kind in retries:
        if kind not in RETRIES:
            raise UnknownName("failure to retry after", kind, RETRIES)
    return {**RETRIES, **retries}


@frozen(kw_only=True)
class Settings:
    """Settings for the execution of a campaign.

    Raises:
        UnknownName: `retry` has a kind of failure after which no retry is possible, or that does not exist.
    """

    seed: int = 0
    """Seed of the order inside a round."""
    interleave: bool = True
    """True to take one repeat of every case before the next repeat of any, so that drift and heat favor none."""
    adjacent: int = 1
    """Number of consecutive cases whose repeats of one round run one after the other, in random order. It is 2 in
    an interleaved gate, whose cases are the baseline and the candidate of each pair."""
    retry: Mapping[str, int] = attrs.field(default=RETRIES, converter=_retries)
    """Kind of failure → number of retries after it; `RETRIES` for kinds that are not given."""
    case_limit: float | None = None
    """Maximum seconds for all attempts of a case together; None: no limit."""
    campaign_limit: float | None = None
    """Maximum seconds for one session, after which the campaign can be resumed; None: no limit."""
    cooldown: float = 0.0
    """Seconds of rest before each attempt."""
    quiet_share: float = 0.1
    """Fraction of this machine's cores that other processes may use before it is noted."""
    quiet_wait: float = 0.0
    """Maximum seconds to wait until other processes use at most `quiet_share`; 0: do not wait."""
    missing: str = "refuse"
    """What to do with cases whose framework, model, launcher or data folder is missing: `refuse` the campaign, or
    `skip` them."""
    max_cases: int = MOST_CASES
    """Maximum number of cases before exclusion."""
    trace: bool = False
    """True for an extra attempt of every case under its framework's profiler, which no metric includes."""


@frozen(kw_only=True)
class Block:
    """A matrix, and the positions of its parts in a file."""

    matrix: Matrix
    location: str = ""
    """`FILE:LINE` of the matrix; empty for one that was made in Python."""
    places: Mapping[str, str] = attrs.field(factory=dict)
    """Field → `FILE:LINE` of its values."""
    spots: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    """Field and value, as text → `FILE:LINE` of the first occurrence of that value."""
    includes: tuple[str, ...] = ()
    """`FILE:LINE` of each entry of `include`."""

    def locate(self, name: str, value: Any) -> str:
        """Return the position in the campaign's file, `FILE:LINE`, at which a field gets a value.

        If the value's own line is not known, this is the line of the field. If that is not known either, it is the
        line of the matrix. The result is empty for a matrix that was made in Python.

        Args:
            name: Name of the field.
            value: The value.
        """
        return self.spots.get((name, str(value))) or self.places.get(name, self.location)


@frozen(kw_only=True)
class Excluded:
    """A predicate that selects cases to leave out, from all matrices of the campaign."""

    when: Predicate
    location: str = ""
    """`FILE:LINE` of the predicate; empty for one that was made in Python."""


@frozen(kw_only=True)
class Campaign:
    """Cases and settings for their execution, made by `make_campaign`, or from a file by `file.load_campaign`.

    Iteration yields (fields, block, location) for each case that is not excluded: the fields of its run spec, the
    block that it comes from, and its `FILE:LINE`, which is empty if the campaign was made in Python.
    """

    name: str
    """Name of the campaign."""
    description: str = ""
    """Purpose of the campaign; may be empty."""
    blocks: tuple[Block, ...]
    """The matrices, in order."""
    exclude: tuple[Excluded, ...] = ()
    """Predicates of cases to leave out of all blocks."""
    overrides: tuple[tuple[Override, str], ...] = ()
    """Overrides for all blocks, each with its `FILE:LINE`."""
    settings: Settings = Settings()
    """Settings for the execution."""
    source: str | None = None
    """File that the campaign was read from; None for one made in Python."""
    overridden: tuple[str, ...] = ()
    """Names of the settings that were given in place of the file's."""

    @property
    def size(self) -> int:
        """Number of cases before any is excluded, equal ones included."""
        return sum(block.matrix.size for block in self.blocks)

    @property
    def decisions(self) -> int:
        """Number of times that an entry of `exclude` or `overrides` is applied to a case, in total over all cases."""
        in_blocks = sum(block.matrix.decisions for block in self.blocks)
        return in_blocks + self.size * (len(self.exclude) + len(self.overrides))

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Block, str]]:
        """Yield the fields of each case that is not excluded, the block that it comes from, and its `FILE:LINE`."""
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
    """Name of the case's run, which is the same for equal specs of a campaign."""
    spec: RunSpec
    """The spec, with hashes in place of secret values of variables."""
    location: str
    """`FILE:LINE` of the entry of `include` or the matrix that the case comes from; empty if it was made in Python."""


def expand_cases(campaign: Campaign, stamp: str, registry: Registry | None = None) -> Iterator[CampaignCase]:
    """Yield the cases of a campaign in order. Of cases whose specs differ in their labels only, yield the first.

    For a campaign file, each complete case is checked: no field may have a value that decides what is executed or
    read, whichever part of the file sets it.

    Args:
        campaign: The campaign.
        stamp: The campaign's stamp, with which the ids of its cases begin.
        registry: The plugins; None for the installed ones.

    Raises:
        CampaignError: A case has an impossible value, or one that a file may not set; or the campaign has no case
            or too many. The message begins with `FILE:LINE` if it is known.
        SpecError: A predicate asks for a property of the topology of a case, and that topology is malformed.
    """
    settings, digests = campaign.settings, set[str]()
    plugins = registry or Registry()
    look_up = declaration_lookup(plugins)
    if campaign.size > settings.max_cases:
        _refuse_explosion(campaign)
    if campaign.decisions > MOST_DECISIONS:
        _refuse_decisions(campaign)
    for fields, block, location in campaign:
        try:
            spec = RunSpec(**fields)
        except (UsageError, TypeError) as error:
            raise CampaignError(f"{_locate_error(block, fields, error)}{_sentence(error)}") from error
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
    """Return the first 12 hexadecimal digits of the SHA-256 of a spec without its labels.

    Specs that differ in their labels only have the same digest.
    """
    plain = {name: value for name, value in spec.to_dict().items() if name != "labels"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def _locate_error(block: Block, fields: Mapping[str, Any], error: Exception) -> str:
    """Return `FILE:LINE: ` of the field that an error is about, else of the block's matrix; empty if neither is known.

    Args:
        block: The block of the case.
        fields: The fields of the case that raised the error.
        error: The error; the field is recognized by the error's attributes and message.
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


def _refuse_decisions(campaign: Campaign) -> None:
    location = max(campaign.blocks, key=lambda block: block.matrix.size).location
    raise CampaignError(
        f"{_prefix(location)}The campaign {campaign.name} applies its entries of `exclude` and `overrides` to "
        f"{campaign.size:,} cases, {campaign.decisions:,} times in all, and may do so {MOST_DECISIONS:,} times. "
        "Leave entries or cases out."
    )


def _shorten_count(count: int) -> str:
    """Return a number in digits, shortened if it is very large."""
    return f"{count:,}" if count < 10**15 else f"more than 10^{int(math.log10(count))}"


def make_campaign(cases: Matrix | Campaign, **settings: Any) -> Campaign:
    """Return a new campaign with the given settings, made from one matrix or as a changed copy of a campaign.

    Args:
        cases: A matrix, which becomes a campaign named `campaign`, or a campaign.
        settings: Fields of `Settings`, in place of the defaults or of the campaign's.

    Raises:
        UnknownName: There is no such setting, or no such kind of failure in `retry`.
        SpecError: `cases` is neither a matrix nor a campaign.
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
