"""The head of the report: an introductory sentence, the number of valid results, and the fastest framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Tone
from dlperf_sdk.reports.exclusions import format_excluded
from dlperf_sdk.reports.fastest import TITLE, describe_shared_facts, list_unmeasured, release
from dlperf_sdk.reports.html.page import Tile
from dlperf_sdk.reports.leads import NOT_SIGNIFICANT, describe_compiler, format_ratio, list_reservations
from dlperf_sdk.reports.numbers import common_scale, format_count, quantity
from dlperf_sdk.reports.overview import number_notes
from dlperf_sdk.reports.ranked_cases import describe_implementation, list_settings
from dlperf_sdk.reports.wording import format_name, join_names
from dlperf_sdk.results.result import Result


def lede(results: Sequence[Result]) -> str:
    """Return a sentence on the models, frameworks and topologies of the results, and on the days of measurement.

    It is plain text; the template escapes it.

    Raises:
        IndexError: There is no result.
    """
    specs = [result.spec for result in results]
    frameworks = join_names(dict.fromkeys(spec.framework for spec in specs))
    models = join_names(dict.fromkeys(spec.model for spec in specs))
    topologies = dict.fromkeys(str(spec.topology) for spec in sorted(specs, key=lambda s: s.topology.devices))
    days = sorted({result.started_at[:10] for result in results})
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    count = format_count(len(results), "result")
    return f"{models} in {frameworks}, on {join_names(topologies)}; {count} measured {period} (UTC)."


def validity_tile(results: Sequence[Result], outcomes: Sequence[Cell]) -> Tile:
    """Return the tile with the number of valid results, and the numbers of those that failed or have warnings.

    Args:
        results: The results.
        outcomes: The outcome of each result, from `labels.outcome`, in the same order.
    """
    tones = [outcome.tone for outcome in outcomes]
    failed = sum(result.failure is not None for result in results)
    invalid = tones.count("bad") - failed
    valid = len(results) - failed - invalid
    warnings = tones.count("doubt")
    remarks = [
        *([f"{failed:,} failed"] if failed else []),
        *([f"{invalid:,} failed validation"] if invalid else []),
        *([f"{warnings:,} with warnings"] if warnings else []),
    ]
    total = (
        f"all {len(results):,}" if valid == len(results) and not remarks else f"{valid:,} of {len(results):,}"
    )
    return Tile(
        "Validity",
        f"{total} valid",
        "; ".join(remarks) or "every check passed",
        "bad" if invalid else "doubt" if remarks else "good",
    )


UNDECIDED = "no clear lead"
"""The answer where the difference between the first two is not significant."""


def fastest_tiles(rankings: Sequence[Ranking], at_most: int) -> tuple[Tile, ...]:
    """Return tiles with the fastest framework, from the first ranking of each model and precision.

    Rankings of the same model, precision, topology and batch size, such as with and without clipping, are one tile.
    The tile names no single framework if these rankings have different fastest ones, or if a lead is not significant.
    Without rankings there is no tile.

    Args:
        rankings: The rankings, the most important first, which is the order of the tiles.
        at_most: Maximum number of tiles, at least one.
    """
    tiles: dict[tuple[str, ...], Tile] = {}
    _, notes = number_notes(rankings)
    for ranking in rankings:
        tile_key = _question(ranking)[:2]
        if tile_key not in tiles:
            equal = [other for other in rankings if _question(other) == _question(ranking)]
            tiles[tile_key] = _fastest_tile(equal, rankings, notes)
            if len(tiles) == at_most:
                break
    return tuple(tiles.values())


def _question(ranking: Ranking) -> tuple[str, ...]:
    names = ("model", "precision", "topology", "batch_size")
    return (*(str(ranking.facts.get(name, "")) for name in names), ranking.entries[0].unit)


def _fastest_tile(equal: Sequence[Ranking], rankings: Sequence[Ranking], notes: Mapping[int, int]) -> Tile:
    """Return the tile of rankings that answer the same question: the fastest lead, or all if their leaders differ."""
    ordered = sorted(equal, key=lambda ranking: -ranking.entries[0].throughput)
    facts = ordered[0].facts
    case = [str(facts.get("model", "")), str(facts["topology"]), str(facts.get("precision", ""))]
    case.append(f"batch {facts['batch_size']}")
    names = list(dict.fromkeys(str(ranking.entries[0].facts.get(ranking.factor)) for ranking in ordered))
    value = names[0] if len(names) == 1 else f"{' or '.join(names)}: it depends"
    if any(ranking.comparison.significant is False for ranking in ordered):
        value = UNDECIDED
    answers = ordered[:1] if value == names[0] else ordered
    text = "; ".join(_answer(ranking, rankings) for ranking in answers)
    is_firm = any(ranking.comparison.low is not None for ranking in answers)
    excluded = format_excluded(ordered[0], [ranking.entries[0] for ranking in answers])
    tone: Tone = "plain" if is_firm else "quiet"
    reserved = [ranking for ranking in answers if list_reservations(ranking.comparison, ranking.unstated)]
    note = notes[id(reserved[0])] if reserved else 0
    return Tile(f"Fastest: {' · '.join(case)}", value, text, tone, TITLE, excluded, bool(reserved), note)


def _answer(ranking: Ranking, rankings: Sequence[Ranking]) -> str:
    """Return the fastest case with its release and throughput, its lead over the second, and who was not measured."""
    first, second = ranking.entries[:2]
    framework, _, version = release(first)
    name = str(first.facts.get(ranking.factor))
    if version:
        # The version is the framework's, also where implementations are ranked.
        name += f" {version}" if ranking.factor == "framework" else f" on {framework} {version}"
    name += f"{describe_implementation(first, rankings)}{describe_compiler(ranking, first)}"
    rival = (
        f"{second.facts.get(ranking.factor)}{describe_implementation(second, rankings)}"
        f"{describe_compiler(ranking, second)} {common_scale([second.throughput], '').format_alone(second.throughput)}"
    )
    setting = describe_shared_facts(ranking, rankings)
    unmeasured = list_unmeasured(ranking, rankings)
    shared = ", ".join(
        f"{format_name(fact)} {value}" for fact, value in list_settings(ranking, (first, second))
    )
    return ", ".join(
        [
            f"{name} at {quantity(first.throughput, first.unit)}{f' ({setting})' if setting else ''}",
            f"{format_ratio(ranking.comparison)} {rival}",
            *([f"both with {shared}"] if shared else []),
            *([NOT_SIGNIFICANT] if ranking.comparison.significant is False else []),
            *(["no interval"] if ranking.comparison.low is None else []),
            *([f"{', '.join(unmeasured)} not measured"] if unmeasured else []),
        ]
    )
