"""Cases × plugins: what can be run here, what cannot, and why. Nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
from attrs import field, frozen

from dlperf_sdk.campaigns.campaign import Asked, Campaign, asked
from dlperf_sdk.capable import VOCABULARY
from dlperf_sdk.errors import CampaignError, PluginError, RunFailed, UnknownName, UsageError
from dlperf_sdk.plan import make_plan
from dlperf_sdk.registry import Registry, Row
from dlperf_sdk.spec import RunSpec

_PLUGINS = {"framework": "frameworks", "model": "models", "topology": "topologies"}


MISSING = "missing"
"""The refusal of a case whose framework, model or engine is not installed, or does not work."""


@frozen
class Entry:
    """A case of a campaign, and whether it can be run here."""

    asked: Asked
    refusal: tuple[str, str] | None
    """The kind of failure and the sentence that goes with it; None where it can be run."""


def stamp() -> str:
    """The time that the names of a campaign's runs begin with."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def entries(campaign: Campaign, registry: Registry, stamp: str) -> Iterator[Entry]:
    """The cases one by one.

    Cases that differ only in what cannot matter (batch size, seed, protocol) are judged once.

    Raises:
        CampaignError: a case names what nobody knows, or what is not installed and shall not be skipped; or a predicate
            asks for a name that neither a case nor a plugin has. The message names file and line.
        PluginError: a plugin that is needed does not work.
    """
    check_predicates(campaign, registry)
    once = _Once(registry.extra)
    judged: dict[Any, tuple[str, str] | UsageError | None] = {}
    for each in asked(campaign, stamp):
        key = _key(each.spec)
        if key not in judged:
            judged[key] = _judged(each.spec, once, campaign.settings.missing == "skip")
        verdict = judged[key]
        if isinstance(verdict, UsageError):
            raise CampaignError(f"{_where(campaign, each, verdict)}{verdict}") from verdict
        yield Entry(each, verdict)


def planned(campaign: Campaign, registry: Registry) -> tuple[str, list[Entry]]:
    """A campaign's stamp and all its entries, at least one of which can be run; raises as `entries` does."""
    when = stamp()
    found = list(entries(campaign, registry, when))
    if all(each.refusal is not None for each in found):
        first = found[0]
        assert first.refusal is not None
        where = f"{first.asked.where}: " if first.asked.where else ""
        raise CampaignError(
            f"{where}None of the {len(found)} cases of {campaign.name} can be run here. The first: {first.refusal[1]}"
        )
    return when, found


def check_predicates(campaign: Campaign, registry: Registry) -> None:
    """Refuse a predicate that asks for a name which no case has and nobody knows: it would silently never hold.

    Raises:
        CampaignError: with file and line.
    """
    predicates = [(each.when, each.where) for each in campaign.exclude]
    predicates += [(override.when, where) for override, where in campaign.overrides if override.when]
    predicates += [(each, block.where) for block in campaign.blocks for each in block.matrix.exclude]
    values: dict[str, set[str]] = {}
    for name in {name for each, _ in predicates for name, _ in each.values}:
        values[name] = _known(campaign, name, registry)
    for each, where in predicates:
        for name, value in each.values:
            if value not in values[name] and name not in ("topology", "data", "python"):
                unknown = UnknownName(name, value, values[name])
                raise CampaignError(f"{where}: {unknown}" if where else str(unknown)) from unknown


def _known(campaign: Campaign, field: str, registry: Registry) -> set[str]:
    """The names that a field may have: those in the matrix, and those that mean something to everyone."""
    found = set(VOCABULARY.get(field, ()))
    if field in _PLUGINS or field == "engine":
        found |= set(registry.names(_PLUGINS.get(field, "topologies")))
    layers: list[Any] = [override.set for override, _ in campaign.overrides]
    for block in campaign.blocks:
        layers += [block.matrix.fields, *block.matrix.include]
        layers += [{field: value} for value in block.matrix.axes.get(field, ())]
        layers += [{field: value} for group in block.matrix.zip for value in group.get(field, ())]
    found |= {str(layer[field]) for layer in layers if field in layer}
    default = getattr(attrs.fields_dict(RunSpec).get(field), "default", None)
    return found | ({default} if isinstance(default, str) else set())


@frozen
class _Once(Registry):
    """Plugins, each looked for and loaded only once."""

    _rows: dict[str, tuple[Row, ...]] = field(factory=dict, init=False)
    _loaded: dict[tuple[str, str], Any] = field(factory=dict, init=False)

    def rows(self, group: str) -> tuple[Row, ...]:
        if group not in self._rows:
            self._rows[group] = Registry(self.extra).rows(group)
        return self._rows[group]

    def load(self, group: str, name: str) -> Any:
        if (group, name) not in self._loaded:
            self._loaded[group, name] = Registry(self.extra).load(group, name)
        return self._loaded[group, name]


def _judged(spec: RunSpec, registry: Registry, skip_missing: bool) -> tuple[str, str] | UsageError | None:
    if spec.wants_largest:
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


def _key(spec: RunSpec) -> Any:
    """Of a spec what a refusal can depend on."""
    return (
        spec.framework,
        spec.model,
        spec.topology,
        spec.device,
        spec.precision,
        spec.compiler,
        spec.strategy,
        spec.layout,
        spec.data.source,
        spec.accumulation > 1,
        spec.learning_rate_policy,
        tuple(sorted(spec.options.items())),
    )


def _where(campaign: Campaign, each: Asked, error: UsageError) -> str:
    """`FILE:LINE: ` of what a plugin refused."""
    kind, name = getattr(error, "kind", "").split(" ")[0], getattr(error, "name", "")
    field = f"options.{name}" if kind == "option" else kind
    for block in campaign.blocks:
        if block.where == each.where:
            place = block.at("options" if kind == "option" and field not in block.places else field, name)
            return f"{place}: " if place else ""
    return f"{each.where}: " if each.where else ""
